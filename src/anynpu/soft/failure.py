"""How a function of the soft NPU fails, whichever API it belongs to."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .log import Log


class Failure(Exception):
    """Ends a call: the caller gets `code`, the log `message`, as an error or as a warning."""

    def __init__(self, code: enum.IntEnum, message: str, *, is_warning: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.is_warning = is_warning


@dataclass(frozen=True)
class Conventions:
    """What the functions of an API answer when they fail for reasons of the soft NPU's own.

    `internal` is for an exception inside, `out_of_memory` for a lack of memory, `unavailable` while
    the soft NPU doesn't run. `log` is where they say why.
    """

    internal: enum.IntEnum
    out_of_memory: enum.IntEnum
    unavailable: enum.IntEnum
    log: Log
