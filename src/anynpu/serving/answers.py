"""From exceptions to the protocol's answers: an HTTP status, a gRPC code, a text."""

from __future__ import annotations

import asyncio
import enum

from ..errors import (
    AnynpuError,
    CallError,
    CallTimeoutError,
    ClosedError,
    InvalidArgumentError,
    InvalidModelError,
    ModelError,
    OptionError,
    QueueFullError,
    TensorError,
)


class Answer(enum.Enum):
    """A kind of answer: its HTTP status, and its gRPC code's name."""

    OK = (200, "OK")
    WRONG = (400, "INVALID_ARGUMENT")
    UNKNOWN_CALLER = (401, "UNAUTHENTICATED")
    FORBIDDEN = (403, "PERMISSION_DENIED")
    NOT_FOUND = (404, "NOT_FOUND")
    NO_METHOD = (405, "UNIMPLEMENTED")
    SLOW_BODY = (408, "DEADLINE_EXCEEDED")
    TOO_LARGE = (413, "RESOURCE_EXHAUSTED")
    NOT_SUPPORTED = (415, "UNIMPLEMENTED")
    GONE = (499, "CANCELLED")
    FAILED = (500, "INTERNAL")
    FULL = (503, "RESOURCE_EXHAUSTED")
    UNAVAILABLE = (503, "UNAVAILABLE")
    LATE = (504, "DEADLINE_EXCEEDED")

    def __init__(self, status: int, code: str) -> None:
        self.status, self.code = status, code

    @property
    def may_be_repeated(self) -> bool:
        """Whether the same request may be answered a little later."""
        return self.status == Answer.FULL.status


class Refusal(AnynpuError):
    """A request is answered with something else than a result; `str` says why."""

    def __init__(self, answer: Answer, message: str) -> None:
        super().__init__(message)
        self.answer = answer


_BY_KIND: tuple[tuple[type[BaseException], Answer], ...] = (
    (QueueFullError, Answer.FULL),
    (CallTimeoutError, Answer.LATE),
    # The library was called wrongly, or got a file that was good when it was opened: our mistake.
    (InvalidArgumentError, Answer.FAILED),
    (InvalidModelError, Answer.UNAVAILABLE),
    (CallError, Answer.UNAVAILABLE),
    (ClosedError, Answer.UNAVAILABLE),
    (TensorError, Answer.WRONG),
    (OptionError, Answer.WRONG),
    (ModelError, Answer.UNAVAILABLE),
    (asyncio.CancelledError, Answer.GONE),
    (MemoryError, Answer.UNAVAILABLE),
)


def answer_to(error: BaseException) -> tuple[Answer, str]:
    """The answer that an exception is, and its text.

    Of one that nobody raised on purpose a client hears the kind alone.
    """
    if isinstance(error, Refusal):
        return error.answer, str(error)
    for kind, answer in _BY_KIND:
        if isinstance(error, kind):
            return answer, str(error) or kind.__name__
    if isinstance(error, AnynpuError):
        return Answer.FAILED, str(error)
    return Answer.FAILED, f"the server failed with {type(error).__name__}; its log says more"
