"""From a server's status to an exception, and which failures may be repeated elsewhere."""

from __future__ import annotations

from typing import Any

from ...errors import (
    RejectedRequestError,
    ServerAccessError,
    ServerAnswerError,
    ServerBusyError,
    ServerError,
    ServerTimeoutError,
    ServerUnavailableError,
    UnknownModelError,
)
from ..addresses import Address

_KINDS: dict[str, type[ServerError]] = {
    "INVALID_ARGUMENT": RejectedRequestError,
    "OUT_OF_RANGE": RejectedRequestError,
    "FAILED_PRECONDITION": RejectedRequestError,
    "NOT_FOUND": UnknownModelError,
    "UNAUTHENTICATED": ServerAccessError,
    "PERMISSION_DENIED": ServerAccessError,
    "RESOURCE_EXHAUSTED": ServerBusyError,
    "DEADLINE_EXCEEDED": ServerTimeoutError,
    "UNAVAILABLE": ServerUnavailableError,
}
_ADVICE: dict[type[ServerError], str] = {
    ServerAccessError: "; the provider options token, token_file and tls_* say who asks",
    ServerTimeoutError: "; timeout_ms says how long a server may take",
    ServerUnavailableError: "; see that it runs and that this machine reaches it",
    UnknownModelError: "; the part of the address after the port names a model of the server's",
}
_TOO_LARGE = "larger than max"
"""gRPC says so with the code of a full queue, and it stays so however often it is asked."""
_REPEATABLE = frozenset(
    ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED", "INTERNAL", "CANCELLED")
)
"""What another server may do better with the same request, which changes nothing on any."""


def of_status(address: Address, error: Any) -> ServerError:
    """The exception for a gRPC call that failed."""
    code, text = error.code().name, error.details() or ""
    is_too_large = code == "RESOURCE_EXHAUSTED" and _TOO_LARGE in text
    kind = RejectedRequestError if is_too_large else _KINDS.get(code, ServerError)
    said = text or "nothing was said of the reason"
    message = f"{address}: {said} ({code}){_ADVICE.get(kind, '')}"
    return kind(message, str(address), code, text)


def of_answer(address: Address, problem: str) -> ServerAnswerError:
    """The exception for an answer that doesn't fit what was asked."""
    return ServerAnswerError(
        f"{address} gave an answer that is none to the request: {problem}; see what runs there",
        str(address),
    )


def is_repeatable(error: ServerError) -> bool:
    """Whether the request may be run again, here or elsewhere."""
    if isinstance(error, RejectedRequestError):
        return False
    return isinstance(error, ServerAnswerError) or error.code in _REPEATABLE


def is_gone(error: ServerError) -> bool:
    """Whether a server that failed so is to rest until it says that it is ready."""
    return isinstance(
        error, (ServerAnswerError, ServerTimeoutError, ServerUnavailableError)
    ) or error.code in ("CANCELLED", "ABORTED")
