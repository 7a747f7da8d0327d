"""The other chips' notation, turned into RK3588's."""

from __future__ import annotations

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.rknpu.command_stream import TaskState
from anynpu.soft.engines.rknpu.elements import Element
from anynpu.soft.engines.rknpu.generations import GENERATIONS
from anynpu.soft.engines.rknpu.registers.cna import CnaConv1, CnaPad0, CnaPad1
from anynpu.soft.engines.rknpu.registers.core import CoreClip, CoreMisc, CoreSize0
from anynpu.soft.engines.rknpu.registers.dpu import (
    DpuBn,
    DpuBnAlu,
    DpuBnLowest,
    DpuBs,
    DpuBsMul,
    DpuBsOw,
    DpuDataFormat,
    DpuEw,
    DpuWriteSize1,
)
from anynpu.soft.engines.rknpu.registers.fields import Field
from anynpu.soft.engines.rknpu.registers.rdma import RdmaBs, RdmaEw
from anynpu.soft.engines.rknpu.weights import (
    OperandBlock,
    WeightLayout,
    unpack_operands,
    unpack_weights,
)
from anynpu.soft.formats.rknn.model import Generation

from .commands import no_constants

LITE, MICRO = GENERATIONS[Generation.LITE], GENERATIONS[Generation.MICRO]
_TABLE = np.zeros(513, np.int16)


def state(words: dict[int, int], mask: int = 0x1D) -> TaskState:
    return TaskState(0, 0, mask, words, {}, (_TABLE, _TABLE), False)


def value(words: dict[int, int], field: Field) -> int:
    return field.of(words[field.register.number])


def test_lite_convolutions() -> None:
    words = LITE.translate(
        state(
            {
                CnaConv1.number: 2 << 8 | 2 << 4 | 10 << 12,
                CnaPad0.number: 0xFFFA << 16 | 0x21,
                0x300C: 2,
                0x3010: 7 << 16 | 9,
            }
        ),
        no_constants,
    )
    assert value(words, CnaConv1.PROC_PRECISION) == Element.FLOAT16.value
    assert value(words, CnaConv1.ARGB_IN) == 10
    assert words[CnaPad1.number] == 0xFFFFFFFA
    assert (value(words, CnaPad0.PAD_TOP), value(words, CnaPad0.PAD_LEFT)) == (1, 2)
    assert value(words, CoreMisc.DW_EN) == 1
    assert value(words, CoreSize0.DATAOUT_HEIGHT) == 7
    assert value(words, CoreSize0.DATAOUT_WIDTH) == 9


def test_lite_stages() -> None:
    words = LITE.translate(
        state(
            {
                DpuDataFormat.number: 0,
                0x400C: 0x109,
                0x4030: 15,
                0x4034: 7,
                DpuBs.number: 2 << 2,
                DpuEw.number: 2 << 3,
                RdmaBs.number: 7 << 1 | 1,
                RdmaEw.number: 1 << 30,
                0x5040: 1024,
            }
        ),
        no_constants,
    )
    assert value(words, DpuWriteSize1.WIDTH_WDMA) == 15
    assert value(words, DpuWriteSize1.HEIGHT_WDMA) == 7
    assert value(words, DpuBs.ALU_ALGO) == 2
    assert value(words, DpuEw.ALU_ALGO) == 2
    assert value(words, RdmaBs.DATA_USE) == 0, "disabled by bit 0"
    assert value(words, RdmaEw.DATA_SIZE) == 1
    # The operand's surfaces follow each other: 8 * 16 atoms of 8 bytes.
    assert words[0x506C] == 0


def test_lite_refuses_modes_that_it_does_not_know() -> None:
    with pytest.raises(ModelError, match=r"DPU_FEATURE_MODE_CFG \(0x400c\) = 0x4000109 is not"):
        LITE.translate(state({DpuDataFormat.number: 0, 0x400C: 0x4000109}), no_constants)


def micro(changes: dict[int, int], mask: int = 0x1D) -> dict[int, int]:
    words = {
        DpuDataFormat.number: 0x800000,
        DpuBs.number: 0x53,
        DpuBn.number: 0x13,
        DpuEw.number: 0x10041C1,
        DpuBsOw.number: 0x30000002,
        **changes,
    }
    return MICRO.translate(state(words, mask), no_constants)


def test_micro_takes_what_is_fetched() -> None:
    words = micro(
        {
            DpuBs.number: 0x121D80,
            RdmaBs.number: 7 << 1,
            0x4054: 14 << 24,
            DpuBsOw.number: 0x30000001,
        }
    )
    assert value(words, DpuBs.BYPASS) == value(words, DpuBs.ALU_BYPASS) == 0
    assert value(words, DpuBs.ALU_SRC) == value(words, DpuBsMul.MUL_SRC) == 1
    assert value(words, DpuBsMul.MUL_SHIFT_VALUE) == 14
    assert value(words, DpuDataFormat.BS_MUL_SHIFT_VALUE_NEG) == 14
    assert (value(words, DpuBsOw.OW_SRC), value(words, DpuBsOw.OD_BYPASS)) == (1, 0)


def test_micro_clamps_stand_for_a_relu() -> None:
    words = micro({DpuBn.number: 0x12, 0x40E0: 0, 0x40E4: 500})
    assert (value(words, DpuBn.BYPASS), value(words, DpuBn.RELU_BYPASS)) == (0, 0)
    assert value(words, DpuBn.RELUX_EN) == 1
    assert words[0x406C] == 500


