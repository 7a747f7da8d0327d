"""How commands hold real numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .interning import Interned
from .refusal import Unknown

MANTISSA_BITS = 23
_NO_NUMBER = 255


def scale_of(mantissa: int, exponent: int) -> float:
    """A multiplier of 23 bits of mantissa and an exponent of eight bits, as float32 has them."""
    if not exponent:
        return 0.0
    return (1 + mantissa / 2.0**MANTISSA_BITS) * 2.0 ** (exponent - 127)


def table_values(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """A table's entries: a sign (bit 20), five bits of exponent, fifteen of mantissa; read-only.

    Equal tables share one array.
    """
    return _values(words.tobytes())


@Interned
def _values(content: bytes) -> NDArray[np.float64]:
    words = np.frombuffer(content, np.uint32)
    exponent = (words >> 15 & 31).astype(np.int64)
    magnitude = (1 + (words & 0x7FFF) / 32768.0) * 2.0 ** (exponent - 15.0)
    values = np.where(exponent > 0, magnitude, 0.0) * np.where(words >> 20 & 1, -1.0, 1.0)
    values.flags.writeable = False
    return values


def coarse_table_values(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Entries of a sign (bit 20), eight bits of exponent, twelve of mantissa; read-only.

    Raises `Unknown` for an exponent that stands for no finite number.
    """
    exponent = (words >> 12 & 255).astype(np.int64)
    if (exponent == _NO_NUMBER).any():
        raise Unknown("an entry of a table whose exponent stands for no finite number")
    magnitude = (1 + (words & 0xFFF) / 4096.0) * 2.0 ** (exponent - 127.0)
    values = np.where(exponent > 0, magnitude, 0.0) * np.where(words >> 20 & 1, -1.0, 1.0)
    values.flags.writeable = False
    result: NDArray[np.float64] = values
    return result
