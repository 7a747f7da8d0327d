"""How a soft rknn_* function fails."""

from __future__ import annotations

from typing import Any

from ...rknn.abi import ErrorCode


class Failure(Exception):
    """Ends a call: the caller gets `code`, the log `message`, as an error or as a warning."""

    def __init__(self, code: ErrorCode, message: str, *, is_warning: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.is_warning = is_warning


def check_array(pointer: Any, count: int, limit: int, what: str) -> None:
    """PARAM_INVALID unless an array argument is there, with 1 to `limit` elements."""
    if not pointer:
        raise Failure(ErrorCode.PARAM_INVALID, f"the {what} pointer is NULL")
    if not 0 < count <= limit:
        raise Failure(ErrorCode.PARAM_INVALID, f"n_{what}({count}) is not in 1..{limit}")
