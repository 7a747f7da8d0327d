"""What RK3566's and RV1106's registers say."""

from __future__ import annotations

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.rknpu.elements import Element
from anynpu.soft.engines.rknpu.generations import GENERATIONS
from anynpu.soft.engines.rknpu.generations.rk3588.cna import CnaConv1
from anynpu.soft.engines.rknpu.generations.rk3588.dpu import (
    DpuBn,
    DpuBnAlu,
    DpuBs,
    DpuBsOw,
    DpuDataFormat,
    DpuEw,
)
from anynpu.soft.engines.rknpu.generations.rk3588.rdma import RdmaBs, RdmaEw
from anynpu.soft.engines.rknpu.generations.settings import (
    ElementwiseSettings,
    FromMemory,
    Limits,
    StageSettings,
    Sum,
)
from anynpu.soft.engines.rknpu.registers.quantities import Quantity
from anynpu.soft.engines.rknpu.task_registers import TaskRegisters
from anynpu.soft.engines.rknpu.tasks import Operation
from anynpu.soft.engines.rknpu.weights import (
    OperandBlock,
    WeightLayout,
    unpack_operands,
    unpack_weights,
)
from anynpu.soft.formats.rknn.model import Generation

from .commands import task_of

LITE, MICRO = GENERATIONS[Generation.LITE], GENERATIONS[Generation.MICRO]


def test_lite_convolutions() -> None:
    words = {0x100C: 2 << 8 | 2 << 4 | 10 << 12 | 3, 0x1068: 0xFFFA << 16 | 0x21, 0x300C: 2}
    task = task_of(LITE, {**words, 0x3010: 7 << 16 | 9}, 0x1D)
    assert task[Quantity.CONVOLUTION_ELEMENT] == Element.FLOAT16.value
    assert task[Quantity.PICTURE_FORMAT] == 10
    assert task[Quantity.PADDING_VALUE] == -6
    assert (task[Quantity.PAD_TOP], task[Quantity.PAD_LEFT]) == (1, 2)
    assert task[Quantity.IS_DEPTHWISE]
    assert (task[Quantity.OUTPUT_HEIGHT], task[Quantity.OUTPUT_WIDTH]) == (8, 10)


