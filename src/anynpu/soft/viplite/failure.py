"""How a soft vip_* function fails."""

from __future__ import annotations

from typing import Any

from ...viplite.abi import Status
from ..failure import Conventions, Failure
from .log import LOG

__all__ = ["CONVENTIONS", "Failure", "invalid", "require"]

CONVENTIONS = Conventions(Status.FAILURE, Status.OUT_OF_MEMORY, Status.FAILURE, LOG)


def invalid(message: str) -> Failure:
    """INVALID_ARGUMENTS, and what is wrong."""
    return Failure(Status.INVALID_ARGUMENTS, message)


def require(pointer: Any, what: str) -> None:
    """INVALID_ARGUMENTS unless a pointer argument is there."""
    if not pointer:
        raise invalid(f"the {what} pointer is NULL")
