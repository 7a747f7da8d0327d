"""What is seldom asked for, in little memory."""

from __future__ import annotations

import pickle
import zlib
from typing import Generic, TypeVar

_T = TypeVar("_T")
_FAST = 1


class Compact(Generic[_T]):
    """A value of many small objects as few bytes; called, it makes the value anew."""

    def __init__(self, value: _T) -> None:
        self._content = zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), _FAST)

    def __call__(self) -> _T:
        value: _T = pickle.loads(zlib.decompress(self._content))
        return value
