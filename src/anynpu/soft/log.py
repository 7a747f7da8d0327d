"""A runtime's log: lines on stderr, and in a file where the API has one."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path

from . import call_log

_LEVELS = {"E": 0, "W": 1, "I": 2, "D": 3}


class Log:
    """Writes lines with a letter for their level, a tag and the time.

    `variable` names the environment variable that chooses what is written: 0 errors (the default),
    1 warnings, 2 information, 3 debugging. `file`, where there is one, gets the same lines.
    """

    def __init__(self, tag: str, variable: str) -> None:
        self.file: Path | None = None
        self._tag = tag
        self._variable = variable
        self._level = 0

    def read_environment(self) -> None:
        """Take the level from the environment; anything but a number counts as 0."""
        text = os.environ.get(self._variable, "0").strip()
        self._level = int(text) if text.isdecimal() else 0

    def error(self, text: str) -> None:
        self._write("E", text)

    def warning(self, text: str) -> None:
        self._write("W", text)

    def notice(self, text: str) -> None:
        """A warning of the soft NPU's own, which is written whatever the level is."""
        self._write("W", text, is_always=True)

    def information(self, text: str) -> None:
        self._write("I", text)

    def is_debugging(self) -> bool:
        """Whether debugging lines are written: what they say may take time to find out."""
        return self._level >= _LEVELS["D"]

    def debug(self, text: str) -> None:
        self._write("D", text)

    def _write(self, letter: str, text: str, *, is_always: bool = False) -> None:
        is_hidden = _LEVELS[letter] > self._level and not is_always
        if is_hidden and letter != "W":
            return
        now = datetime.now()
        stamp = f"{now:%H:%M:%S}.{now.microsecond // 1000:03d}"
        said = [f"{letter} {self._tag}: [{stamp}] {line}" for line in text.splitlines()]
        for line in said:
            # A warning tells why a call failed also where no one wants to read it.
            call_log.note(line)
        if is_hidden:
            return
        lines = "".join(f"{line}\n" for line in said)
        if sys.stderr is not None:
            sys.stderr.write(lines)
            sys.stderr.flush()
        if self.file is not None:
            self._append(lines)

    def _append(self, lines: str) -> None:
        assert self.file is not None, "there is a file"
        try:
            with open(self.file, "a") as file:
                file.write(lines)
        except OSError:
            # A log that can't be written must not make a call fail.
            self.file = None
