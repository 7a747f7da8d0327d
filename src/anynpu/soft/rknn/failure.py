"""How a soft rknn_* function fails."""

from __future__ import annotations

from ...rknn.abi import ErrorCode


class Failure(Exception):
    """Ends a call: the caller gets `code`, the log gets `message` as an error line."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
