"""What is equal is held once, as long as anything holds it: a network's many tables are few."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

_T = TypeVar("_T")
_DIGEST = 32


class Interned(Generic[_T]):
    """`make`, a function of bytes, of whose results those from equal bytes are one object.

    `make` may be called twice where two threads come at once. What it raises is passed on.
    """

    def __init__(self, make: Callable[[bytes], _T]) -> None:
        self._make = make
        self._held: WeakValueDictionary[bytes, _T] = WeakValueDictionary()

    def __call__(self, content: bytes) -> _T:
        key = hashlib.blake2b(content, digest_size=_DIGEST).digest()
        held = self._held.get(key)
        if held is None:
            held = self._held.setdefault(key, self._make(content))
        return held
