"""Write answers to where a program wants them."""

from __future__ import annotations

import ctypes
from typing import Any

from ...viplite.abi import MAX_NAME_LEN
from .failure import require


def put(value: int | None, kind: Any, answer: Any) -> None:
    """Write an answer of a ctypes type to where the program wants it."""
    require(value, "value")
    assert value is not None, "it was required"
    if issubclass(kind, ctypes.Array):
        target = kind.from_address(value)
        if kind._type_ is ctypes.c_char:
            target.value = answer
        else:
            target[:] = answer
    elif issubclass(kind, ctypes.Structure):
        ctypes.memmove(value, ctypes.addressof(answer), ctypes.sizeof(kind))
    else:
        kind.from_address(value).value = answer


def name_of(text: str) -> bytes:
    """A name as the API has it: 64 bytes with the zero at the end."""
    return text.encode()[: MAX_NAME_LEN - 1]
