"""What a board's kernel shows of its NPU: load, clock and temperature."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class NpuState:
    """Loads are 0 to 1 by core; None and empty where the kernel shows nothing."""

    loads: dict[str, float] = field(default_factory=dict)
    hertz: float | None = None
    celsius: float | None = None


def read(root: Path) -> NpuState:
    """The state now, from the kernel's files under `root`; load takes the right to read debugfs."""
    return NpuState(_loads(root), _hertz(root), _celsius(root))


def _loads(root: Path) -> dict[str, float]:
    """From ``NPU load:  Core0: 12%, Core1:  0%,`` or, with one core, ``NPU load:  12%``."""
    text = _text(root / "sys/kernel/debug/rknpu/load")
    cores = {core: int(share) / 100 for core, share in re.findall(r"Core(\d+):\s*(\d+)%", text)}
    whole = re.search(r"load:\s*(\d+)%", text)
    return cores or ({"0": int(whole.group(1)) / 100} if whole else {})


def _hertz(root: Path) -> float | None:
    for folder in sorted(root.glob("sys/class/devfreq/*npu*")):
        now = _text(folder / "cur_freq")
        if now.isdecimal():
            return float(now)
    return None


def _celsius(root: Path) -> float | None:
    for folder in sorted(root.glob("sys/class/thermal/thermal_zone*")):
        if "npu" in _text(folder / "type"):
            thousandths = _text(folder / "temp")
            if thousandths.lstrip("-").isdecimal():
                return int(thousandths) / 1000
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
