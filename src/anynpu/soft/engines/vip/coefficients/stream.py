"""A compressed stream: its header, and how it becomes whole numbers.

The numbers are those of the open encoder in Mesa's etnaviv driver, read backwards; runs of zeros,
which it doesn't write, are as files have them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .....native.library import load
from .....native.memory import address_of, passing_bytes
from ..refusal import Unknown
from ..structures import CodedStream

HEADER_SIZE = 28
SPARE = 1024
"""Values that a decoder may write past those that were wanted: it doesn't cut runs."""

_RUNS = 18
_VERSION = 1
_WIDE = 1
"""The bit of the header that says that values have 16 bits."""
_REAL = 2
"""The bit that says that they are float16."""
_RAW, _LONG_RUN = 7, 8


@dataclass(frozen=True)
class Header:
    """How streams are coded: the length of each symbol, the runs, what is added to every value.

    `is_wide` says that values have 16 bits: the code is that of the upper byte, less one where
    there are runs, and the lower byte lies in front of it. `is_real` says that they are float16
    with the sign as the lowest bit, `are_differences` that each is one to the value before, of
    which eight bits count.
    """

    lengths: bytes
    runs: bytes
    run_count: int
    average: int
    is_wide: bool = False
    is_real: bool = False
    are_differences: bool = False

    @classmethod
    def read(cls, blob: NDArray[np.uint8]) -> Header:
        """A blob's header; raises `Unknown` for a form that isn't known."""
        if blob.size < HEADER_SIZE:
            raise Unknown(f"a coefficient blob of {blob.size} bytes has no header")
        kinds, run_count, runs, symbols, average, _ = struct.unpack(
            "<BB18sIHH", blob[:HEADER_SIZE].tobytes()
        )
        is_wide, is_real = bool(kinds >> _WIDE & 1), bool(kinds >> _REAL & 1)
        if is_real and not is_wide:
            raise Unknown("coefficients of float16 in bytes aren't known")
        if kinds >> 4 != _VERSION:
            raise Unknown(f"coefficients of version {kinds >> 4} aren't known")
        lengths = bytes(symbols >> 4 * number & 15 for number in range(8))
        if max(lengths) > _LONG_RUN or run_count in (1, 2) or run_count > _RUNS:
            raise Unknown("a coefficient blob whose header makes no sense")
        are_differences = bool(kinds & 1)
        if are_differences and (is_wide or average or run_count):
            raise Unknown("differences of coefficients in this form aren't known")
        return cls(lengths, runs, run_count, average, is_wide, is_real, are_differences)


def decode(
    header: Header, stream: NDArray[np.uint8], bits: int, wanted: int
) -> tuple[NDArray[np.int16], int]:
    """The first `wanted` values of a stream of a given number of bits, and how many bits they took.

    Raises `Unknown` where the stream has fewer.
    """
    if bits > stream.size * 8:
        raise Unknown(f"a coefficient stream of {bits} bits in {stream.size} bytes")
    native = _native()
    if native is None:
        values, end = decode_slowly(header, stream, bits, wanted)
    else:
        values = passing_bytes(2 * (wanted + SPARE)).view(np.int16)
        call = CodedStream(
            bytes=address_of(stream),
            size=stream.size,
            bits=bits,
            lengths=header.lengths,
            runs=header.runs,
            run_count=header.run_count,
            average=header.average,
            is_wide=header.is_wide,
            values=address_of(values),
            wanted=wanted,
        )
        found = native.anynpu_vip_decode(ctypes.byref(call))
        values, end = values[: max(found, 0)], call.end
    if values.size < wanted:
        raise Unknown(f"a coefficient stream of {bits} bits has {values.size} of {wanted} values")
    return values[:wanted], end


@cache
def _native() -> ctypes.CDLL | None:
    library = load("vip_coefficients")
    if library is not None:
        library.anynpu_vip_decode.restype = ctypes.c_int64
    return library


def decode_slowly(
    header: Header, stream: NDArray[np.uint8], bits: int, wanted: int
) -> tuple[NDArray[np.int16], int]:
    """The same in Python, a bit at a time."""
    reader = _Bits(stream)
    values: list[int] = []
    codes: list[list[int]] = []
    while (reader.position < bits or len(codes) < 3) and len(values) < wanted:
        codes.append([reader.take(3), reader.take(3)])
        step = len(codes) - 1
        if step >= 1:
            for number, code in enumerate(codes[step - 1]):
                if code == 2:
                    codes[step - 1][number] |= reader.take(2) << 3
        if step >= 2:
            for code in codes[step - 2]:
                values.extend(_values(header, code, reader))
    return np.array(values, np.int64).astype(np.int16), reader.position


class _Bits:
    """A stream's bits, the lowest of each byte first; zeros past the end."""

    def __init__(self, stream: NDArray[np.uint8]) -> None:
        self._bits = np.unpackbits(stream, bitorder="little").tolist()
        self.position = 0

    def take(self, count: int) -> int:
        taken = self._bits[self.position : self.position + count]
        self.position += count
        return sum(bit << number for number, bit in enumerate(taken))


def _symbol(code: int) -> tuple[int, int | None]:
    """The symbol of a code with its extension above three bits, and the bit of the value in it."""
    low, extension = code & 7, code >> 3
    if low & 3 < 2:
        return low & 3, low >> 2
    if low == 2 and extension & 1:
        return 5, extension >> 1
    if low == 2:
        return (6 if extension == 2 else 7), None
    return {7: 2, 3: 3, 6: 4}[low], None


def _values(header: Header, code: int, reader: _Bits) -> Iterator[int]:
    symbol, inline = _symbol(code)
    length = header.lengths[symbol]
    has_runs = header.run_count > 0
    width = max(length, 1)
    if has_runs and length == _RAW:
        width = 8
    elif has_runs and length == _LONG_RUN:
        width = (header.run_count - 3).bit_length()
    is_run = has_runs and length in (0, _LONG_RUN)
    low = reader.take(8) if header.is_wide and not is_run else 0
    if inline is None:
        value = reader.take(width)
    else:
        value = reader.take(width - 1) << 1 | inline if width > 1 else inline
    if is_run:
        place = value if length == 0 else value + 2
        for _ in range(header.runs[min(place, _RUNS - 1)] + 1):
            yield header.average
    elif has_runs and length == _RAW:
        yield (value << 8 | low if header.is_wide else value) + header.average
    elif header.is_wide:
        magnitude = (value >> 1 | (1 << (length - 1) if length else 0)) - has_runs
        yield ((-1 - magnitude if value & 1 else magnitude) << 8 | low) + header.average
    else:
        magnitude = value >> 1 | (1 << (length - 1) if length else 0)
        lowest = 0 if has_runs else 1
        yield (-lowest - magnitude if value & 1 else magnitude) + header.average
