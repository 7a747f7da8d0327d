"""Registers of conversions: how they round, where offsets come in, and that chips keep both."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.rknpu.elements import Element
from anynpu.soft.engines.rknpu.generations import GENERATIONS
from anynpu.soft.engines.rknpu.generations.rk3588.cna import (
    CnaConv1,
    CnaConvert0,
    CnaConvert1,
    CnaPad1,
    CnaWeightSize0,
    CnaWeightSize2,
)
from anynpu.soft.engines.rknpu.generations.rk3588.core import CoreMisc
from anynpu.soft.engines.rknpu.generations.rk3588.dpu import (
    DpuDataFormat,
    DpuEw,
    DpuEwConvertOffset,
    DpuEwConvertScale,
    DpuOutOffset,
    DpuOutScale,
    DpuOutShift,
)
from anynpu.soft.engines.rknpu.generations.rk3588.rdma import RdmaEw, RdmaFeatureMode
from anynpu.soft.engines.rknpu.registers.fields import Field
from anynpu.soft.engines.rknpu.registers.quantities import Quantity
from anynpu.soft.engines.rknpu.rounding import Ties
from anynpu.soft.engines.rknpu.tasks import (
    Elementwise,
    ElementwiseTask,
    InputConversion,
    OffsetPlace,
    Output,
)
from anynpu.soft.formats.rknn.model import Generation

from .commands import decode, fields, task_of
from .test_decode import ADDRESSES, COPY, FROM_MEMORY, dense

_MODE = 1 << 30
_MICRO = {0x400C: 0x1E5, 0x4010: 0, 0x4040: 0x53, 0x4050: 0x30000002, 0x4060: 0x13}
_F2 = {0x400C: 5, 0x4038: 0x53, 0x4050: 0x20000, 0x4060: 0x903, 0x407C: 0x10041C1}
CHIPS: dict[Generation, tuple[Mapping[int, int], int, int, int]] = {
    Generation.V2: ({0x4010: 0}, 0x4088, 0x4070, 0x904202C0),
    Generation.LITE: ({0x4010: 0, 0x400C: 0x109}, 0x4088, 0x4070, 0x900002D0),
    Generation.MICRO: (_MICRO, 0x4088, 0x4070, 0x8002C0C0),
    Generation.F2: (_F2, 0x40B4, 0x407C, 0x8002C0C0),
    Generation.T4: (_F2 | {0x4050: 2, 0x4060: 0x13, 0x400C: 0x1E5}, 0x40B4, 0x407C, 0x8002C0C0),
    Generation.F3: (_F2, 0x40B4, 0x407C, 0x8002C0C0),
}
"""A task that adds an operand: its other words, its output's shift, its configuration and value."""


@pytest.mark.parametrize("mode", [0, _MODE])
@pytest.mark.parametrize("chip", CHIPS)
def test_all_chips_keep_the_round_modes(chip: Generation, mode: int) -> None:
    others, shift, config, value = CHIPS[chip]
    words = {**others, shift: 20 | mode, config: value & ~_MODE | mode}
    task = task_of(GENERATIONS[chip], words, FROM_MEMORY)
    third = GENERATIONS[chip].elementwise(task)
    assert third is not None
    assert task[Quantity.OUTPUT_AWAY] == bool(mode)
    assert third.ties_away == bool(mode)
    assert third.offset_first, "an offset is added before the scale"


def output(changes: Mapping[Field, int]) -> Output:
    """The output of a task that reads features."""
    task = decode(FROM_MEMORY, [*fields({**COPY, **changes}), *ADDRESSES])
    assert isinstance(task, ElementwiseTask)
    return task.dpu.output


@pytest.mark.parametrize(("bit", "ties"), [(0, Ties.EVEN), (1, Ties.AWAY)])
def test_a_bit_says_how_the_output_rounds(bit: int, ties: Ties) -> None:
    assert output({DpuOutShift.OUT_CVT_SHIFT: 3, DpuOutShift.CVT_ROUND: bit}).ties is ties


@pytest.mark.parametrize("shift", [64, 1100, 4095])
def test_an_output_shifted_by_more_than_there_is_is_refused(shift: int) -> None:
    with pytest.raises(ModelError, match="OUT_CVT_SHIFT"):
        output({DpuOutShift.OUT_CVT_SHIFT: shift})