def test_lite_stages() -> None:
    words = {
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
    task = task_of(LITE, words, 0x18)
    assert (task[Quantity.WRITTEN_HEIGHT], task[Quantity.WRITTEN_WIDTH]) == (8, 16)
    bs, _ = LITE.stages(task)
    third = LITE.elementwise(task)
    assert bs is not None
    assert bs.sum is Sum.ADD
    assert third is not None
    assert third.operation is Operation.ADD
    assert bs.block == 0, "disabled by bit 0"
    assert task[Quantity.OPERAND_BYTES] == 1
    # The operand's surfaces follow each other: 8 * 16 atoms of 8 bytes.
    assert task[Quantity.OPERAND_SURFACE_NOTCH] == 0


@pytest.mark.parametrize(
    ("mode", "problem"),
    [(0x4000109, "the bits 0x4000000 have no known"), (0x10F, "MODE = 271 is not known")],
)
def test_lite_refuses_modes_that_it_does_not_know(mode: int, problem: str) -> None:
    with pytest.raises(
        ModelError, match=rf"DPU_FEATURE_MODE_CFG \(0x400c\) = {mode:#x}: {problem}"
    ):
        task_of(LITE, {DpuDataFormat.number: 0, 0x400C: mode}, 0x18)


def micro(changes: dict[int, int], mask: int = 0x1D) -> TaskRegisters:
    words = {
        DpuDataFormat.number: 0x800000,
        0x400C: 0x1E5,
        DpuBs.number: 0x53,
        DpuBn.number: 0x13,
        DpuEw.number: 0x10041C1,
        DpuBsOw.number: 0x30000002,
        **changes,
    }
    return task_of(MICRO, words, mask)


def micro_stages(
    changes: dict[int, int], mask: int = 0x1D
) -> tuple[StageSettings | None, StageSettings | None, ElementwiseSettings | None]:
    task = micro(changes, mask)
    return *MICRO.stages(task), MICRO.elementwise(task)


def micro_bs(changes: dict[int, int], mask: int = 0x1D) -> StageSettings:
    bs, _, _ = micro_stages(changes, mask)
    assert bs is not None
    return bs


def micro_bn(changes: dict[int, int]) -> StageSettings:
    _, bn, _ = micro_stages(changes)
    assert bn is not None
    return bn


def test_micro_takes_what_is_fetched() -> None:
    changes = {DpuBs.number: 0x121D80, RdmaBs.number: 7 << 1, 0x4054: 14 << 24}
    bs = micro_bs({**changes, DpuBsOw.number: 0x30000001})
    assert (bs.add, bs.multiply, bs.weight_offset) == (FromMemory.BLOCK,) * 3
    assert bs.shifts == (14, 14)


def test_micro_limits_what_leaves_a_stage() -> None:
    bn = micro_bn({DpuBn.number: 0x12, 0x40E0: 0, 0x40E4: 500})
    assert bn.limits == Limits(0, 500)
    assert micro_bn({DpuBn.number: 0x12}).limits == Limits()


@pytest.mark.parametrize(("lowest", "highest"), [(-5 & 0xFFFFFFFF, 500), (3, (1 << 31) - 1)])
def test_micro_limits_at_any_number(lowest: int, highest: int) -> None:
    bn = micro_bn({DpuBn.number: 0x12, 0x40E0: lowest, 0x40E4: highest})
    assert bn.limits == Limits(lowest, highest if highest == 500 else None)


def test_micro_adds_sums_of_32_bits() -> None:
    formats = DpuDataFormat.PROC_PRECISION.put(Element.INT32.value)
    _, _, third = micro_stages({DpuDataFormat.number: formats, DpuEw.number: 0x8042C1C0})
    assert third is not None
    assert (third.operation, third.converts) == (Operation.ADD, False)
    with pytest.raises(ModelError, match="DPU_EW_CFG"):
        micro_stages({DpuEw.number: 0x8042C1C0})


def test_micro_adds_before_it_multiplies() -> None:
    changes = {DpuBn.number: 0x20000, DpuBnAlu.number: 0xFFFFFFFD, 0x4068: 7 << 16 | 5 << 8}
    bn = micro_bn(changes)
    assert (bn.add, bn.multiply, bn.adds_first) == (0xFFFFFFFD, 7, True)


def test_micro_shifts_either_sign_by_its_own_number() -> None:
    changes = {DpuBs.number: 0x120580, 0x4054: 0x90000000, DpuBsOw.number: 0x30000001}
    assert micro_bs(changes).shifts == (2, 16)


@pytest.mark.parametrize(("config", "factor"), [(0x30000000, 0), (0x30000002, None)])
def test_micro_says_at_the_writer_whether_it_multiplies(config: int, factor: int | None) -> None:
    bs = micro_bs({DpuBs.number: 0x100012, DpuBsOw.number: config}, mask=0x18)
    assert bs.multiply == factor


def test_micro_inserts_pixels_where_strides_say_so() -> None:
    task = micro({CnaConv1.number: 0, 0x1014: 0x909})
    assert (task[Quantity.INSERTED_ROWS], task[Quantity.INSERTED_COLUMNS]) == (1, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({DpuBs.number: 0x40}, r"DPU_BS_CFG \(0x4040\) = 0x40 is not known"),
        ({DpuBn.number: 0x40}, "DPU_BN_CFG"),
        ({DpuEw.number: 0x4C0C4}, "DPU_EW_CFG"),
        ({DpuBsOw.number: 0x8}, "DPU_BS_OW_CFG"),
        (
            {DpuBn.number: 0x12, 0x40E0: 5, 0x40E4: 4},
            r"DPU_BN_LOWEST \(0x40e0\) = 0x5: it limits values to 4 and more than that, 5",
        ),
        ({0x40E8: 0}, r"DPU_EW_LOWEST \(0x40e8\) .*clamps, which is not known"),
        ({DpuBsOw.number: 0x4E}, "DPU_BS_OW_CFG"),
        ({0x1060: 0xFFFF0001, CnaConv1.number: 0}, r"CNA_FC_CON0 \(0x1060\)"),
        ({0x1074: 5, 0x4054: 0x80000006, 0x3010: 1}, r"CNA_FC_CON2 \(0x1074\) = 0x5"),
        ({0x40C4: 1 << 16}, r"DPU_ROWS \(0x40c4\)"),
    ],
)
def test_micro_refuses_what_it_does_not_know(words: dict[int, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        micro_stages(words)


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
    task = micro({CnaConv1.number: mode, 0x301C: word})
    assert task[Quantity.TRUNCATED_BITS] == bits


@pytest.mark.parametrize(("mode", "word"), [(0, 0x43), (0, 0x20), (9 << 12, 0x64), (0, 1 << 10)])
def test_micro_refuses_two_truncations_that_differ(mode: int, word: int) -> None:
    with pytest.raises(ModelError, match="CORE_CLIP_TRUNCATE"):
        micro({CnaConv1.number: mode, 0x301C: word})
