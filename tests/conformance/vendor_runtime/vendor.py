"""Where the vendor's runtime is, and why it can't be used where it can't.

It is librknnrt.so 1.5.2 for 32-bit ARM, of the repository rockchip-linux/rknpu2 (BSD-3-Clause),
as a black box: it is run, and never part of this project. The folder that holds it is
``$ANYNPU_VENDOR_RUNTIME``, else the shared one beside the repository.
"""

from __future__ import annotations

import os
from pathlib import Path

from anynpu.errors import LibraryError
from anynpu.soft.driver import architecture
from tests.shared import VENDOR_RUNTIME

FOLDER = Path(os.environ.get("ANYNPU_VENDOR_RUNTIME") or VENDOR_RUNTIME)
VERSION = "1.5.2"


class UnavailableError(Exception):
    """What is needed isn't here; the text is the reason for a test to be skipped."""


def library(name: str = "librknnrt.so") -> Path:
    """The vendor's library; raises `UnavailableError`."""
    found = FOLDER / name
    if not found.is_file():
        raise UnavailableError(
            f"the vendor's {name} is not in {FOLDER}; name its folder in $ANYNPU_VENDOR_RUNTIME"
        )
    return found


def check_tools() -> None:
    """Raise `UnavailableError` where programs for the library can't be compiled and run."""
    armhf = architecture.find("armhf")
    try:
        armhf.compiler()
        armhf.emulation()
    except LibraryError as error:
        raise UnavailableError(str(error)) from None
    if not armhf.runs_natively and armhf.libraries is None:
        raise UnavailableError(
            f"the C library for {armhf.name} is missing: `apt install {armhf.package}`"
        )