def elementwise(changes: Mapping[Field, int]) -> Elementwise:
    """The sum with an operand that is converted."""
    changed = {
        **COPY,
        DpuEw.BYPASS: 0,
        DpuEw.ALU_ALGO: 2,
        DpuEw.OP_SRC: 1,
        DpuEw.LUT_BYPASS: 1,
        DpuEw.RELU_BYPASS: 1,
        DpuEw.CVT_TYPE: 1,
        DpuEwConvertOffset.OP_CVT_OFFSET: 0xFFFFFFFD,
        DpuEwConvertScale.OP_CVT_SCALE: 0xFFFF,
        DpuEwConvertScale.OP_CVT_SHIFT: 4,
        RdmaEw.DATA_MODE: 1,
        RdmaEw.DATA_SIZE: 1,
        **changes,
    }
    task = decode(FROM_MEMORY, [*fields(changed), *ADDRESSES, (0x5038, "y")])
    assert isinstance(task, ElementwiseTask)
    assert task.dpu.elementwise is not None
    return task.dpu.elementwise


@pytest.mark.parametrize(("bit", "ties"), [(0, Ties.EVEN), (1, Ties.AWAY)])
def test_a_bit_says_how_an_operand_is_rounded(bit: int, ties: Ties) -> None:
    how = elementwise({DpuEw.CVT_ROUND: bit}).conversion
    assert how is not None
    assert (how.offset, how.scale, how.shift, how.ties) == (-3, -1, 4, ties)


def test_an_operand_s_offset_comes_first() -> None:
    with pytest.raises(ModelError, match=r"DPU_EW_CFG .*CVT_TYPE = 0.* after the scale"):
        elementwise({DpuEw.CVT_TYPE: 0})
    how = elementwise({DpuEw.CVT_TYPE: 0, DpuEwConvertOffset.OP_CVT_OFFSET: 0}).conversion
    assert how is not None
    assert how.offset == 0


def conversion(changes: Mapping[Field, int]) -> InputConversion | None:
    """What becomes of a convolution's input."""
    changed = {
        CnaConvert0.CVT_BYPASS: 0,
        CnaConvert0.DATA_SIGN: 1,
        CnaConvert0.CVT_TRUNCATE_0: 9,
        CnaConvert1.OFFSET: 0xFFFE,
        CnaConvert1.SCALE: 16800,
        **changes,
    }
    how: InputConversion | None = dense(dict(changed)).convolution.conversion
    return how


@pytest.mark.parametrize(
    ("adds_first", "place"), [(1, OffsetPlace.BEFORE_SCALE), (0, OffsetPlace.AFTER_SHIFT)]
)
@pytest.mark.parametrize("is_signed", [0, 1])
@pytest.mark.parametrize(("mode", "ties"), [(0, Ties.EVEN), (1, Ties.UP)])
def test_bytes_are_converted_as_bits_say(
    adds_first: int, place: OffsetPlace, is_signed: int, mode: int, ties: Ties
) -> None:
    how = conversion(
        {
            CnaConvert0.CVT_TYPE: adds_first,
            CnaConvert0.DATA_SIGN: is_signed,
            CnaConvert0.ROUND_TYPE: mode,
        }
    )
    assert how == InputConversion(
        place, (-2, 0, 0, 0), (16800, 0, 0, 0), (9, 0, 0, 0), not is_signed, ties
    )


def test_what_changes_no_signed_byte_is_no_conversion() -> None:
    ones = {**dict.fromkeys((0x1050, 0x1054, 0x1058, 0x105C), 1 << 16)}
    for word, is_one in ((8, False), (0, True)):
        words = [(0x104C, word), *ones.items()]
        assert (dense(words=words).convolution.conversion is not None) == is_one
    assert conversion({CnaConvert0.CVT_BYPASS: 1, CnaConvert0.DATA_SIGN: 0}) is None


