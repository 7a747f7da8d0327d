"""Random programs for RV1103 give the bytes that boards would give: no difference anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from . import board_model as board
from . import micro_programs as micro
from .board_model import Converter

Pair = tuple[NDArray[np.int8], NDArray[np.int8]]
Random = np.random.Generator


def _integer(rng: Random, low: int, high: int) -> int:
    return int(rng.integers(low, high))


def _pair(rng: Random, low: int, high: int) -> tuple[int, int]:
    return _integer(rng, low, high), _integer(rng, low, high)


def _features(rng: Random, most: int, channels: int) -> NDArray[np.int8]:
    return rng.integers(-128, 128, (*_pair(rng, 1, most), channels)).astype(np.int8)


def _converter(rng: Random, is_tie_rich: bool, more: int = 0) -> Converter:
    """A converter as files have it, or one of a few bits, of whose results many are ties."""
    scale = 1 << _integer(rng, 0, 2) if is_tie_rich else _integer(rng, 8192, 32768)
    shift = _integer(rng, 1, 5) if is_tie_rich else _integer(rng, 20, 28)
    return Converter(
        scale, shift + more, _integer(rng, -128, 128), ties_away=bool(rng.integers(0, 2))
    )


def _registers(converter: Converter) -> dict[int, int]:
    return micro.converter(
        converter.scale, converter.shift, converter.zero_point, converter.ties_away
    )


class _Convolution:
    """A random convolution; a tie-rich one has small sums, and factors of powers of two."""

    def __init__(self, rng: Random, is_tie_rich: bool) -> None:
        size = _integer(rng, 1, 6), _integer(rng, 1, 6)
        count, channels = _integer(rng, 1, 40), _integer(rng, 1, 4 if is_tie_rich else 50)
        values, most, bias = (9, 2, 40) if is_tie_rich else (128, 128, 20000)
        self.stride = _pair(rng, 1, 4) if rng.random() < 0.4 else (1, 1)
        self.dilation = _pair(rng, 1, 3) if rng.random() < 0.3 else (1, 1)
        self.padding = _pair(rng, 0, min(3, *size)) if min(size) > 1 else (0, 0)
        reach = [(extent - 1) * step + 1 for extent, step in zip(size, self.dilation, strict=True)]
        extents = [_integer(rng, extent, extent + 9) for extent in reach]
        self.x = rng.integers(-values, values, (*extents, channels)).astype(np.int8)
        self.zero_point = _integer(rng, -values, values)
        stored = rng.integers(-most, most, (count, channels, *size))
        factors = 1 << rng.integers(11, 15, count) if is_tie_rich else rng.integers(1, 16385, count)
        self.kernels = micro.Kernels(
            stored, rng.integers(-most, most, count), rng.integers(-bias, bias, count), factors
        )
        self.sums = board.sums(
            self.x, stored - self.kernels.zero_points[:, None, None, None], self.kernels.bias,
            self.stride, self.dilation, (*self.padding, *self.padding), self.zero_point,
        )  # fmt: skip

    def run(self, following: micro.Registers, tables: micro.Words = ()) -> Pair:
        """Through the engine."""
        height, width, _ = self.sums.shape
        return micro.convolve(
            self.x, self.kernels, (height, width), self.stride, self.dilation, self.padding,
            self.zero_point, following, tables,
        )  # fmt: skip


def _dense(rng: Random, is_tie_rich: bool) -> tuple[Pair, NDArray[np.int8]]:
    what, converter = _Convolution(rng, is_tie_rich), _converter(rng, is_tie_rich)
    values = board.scaled(what.sums, what.kernels.factors)
    match _integer(rng, 0, 3):
        case 0:
            return what.run(_registers(converter)), converter(values)
        case 1:
            relu = {**micro.RELU, **_registers(converter)}
            return what.run(relu), converter(np.maximum(values, 0))
        case _:
            limit = _integer(rng, 100, 30000)
            clip = {**micro.upper_limit(limit), **_registers(converter)}
            return what.run(clip), converter(np.clip(values, 0, limit))


def _leaky(rng: Random, is_tie_rich: bool) -> tuple[Pair, NDArray[np.int8]]:
    what = _Convolution(rng, is_tie_rich)
    converter = _converter(rng, is_tie_rich, board.FACTOR_BITS)
    slope = 1 << _integer(rng, 10, 15) if is_tie_rich else _integer(rng, 1, 16385)
    values = board.leaky(what.sums, what.kernels.factors, slope)
    return what.run({**micro.slope(slope), **_registers(converter)}), converter(values)


def _table(rng: Random, is_tie_rich: bool) -> tuple[Pair, NDArray[np.int8]]:
    what = _Convolution(rng, is_tie_rich)
    # Places of the table: what lies beyond its ends has not been looked at on a board.
    largest = np.abs(what.sums).max((0, 1)).clip(1)
    factors = np.minimum(16383 * (1 << board.FACTOR_BITS) // largest, 16384).clip(1)
    kernels = what.kernels
    what.kernels = micro.Kernels(kernels.stored, kernels.zero_points, kernels.bias, factors)
    places = board.scaled(what.sums, factors).clip(-16384, 16383)
    if (places != board.scaled(what.sums, factors)).any():
        return _table(rng, is_tie_rich)
    negative, positive = np.sort(rng.integers(-32768, 32768, (2, 513)))
    converter = Converter(255, 15, _integer(rng, -128, 128))
    found = board.looked_up(places, negative, positive, 5)
    registers = {**micro.TABLE, **_registers(converter)}
    return what.run(registers, micro.load_tables(negative, positive)), converter(found)


def _combined(rng: Random, is_tie_rich: bool) -> tuple[Pair, NDArray[np.int8]]:
    a = _features(rng, 12, _integer(rng, 1, 40))
    b = rng.integers(-128, 128, a.shape).astype(np.int8)
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    kind = _integer(rng, 0, 4)
    if kind == 3:
        converter, zero_point = _converter(rng, is_tie_rich), _integer(rng, -128, 128)
        registers = {
            0x4048: 0, 0x4050: 0x30000002, 0x4070: 0x81004094, 0x4074: micro.signed(-zero_point),
            0x4078: 1, **_registers(converter),
        }  # fmt: skip
        return micro.combine(a, b, registers), converter(wide_a * (wide_b - zero_point))
    half = Converter(0x4000, 29, _integer(rng, -9, 9), bool(rng.integers(0, 2)))
    values, registers = (
        (wide_a + wide_b, {}),
        (wide_a - wide_b, {0x4078: micro.signed(-0x4000, 16)}),
        (np.maximum(a, b).astype(np.int64), {0x4070: 0x8000C0C0}),
    )[kind]
    return micro.combine(a, b, {**registers, **_registers(half)}), half(values << 14)


def _pooled(rng: Random, _: bool) -> tuple[Pair, NDArray[np.int8]]:
    kernel, stride = _pair(rng, 1, 8), _integer(rng, 1, 4)
    extents = [_integer(rng, size, 16) for size in kernel]
    x = rng.integers(-128, 128, (*extents, _integer(rng, 1, 40))).astype(np.int8)
    is_average = bool(rng.integers(0, 2))
    expected = board.averages if is_average else board.greatest
    return micro.pool(x, kernel, stride, is_average), expected(x, kernel, stride)


PROGRAMS: dict[str, Callable[[Random, bool], Any]] = {
    "convolution": _dense,
    "leaky relu": _leaky,
    "table": _table,
    "two operands": _combined,
    "pooling": _pooled,
}


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.nightly)])
def test_programs_give_what_boards_give(kind: str, count: int) -> None:
    rng = np.random.default_rng(len(kind))
    for number in range(count):
        (reference, fast), expected = PROGRAMS[kind](rng, number % 2 == 0)
        np.testing.assert_array_equal(reference, expected, f"program {number}")
        np.testing.assert_array_equal(fast, expected, f"program {number}, kernels")
