"""What a board says of itself: its chip, its kernel, its driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import OptionError
from ...soc import Soc
from ..formats.rknn.model import Generation

_DEVICE_TREE = "proc/device-tree/compatible"

HARDWARE_VERSIONS: Mapping[Generation, int] = {Generation.V2: 0x46495245, Generation.LITE: 0}
"""The words by which the vendor's runtime 1.5.2 knows the NPU, where that was seen."""

USUAL_DRIVER = (0, 9, 8)


@dataclass(frozen=True)
class Board:
    """A board with a chip.

    `driver` is the version of the kernel's driver. `hardware` is the version word of the NPU, None
    for what is known of the chip. `machine` is what `uname` says of the processor, None for what
    it says here.
    """

    soc: Soc
    driver: tuple[int, int, int] = USUAL_DRIVER
    hardware: int | None = None
    machine: str | None = None

    @property
    def has_drm(self) -> bool:
        """Whether the driver's memory is DRM's; the small chips' has a device of its own."""
        return self.soc.library == "librknnrt"

    def environment(self) -> dict[str, str]:
        """What the driver's library is told."""
        major, minor, patch = self.driver
        hardware = self.hardware
        if hardware is None:
            hardware = HARDWARE_VERSIONS.get(Generation(self.soc.driver_target), 0)
        settings = {
            "DEVICE": "drm" if self.has_drm else "misc",
            "VERSION": str(major * 10000 + minor * 100 + patch),
            "HARDWARE": hex(hardware),
            "SRAM": str(self.soc.sram_bytes),
        }
        if self.machine:
            settings["MACHINE"] = self.machine
        return settings

    def write_files(self, root: Path) -> None:
        """Write the files of the board that programs look at, below a folder that stands for /."""
        file = root / _DEVICE_TREE
        file.parent.mkdir(parents=True, exist_ok=True)
        names = (f"rockchip,{self.soc.name}-evb", f"rockchip,{self.soc.name}")
        file.write_bytes(b"".join(name.encode() + b"\0" for name in names))


def driver_version(text: str) -> tuple[int, int, int]:
    """A version such as 0.9.8; raises `OptionError` for another text."""
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) < 100 for part in parts):
        raise OptionError(f"a driver's version is three numbers such as 0.9.8, not {text!r}")
    major, minor, patch = map(int, parts)
    return major, minor, patch
