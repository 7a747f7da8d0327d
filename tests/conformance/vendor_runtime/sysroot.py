"""A 32-bit Debian with Python and NumPy in a folder, in which the Python layer runs as on a board.

``$ANYNPU_ARMHF_SYSROOT`` names the folder, else it is in the user's cache. Where it isn't there,
``python -m tests.conformance.vendor_runtime.sysroot`` makes it with mmdebstrap from the packages
of Debian 12; nothing of it is executed for that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .vendor import UnavailableError

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
SYSROOT = Path(os.environ.get("ANYNPU_ARMHF_SYSROOT") or _CACHE / "anynpu" / "armhf-bookworm")
MIRROR = os.environ.get("ANYNPU_DEBIAN_MIRROR") or "http://deb.debian.org/debian"
_PACKAGES = "python3,python3-numpy,libstdc++6,libgomp1"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TRIPLET = "arm-linux-gnueabihf"
_OWN_FOLDERS = ("tmp", "home", "root", "proc", "sys", "dev")
"""Folders of which programs are to see this machine's."""


def python() -> Path:
    """The interpreter in the folder; raises `UnavailableError`, which says how to make it."""
    found = SYSROOT / "usr" / "bin" / "python3.11"
    if not found.is_file():
        raise UnavailableError(
            f"no Python for armhf in {SYSROOT}: `make conformance` makes it with mmdebstrap, or "
            f"name a folder in $ANYNPU_ARMHF_SYSROOT"
        )
    return found


def library_folders() -> list[Path]:
    """Where the interpreter's extensions find their libraries: no package's scripts have run."""
    folder = SYSROOT / "usr" / "lib" / _TRIPLET
    return [folder, SYSROOT / "lib" / _TRIPLET, folder / "blas", folder / "lapack"]


def make() -> None:
    """Make the folder where it isn't there; raises `UnavailableError` with the reason."""
    try:
        python()
    except UnavailableError:
        _bootstrap()


def _bootstrap() -> None:
    if shutil.which("mmdebstrap") is None:
        raise UnavailableError("mmdebstrap is missing: `apt install mmdebstrap`")
    work = SYSROOT.with_name(f"{SYSROOT.name}.{os.getpid()}")
    work.parent.mkdir(parents=True, exist_ok=True)
    command = [
        "mmdebstrap",
        "--variant=extract",
        "--architectures=armhf",
        f"--include={_PACKAGES}",
        "--quiet",
        *([f"--keyring={_KEYRING}"] if _KEYRING.is_file() else []),
        "bookworm",
        str(work),
        MIRROR,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-3:]
            raise UnavailableError(f"mmdebstrap failed: {' / '.join(last)}")
        for name in _OWN_FOLDERS:
            shutil.rmtree(work / name, ignore_errors=True)
        work.rename(SYSROOT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"no Python for armhf can be made: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    try:
        make()
    except UnavailableError as reason:
        sys.exit(str(reason))
    print(SYSROOT)