@pytest.mark.parametrize(("lowest", "highest"), [(-5 & 0xFFFFFFFF, 500), (3, (1 << 31) - 1)])
def test_micro_clamps_at_any_number(lowest: int, highest: int) -> None:
    words = micro({DpuBn.number: 0x12, 0x40E0: lowest, 0x40E4: highest})
    assert (value(words, DpuBn.BYPASS), value(words, DpuBn.RELU_BYPASS)) == (0, 0)
    assert value(words, DpuBn.RELUX_EN) == (highest == 500)
    assert words[DpuBnLowest.number] == lowest


def test_micro_adds_sums_of_32_bits() -> None:
    formats = DpuDataFormat.PROC_PRECISION.put(Element.INT32.value)
    words = micro({DpuDataFormat.number: formats, DpuEw.number: 0x8042C1C0})
    assert not value(words, DpuEw.BYPASS)
    assert value(words, DpuEw.ALU_ALGO) == 2
    assert value(words, DpuEw.OP_CVT_BYPASS) == 1
    with pytest.raises(ModelError, match="DPU_EW_CFG"):
        micro({DpuEw.number: 0x8042C1C0})


def test_micro_adds_before_it_multiplies() -> None:
    words = micro({DpuBn.number: 0x20000, DpuBnAlu.number: 0xFFFFFFFD, 0x4068: 7 << 16 | 5 << 8})
    assert words[DpuBnAlu.number] == -21 & 0xFFFFFFFF
    assert value(words, DpuBn.ALU_BYPASS) == value(words, DpuBn.MUL_BYPASS) == 0


def test_micro_shifts_either_sign_by_its_own_number() -> None:
    words = micro({DpuBs.number: 0x120580, 0x4054: 0x90000000, DpuBsOw.number: 0x30000001})
    assert value(words, DpuBsMul.MUL_SHIFT_VALUE) == 2
    assert value(words, DpuDataFormat.BS_MUL_SHIFT_VALUE_NEG) == 16


@pytest.mark.parametrize(("config", "bypassed"), [(0x30000000, 0), (0x30000002, 1)])
def test_micro_says_at_the_writer_whether_it_multiplies(config: int, bypassed: int) -> None:
    words = micro({DpuBs.number: 0x100012, DpuBsOw.number: config}, mask=0x18)
    assert value(words, DpuBs.MUL_BYPASS) == bypassed


def test_micro_inserts_pixels_where_strides_say_so() -> None:
    words = micro({CnaConv1.number: 0, 0x1014: 0x909})
    assert value(words, CnaConv1.DECONV) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({DpuBs.number: 0x40}, r"DPU_BS_CFG \(0x4040\) = 0x40 is not known"),
        ({DpuBn.number: 0x40}, "DPU_BN_CFG"),
        ({DpuEw.number: 0x4C0C4}, "DPU_EW_CFG"),
        ({DpuBsOw.number: 0x8}, "DPU_BS_OW_CFG"),
        ({DpuBn.number: 0x12, 0x40E0: 5, 0x40E4: 4}, "limits values to 4 and more than that, 5"),
        ({0x40E8: 0}, "clamp, which is not known"),
        ({DpuBsOw.number: 0x4E}, "DPU_BS_OW_CFG"),
    ],
)
def test_micro_refuses_what_it_does_not_know(words: dict[int, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        micro(words)


def test_depthwise_weights_with_zero_points() -> None:
    layout = WeightLayout(Element.INT8, 1, 2, 1, 2, 1, 32, True, with_zero_points=1)
    pairs = np.array([[1, 10], [2, -128], [3, -5], [-4, 0]], np.int8)
    weights = unpack_weights(pairs.view(np.uint8).ravel(), layout)
    assert weights.tolist() == [[[11, -2]], [[130, -4]]]


def test_operands_in_groups_of_four() -> None:
    block = OperandBlock(5, 6, False, 4)
    data = b"".join(
        part.astype(kind).tobytes()
        for group in range(2)
        for part, kind in ((np.arange(4) + 4 * group, "<i4"), (-np.arange(4) - 4 * group, "<i2"))
    )
    assert block.bytes == len(data) == 48
    operands = unpack_operands(np.frombuffer(data, np.uint8), block)
    assert operands["add"].ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert operands["multiply"].ravel().tolist() == [0, -1, -2, -3, -4, -5]


@pytest.mark.parametrize(
    ("mode", "word", "bits"),
    [
        (0, 0, 0),
        (0, 0x63, 3),
        (0, 0x129, 9),
        # Of pictures the second field is one more, or the same.
        (9 << 12, 0x20, 0),
        (9 << 12, 0x83, 3),
        (9 << 12, 0x63, 3),
    ],
)
def test_micro_tells_twice_how_many_bits_sums_lose(mode: int, word: int, bits: int) -> None:
    words = micro({CnaConv1.number: mode, CoreClip.number: word})
    assert words[CoreClip.number] == bits


@pytest.mark.parametrize(("mode", "word"), [(0, 0x43), (0, 0x20), (9 << 12, 0x64), (0, 1 << 10)])
def test_micro_refuses_two_truncations_that_differ(mode: int, word: int) -> None:
    with pytest.raises(ModelError, match="CORE_CLIP_TRUNCATE"):
        micro({CnaConv1.number: mode, CoreClip.number: word})
