"""How far the rows of a picture of few channels are apart, on each chip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.rknpu.addresses import RelocatedAddresses
from anynpu.soft.engines.rknpu.command_stream import TaskState
from anynpu.soft.engines.rknpu.elements import Element
from anynpu.soft.engines.rknpu.generations import GENERATIONS
from anynpu.soft.engines.rknpu.registers.cna import CnaBuffer1, CnaDataSize0, CnaDma1
from anynpu.soft.engines.rknpu.task_registers import TaskRegisters
from anynpu.soft.formats.rknn.model import Generation, TensorKind
from anynpu.soft.formats.rknn.tables import with_rows

from ..compiled.parts import blocked

_TABLE = np.zeros(513, np.int16)
INT8, FLOAT16 = Element.INT8, Element.FLOAT16


def row(
    chip: Generation,
    size: tuple[int, int, int],
    line: int,
    entries: int = 0,
    element: Element = INT8,
) -> int:
    """Bytes between rows of a picture (height, width, channels) by its registers."""
    height, width, channels = size
    generation = GENERATIONS[chip]
    words = {
        CnaDataSize0.number: CnaDataSize0.DATAIN_HEIGHT.put(height)
        | CnaDataSize0.DATAIN_WIDTH.put(width),
        CnaDma1.number: line,
        CnaBuffer1.number: entries,
    }
    state = TaskState(0, 0, 1, words, {}, (_TABLE, _TABLE), False)
    task = TaskRegisters(state, words, RelocatedAddresses({}), generation.field_bits)
    return generation.image_line(task, width, channels, element)


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
    for size in (fits, fails):
        words = {
            CnaDataSize0.number: CnaDataSize0.DATAIN_HEIGHT.put(size[0])
            | CnaDataSize0.DATAIN_WIDTH.put(size[1])
        }
        state = TaskState(0, 0, 1, words, {}, (_TABLE, _TABLE), False)
        bits = GENERATIONS[chip].field_bits
        if size == fits:
            TaskRegisters(state, words, RelocatedAddresses({}), bits)
        else:
            with pytest.raises(ModelError, match=r"this chip has 1[12] bits for it"):
                TaskRegisters(state, words, RelocatedAddresses({}), bits)


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
