"""The architectures whose programs can run here: who builds for them, and who runs them."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import LibraryError

_IDENTITY = struct.Struct("<4sBB10xHH")
"""The ELF magic, the class, the byte order, the type and the machine."""

_LITTLE_ENDIAN = 1


@dataclass(frozen=True)
class Architecture:
    """One architecture.

    `bits` and `machine` are what an ELF header says, `triplet` how Debian calls its compiler and
    its folder of libraries, `package` the Debian package of the compiler, `emulator` QEMU's
    program, `machines` what `uname` says where programs run without it.
    """

    name: str
    bits: int
    machine: int
    triplet: str
    package: str
    emulator: str
    machines: tuple[str, ...]

    @property
    def runs_natively(self) -> bool:
        """Whether this machine's processor runs its programs."""
        return platform.machine() in self.machines

    @property
    def libraries(self) -> Path | None:
        """Where a cross compiler's package has put the C library, None where it isn't there."""
        folder = Path("/usr") / self.triplet
        return folder if (folder / "lib").is_dir() else None

    def compiler(self) -> list[str]:
        """The compiler's command: ``$CC`` where it builds for this architecture, else Debian's.

        Raises `LibraryError`, which names the package to install.
        """
        tried = []
        for command in self._compilers():
            if shutil.which(command[0]) is None:
                tried.append(f"{command[0]}: not found")
                continue
            target = _target(command)
            if target.partition("-")[0] in self._targets:
                return command
            tried.append(f"{shlex.join(command)}: builds for {target or 'nothing that it tells'}")
        raise LibraryError(
            f"no C compiler for {self.name} ({'; '.join(tried)}); install one, for example with "
            f"`apt install {self.package}`, or name it in $CC"
        )

    def emulation(self) -> list[str]:
        """What runs a program: nothing, or QEMU's command.

        Raises `LibraryError`, which names the package to install.
        """
        if self.runs_natively:
            return []
        if found := shutil.which(self.emulator):
            return [found]
        raise LibraryError(
            f"programs for {self.name} need {self.emulator} here; install it, for example with "
            f"`apt install qemu-user`"
        )

    @property
    def _targets(self) -> tuple[str, ...]:
        """What compilers call it, before the first hyphen."""
        family = "armv" if self.name == "armhf" else ""
        versions = tuple(f"{family}{version}" for version in ("7", "7a", "7l", "8l"))
        return (self.triplet.partition("-")[0], *(versions if family else ()))

    def _compilers(self) -> Iterator[list[str]]:
        if named := os.environ.get("CC"):
            yield shlex.split(named)
        yield [f"{self.triplet}-gcc"]
        if self.runs_natively:
            yield from (["cc"], ["gcc"], ["clang"])


ARCHITECTURES = (
    Architecture(
        "armhf",
        32,
        40,
        "arm-linux-gnueabihf",
        "gcc-arm-linux-gnueabihf",
        "qemu-arm",
        ("armv7l", "armv8l"),
    ),
    Architecture(
        "arm64",
        64,
        183,
        "aarch64-linux-gnu",
        "gcc-aarch64-linux-gnu",
        "qemu-aarch64",
        ("aarch64", "arm64"),
    ),
    Architecture("amd64", 64, 62, "x86_64-linux-gnu", "gcc", "qemu-x86_64", ("x86_64", "amd64")),
)
_BY_IDENTITY = {(found.bits, found.machine): found for found in ARCHITECTURES}


def find(name: str) -> Architecture:
    """The architecture of a Debian name: armhf, arm64, amd64."""
    return next(found for found in ARCHITECTURES if found.name == name)


def of_file(file: Path) -> Architecture:
    """The architecture of a program or a shared library.

    Raises `LibraryError` for what is no ELF file, or for another architecture; OSError where it
    can't be read.
    """
    with file.open("rb") as opened:
        start = opened.read(_IDENTITY.size)
    if len(start) < _IDENTITY.size or not start.startswith(b"\x7fELF"):
        kind = "a script" if start.startswith(b"#!") else "no ELF file"
        raise LibraryError(
            f"{file} is {kind}; name the program itself, built for "
            f"{' or '.join(known.name for known in ARCHITECTURES)}"
        )
    _, word, order, _, machine = _IDENTITY.unpack(start)
    found = _BY_IDENTITY.get((32 * word, machine)) if order == _LITTLE_ENDIAN else None
    if found is None:
        raise LibraryError(
            f"{file} is for a machine that ELF calls {machine}, with {32 * word} bits; known are "
            f"{', '.join(known.name for known in ARCHITECTURES)}"
        )
    return found


def _target(compiler: list[str]) -> str:
    """What a compiler builds for, as it says itself; empty where it doesn't."""
    import subprocess

    try:
        told = subprocess.run(
            [*compiler, "-dumpmachine"], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return told.stdout.strip()
