"""What rknn-toolkit-lite2 writes with: lines of a letter and a text, and a logger for the level."""

from __future__ import annotations

import logging
import sys

_LEVELS = {
    "D": logging.DEBUG, "I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR,
}  # fmt: skip
_ALWAYS = logging.CRITICAL + 1


class RKNNLog:
    """Lines on the standard error stream, and in a file if there is one.

    `logger` is only asked for its level: `rknn_log.logger.setLevel(logging.ERROR)`.
    """

    def __init__(self, file: str | None = None) -> None:
        self.logger = logging.Logger("rknnlite", logging.WARNING)
        self._file = file

    def d(self, text: object, *_: object) -> None:
        """Write what helps to find faults."""
        self._write("D", text)

    def i(self, text: object, *_: object) -> None:
        """Write what happens."""
        self._write("I", text)

    def w(self, text: object, *_: object) -> None:
        """Write a warning."""
        self._write("W", text)

    def e(self, text: object, *_: object) -> None:
        """Write what went wrong."""
        self._write("E", text)

    def p(self, text: object, *_: object) -> None:
        """Write whatever the level is."""
        self._write("", text)

    def _write(self, letter: str, text: object) -> None:
        if _LEVELS.get(letter, _ALWAYS) < self.logger.level:
            return
        line = f"{letter} {text}".lstrip()
        print(line, file=sys.stderr)
        if self._file:
            with open(self._file, "a", encoding="utf-8") as file:
                file.write(line + "\n")
