"""What each chip can do.

Sources: the RKNN C API reference (sections 2 and 4.1), tables 5-1 and 5-2 of the RKNN SDK's user
guide (channel blocks and row alignment), the chips' data sheets (cores).
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from pathlib import Path

from .errors import OptionError
from .tensor import DType

DEVICE_TREE = Path("/proc/device-tree/compatible")
ENVIRONMENT_VARIABLE = "ANYNPU_SOC"


class Family(enum.Enum):
    """The columns of Tables 4-1 and 4-2 of the RKNN C API reference."""

    RK356X = "RK3562/RK3566/RK3568"
    RK3588 = "RK3576/RK3588"
    RV1106 = "RV1103/RV1106"


@dataclass(frozen=True)
class Soc:
    """One chip.

    `atom_bytes` is the size of a channel block of one pixel (C2 times the element size), and also
    what a row of a native input is aligned to, counted per channel. `library` is the name of the
    vendor's runtime for it. `driver_target` is how that runtime's log calls the NPU.
    """

    name: str
    family: Family
    cores: int
    atom_bytes: int
    library: str
    driver_target: str

    def channel_block(self, dtype: DType) -> int:
        """C2 of the NC1HWC2 layout for an element type."""
        return self.atom_bytes * 8 // dtype.bits

    def width_stride(self, width: int, dtype: DType) -> int:
        """Pixels from one row of a native input to the next: `width` rounded up."""
        unit = self.channel_block(dtype)
        return -(-width // unit) * unit


_SOCS = (
    Soc("rk3562", Family.RK356X, 1, 16, "librknnrt", "RKNPU lite"),
    Soc("rk3566", Family.RK356X, 1, 8, "librknnrt", "RKNPU lite"),
    Soc("rk3568", Family.RK356X, 1, 8, "librknnrt", "RKNPU lite"),
    Soc("rk3576", Family.RK3588, 2, 16, "librknnrt", "RKNPU f2"),
    Soc("rk3588", Family.RK3588, 3, 16, "librknnrt", "RKNPU v2"),
    Soc("rv1103", Family.RV1106, 1, 16, "librknnmrt", "RKNPU t3"),
    Soc("rv1106", Family.RV1106, 1, 16, "librknnmrt", "RKNPU t3"),
)
SOCS = {soc.name: soc for soc in _SOCS}
DEFAULT = SOCS["rk3588"]


def find(name: str) -> Soc:
    """The chip of that name, in any case, with or without a package suffix (``RK3588S``).

    Raises `OptionError`, which lists the known names.
    """
    key = name.strip().lower()
    for known in sorted(SOCS, key=len, reverse=True):
        if key == known or (key.startswith(known) and key[len(known) :].isalpha()):
            return SOCS[known]
    raise OptionError(f"unknown chip {name!r}; known are {', '.join(SOCS)}")


def chosen() -> Soc | None:
    """The chip that ``$ANYNPU_SOC`` names, None where it is unset or empty."""
    name = os.environ.get(ENVIRONMENT_VARIABLE)
    return find(name) if name else None


def detect() -> Soc | None:
    """The chip this process runs on, by the device tree; None off a known board."""
    try:
        compatible = DEVICE_TREE.read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    for entry in compatible.split("\0"):
        name = entry.partition(",")[2]
        if name:
            try:
                return find(name)
            except OptionError:
                continue
    return None
