"""From an API's return codes to exceptions."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import CallError


class CallStatus:
    """What the codes of one C API mean; 0 is success.

    `meanings` has for each of the members of `codes` (which have a `symbol`) the exception and
    what happened; `unknown` is said of all others.
    """

    def __init__(
        self,
        codes: type[enum.IntEnum],
        meanings: Mapping[Any, tuple[type[CallError], str]],
        unknown: str,
    ) -> None:
        self._codes, self._meanings, self._unknown = codes, meanings, unknown

    def error_for(
        self, call: str, code: int, detail: str = "", log: Sequence[str] = ()
    ) -> CallError:
        """The exception for a C function's code; `detail` becomes the message's second line.

        `log` is what the library logged during the call, where that is known.
        """
        try:
            known: Any = self._codes(code)
            kind, meaning = self._meanings[known]
        except (ValueError, KeyError):
            return CallError(call, code, "an unknown code", self._unknown, detail, log)
        return kind(call, code, known.symbol, meaning, detail, log)

    def check(self, call: str, code: int, detail: str = "") -> None:
        """Raise the exception for `code` unless it is success; the library's log isn't asked."""
        if code != 0:
            raise self.error_for(call, code, detail)
