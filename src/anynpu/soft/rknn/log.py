"""The runtime's log: lines on stderr as the vendor's runtime writes them.

``RKNN_LOG_LEVEL`` chooses what is written: 0 errors (the default), 1 warnings, 2 information,
3 debugging. It is read at each `rknn_init`.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime

ENVIRONMENT_VARIABLE = "RKNN_LOG_LEVEL"
_LEVELS = {"E": 0, "W": 1, "I": 2, "D": 3}
_level = 0


def read_environment() -> None:
    """Take the level from the environment; anything but a number counts as 0."""
    global _level
    text = os.environ.get(ENVIRONMENT_VARIABLE, "0").strip()
    _level = int(text) if text.isdecimal() else 0


def error(text: str) -> None:
    _write("E", text)


def warning(text: str) -> None:
    _write("W", text)


def information(text: str) -> None:
    _write("I", text)


def is_debugging() -> bool:
    """Whether debugging lines are written: what they say may take time to find out."""
    return _level >= _LEVELS["D"]


def debug(text: str) -> None:
    _write("D", text)


def _write(letter: str, text: str) -> None:
    if _LEVELS[letter] > _level or sys.stderr is None:
        return
    now = datetime.now()
    stamp = f"{now:%H:%M:%S}.{now.microsecond // 1000:03d}"
    lines = "".join(f"{letter} RKNN: [{stamp}] {line}\n" for line in text.splitlines())
    sys.stderr.write(lines)
    sys.stderr.flush()