@pytest.mark.parametrize(
    ("chip", "words", "place", "shift"),
    [
        (
            Generation.LITE,
            {0x104C: 0xE38E1, 0x1050: 0x7C22FF8F, 0x1054: 0x7EE7FF98, 0x1058: 0x7E57FFB3},
            OffsetPlace.AFTER_SHIFT,
            0,
        ),
        (
            Generation.MICRO,
            {
                0x104C: 0x500E38E0, 0x1050: 0x7EE77C22, 0x1054: 0x17E57, 0x1058: 0xFFE3C000,
                0x105C: 0xFFE60000, 0x101C: 0xFFECC000, 0x1024: 3, 0x1030: 6,
            },
            OffsetPlace.BEFORE_SHIFT,
            14,
        ),
        (
            Generation.F2,
            {
                0x1048: 0xE38E0, 0x104C: 0x7EE77C22, 0x1050: 0x17E57, 0x1054: 0xFFFFFF8F,
                0x1058: 0xFFFFFF98, 0x105C: 0xFFFFFFB3,
            },
            OffsetPlace.AFTER_SHIFT,
            0,
        ),
    ],
)  # fmt: skip
def test_chips_convert_pictures_of_bytes(
    chip: Generation, words: Mapping[int, int], place: OffsetPlace, shift: int
) -> None:
    """Mean 123.675, 116.28, 103.53, deviation 58.395, 57.12, 57.375, scale 1 / 113.26, zero 127."""
    generation = GENERATIONS[chip]
    how = generation.input_conversion(task_of(generation, {0x100C: 0, **words}, 1))
    assert how is not None
    assert (how.place, how.is_unsigned, how.shifts[:3]) == (place, True, (14, 14, 14))
    assert how.scales[:3] == (31778, 32487, 32343)
    assert how.offsets[:3] == (-113 << shift, -104 << shift, -77 << shift)


_FLOAT16 = {
    DpuDataFormat.PROC_PRECISION: 2,
    DpuDataFormat.IN_PRECISION: 2,
    RdmaFeatureMode.IN_PRECISION: 2,
}
_OFFSET = {DpuOutOffset.OUT_CVT_OFFSET: 0xFFFFC000, DpuOutShift.MINUS_EXP: 14}


@pytest.mark.parametrize("before", [{}, _FLOAT16])
def test_an_offset_of_float16_has_its_exponent(before: Mapping[Field, int]) -> None:
    """A table of (tanh + 1) * 2^14 becomes tanh so, as an RK3588 was seen to do."""
    found = output({**before, **_OFFSET, DpuDataFormat.OUT_PRECISION: 2})
    assert (found.factor, found.addend) == (2.0**-14, -1.0)


def test_an_offset_of_floats_that_become_bytes_is_whole() -> None:
    changes = {DpuDataFormat.OUT_PRECISION: 0, DpuOutOffset.OUT_CVT_OFFSET: 0xFFFFFFFB}
    found = output({**_FLOAT16, **changes, DpuOutScale.OUT_CVT_SCALE: 3})
    assert (found.element, found.factor, found.addend) == (Element.INT8, 3.0, -5.0)


@pytest.mark.parametrize("element", [1, 3, 4])
def test_other_conversions_of_floats_are_refused(element: int) -> None:
    changes = {**_FLOAT16, DpuDataFormat.OUT_PRECISION: element}
    assert output(changes).factor == 1
    for change in ({DpuOutScale.OUT_CVT_SCALE: 2}, {DpuOutOffset.OUT_CVT_OFFSET: 1}):
        with pytest.raises(ModelError, match="conversion of floats to"):
            output({**changes, **change})


def test_two_values_to_pad_channels_with_are_refused() -> None:
    changes: dict[Field, int] = {
        CnaConv1.CONV_MODE: 3,
        CnaWeightSize0.WEIGHT_BYTES: 32 * 9,
        CnaWeightSize2.WEIGHT_KERNELS: 1,
        CoreMisc.DW_EN: 1,
    }
    assert dense({**changes, CnaPad1.PAD_VALUE: 0x7E7E}).convolution.padding_value == 126
    with pytest.raises(ModelError, match=r"CNA_PAD_CON1 \(0x1184\) = 0x7e.*for odd ones"):
        dense({**changes, CnaPad1.PAD_VALUE: 0x7E})
