"""How far the rows of a picture of few channels are apart, on each chip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.rknpu.elements import Element
from anynpu.soft.engines.rknpu.generations import GENERATIONS
from anynpu.soft.engines.rknpu.registers.quantities import Quantity
from anynpu.soft.formats.rknn.model import Generation, TensorKind
from anynpu.soft.formats.rknn.tables import with_rows

from ..compiled.parts import blocked
from .commands import task_of

INT8, FLOAT16 = Element.INT8, Element.FLOAT16


_PRECISION = {chip: 8 if chip is Generation.LITE else 7 for chip in Generation}
_LINE = dict.fromkeys(Generation, 4220) | dict.fromkeys((Generation.F2, Generation.T4), 0x1090)


def _size(height: int, width: int) -> dict[int, int]:
    return {0x1020: height | width << 16}


def _size_less_one(height: int, width: int) -> dict[int, int]:
    size = height - 1 | width - 1 << 16
    return {0x102C: size, 0x1078: size}


def _size_of_rk3562(height: int, width: int) -> dict[int, int]:
    return {0x102C: height | width << 16, 0x1024: 1 | 1 << 16 | 1 << 24, 0x107C: 3, 0x106C: 0x20}


_SIZES = {
    Generation.V2: _size,
    Generation.LITE: _size,
    Generation.MICRO: _size,
    Generation.F2: _size_less_one,
    Generation.T4: _size_of_rk3562,
}


def row(
    chip: Generation,
    size: tuple[int, int, int],
    line: int,
    entries: int = 0,
    element: Element = INT8,
) -> int:
    """Bytes between rows of a picture (height, width, channels) by its registers."""
    height, width, channels = size
    mode = (channels + 7) << 12 | element.value << _PRECISION[chip]
    how = _SIZES[chip](height, width)
    words = {0x100C: mode, **how, _LINE[chip]: line, **({0x1044: entries} if entries else {})}
    return task_of(GENERATIONS[chip], words, 1)[Quantity.PICTURE_LINE]


@pytest.mark.parametrize(
    ("size", "line", "entries", "element", "expected"),
    [
        ((12, 33, 3), 33, 48 * 12, INT8, 48 * 3),
        ((12, 33, 3), 33, 40 * 12, FLOAT16, 40 * 3 * 2),
        ((12, 38, 3), 96, 38 * 12, INT8, 48 * 3),
        ((16, 2032, 1), 4064, 2032 * 16, INT8, 2032),
        ((5, 7, 1), 7, 7 * 5, FLOAT16, 7 * 2),
        ((1, 7, 1), 7, 0, FLOAT16, 7 * 2),
    ],
)
def test_rk3588(
    size: tuple[int, int, int], line: int, entries: int, element: Element, expected: int
) -> None:
    """The graph's input, columns of one, and a picture that tasks made."""
    assert row(Generation.V2, size, line, entries, element) == expected


@pytest.mark.parametrize(("line", "entries"), [(34, 48 * 12), (33, 34 * 12), (66, 0)])
def test_rk3588_refuses_other_distances(line: int, entries: int) -> None:
    with pytest.raises(ModelError, match=r"CNA_DMA_CON1 .*not known of a picture of 33 columns"):
        row(Generation.V2, (12, 33, 3), line, entries)


@pytest.mark.parametrize(
    ("chip", "size", "line", "element", "expected"),
    [
        (Generation.LITE, (12, 33, 3), 13, INT8, 40 * 3),
        (Generation.LITE, (12, 33, 3), 25, FLOAT16, 36 * 3 * 2),
        (Generation.LITE, (12, 22, 3), 771, INT8, 2056 * 3),
        (Generation.F2, (12, 33, 3), 9, INT8, 48 * 3),
        (Generation.F2, (16, 3, 3), 768, INT8, 4096 * 3),
        (Generation.T4, (12, 33, 3), 108, INT8, 48 * 3),
        (Generation.MICRO, (12, 33, 3), 108, INT8, 48 * 3),
        (Generation.MICRO, (12, 33, 1), 72, INT8, 48),
    ],
)
def test_other_chips(
    chip: Generation, size: tuple[int, int, int], line: int, element: Element, expected: int
) -> None:
    """RK3576 and RK3566 know the whole row of a picture of which a task sees some columns."""
    assert row(chip, size, line, element=element) == expected


@pytest.mark.parametrize(
    ("chip", "line"),
    [(Generation.LITE, 12), (Generation.F2, 6), (Generation.T4, 107), (Generation.MICRO, 109)],
)
def test_rows_that_overlap_are_refused(chip: Generation, line: int) -> None:
    with pytest.raises(ModelError, match="LINE_STRIDE"):
        row(chip, (12, 33, 3), line)


@pytest.mark.parametrize(
    ("chip", "fits", "fails"),
    [
        (Generation.V2, (8191, 2047), (1, 2048)),
        (Generation.LITE, (2047, 2047), (2048, 1)),
        (Generation.MICRO, (4095, 4095), (1, 4096)),
    ],
)
def test_each_chip_has_its_own_number_of_bits(
    chip: Generation, fits: tuple[int, int], fails: tuple[int, int]
) -> None:
    task_of(GENERATIONS[chip], _size(*fits), 1)
    with pytest.raises(ModelError, match=r"CNA_DATA_SIZE0 .*have no known meaning"):
        task_of(GENERATIONS[chip], _size(*fails), 1)


@pytest.mark.parametrize(
    ("channels", "dtype", "atom", "expected"),
    [
        (3, np.int8, 16, 48 * 3),
        (3, np.int8, 8, 40 * 3),
        (1, np.float16, 16, 40 * 2),
        (2, np.int8, 16, 48 * 2),
        (4, np.float16, 16, 40 * 4 * 2),
        # A pixel is a whole atom: these are features.
        (4, np.float16, 8, 0),
    ],
)
def test_rows_of_an_input(channels: int, dtype: type, atom: int, expected: int) -> None:
    made = blocked("x", (1, channels, 12, 33), channels, dtype)
    assert with_rows(replace(made, kind=TensorKind.INPUT), atom).row == expected
    assert with_rows(made, atom).row == 0, "no input"
