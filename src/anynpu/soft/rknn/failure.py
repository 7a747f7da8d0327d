"""How a soft rknn_* function fails."""

from __future__ import annotations

from typing import Any

from ...rknn.abi import ErrorCode
from ..failure import Conventions, Failure
from .log import LOG

__all__ = ["CONVENTIONS", "Failure", "check_array"]

CONVENTIONS = Conventions(ErrorCode.FAIL, ErrorCode.MALLOC_FAIL, ErrorCode.DEVICE_UNAVAILABLE, LOG)


def check_array(pointer: Any, count: int, limit: int, what: str) -> None:
    """PARAM_INVALID unless an array argument is there, with 1 to `limit` elements."""
    if not pointer:
        raise Failure(ErrorCode.PARAM_INVALID, f"the {what} pointer is NULL")
    if not 0 < count <= limit:
        raise Failure(ErrorCode.PARAM_INVALID, f"n_{what}({count}) is not in 1..{limit}")
