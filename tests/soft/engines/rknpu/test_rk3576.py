"""What RK3576's and RK3562's registers say, and what only these chips do."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.rknpu.command_stream import TaskState
from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.generations import GENERATIONS
from anynpu.soft.engines.rknpu.generations import Generation as Chip
from anynpu.soft.engines.rknpu.generations.rk3588.dpu import DpuDataFormat
from anynpu.soft.engines.rknpu.generations.settings import (
    ElementwiseSettings,
    FromMemory,
    Limits,
    StageSettings,
)
from anynpu.soft.engines.rknpu.layout import Written
from anynpu.soft.engines.rknpu.memory import INTERNAL, Memory, span
from anynpu.soft.engines.rknpu.reference.dpu import process
from anynpu.soft.engines.rknpu.reference.writer import write_atoms
from anynpu.soft.engines.rknpu.registers.quantities import Quantity
from anynpu.soft.engines.rknpu.tasks import (
    Dpu,
    Operation,
    Output,
    PackedWriter,
    SurfacePacker,
)
from anynpu.soft.engines.rknpu.weights import WeightLayout, unpack_weights
from anynpu.soft.formats.rknn.model import Generation, Relocation

from .commands import BUFFERS, state_of, task_of

RK3576, RK3562 = GENERATIONS[Generation.F2], GENERATIONS[Generation.T4]
_CONVOLUTION, _FROM_MEMORY = 0x1D, 0x18


def stages(
    chip: Chip, words: Mapping[int, int], mask: int = _FROM_MEMORY
) -> tuple[StageSettings | None, StageSettings | None, ElementwiseSettings | None]:
    """The three stages of a task whose operands are in registers."""
    task = task_of(chip, words, mask)
    return *chip.stages(task), chip.elementwise(task)


def first_stage(chip: Chip, words: Mapping[int, int]) -> StageSettings:
    bs, _, _ = stages(chip, words)
    assert bs is not None
    return bs


BYPASSED = {0x4038: 0x53, 0x4050: 0x20000, 0x4060: 0x903, 0x407C: 0x10041C1, 0x400C: 5}
"""A task from memory to memory, all stages off."""

POINTWISE = {
    **BYPASSED,
    0x400C: 0x40000004,
    0x1014: 0x9,
    0x1024: 31,
    0x1020: 16,
    0x102C: 7 << 16 | 5,
    0x1078: 7 << 16 | 5,
    0x107C: 15,
    0x1090: 32,
    0x1094: 48,
    0x3018: 1,
    0x301C: 5 << 16 | 7,
}
"""A convolution of 16 channels of 6 x 8 pixels with 32 kernels."""


def test_sizes_are_one_more_than_registers_say() -> None:
    task = task_of(RK3576, POINTWISE, _CONVOLUTION)
    assert (task[Quantity.INPUT_HEIGHT], task[Quantity.INPUT_WIDTH]) == (6, 8)
    assert (task[Quantity.KERNELS], task[Quantity.KERNEL_HEIGHT]) == (32, 1)


def test_padding_has_a_byte_for_each_side() -> None:
    task = task_of(RK3576, {**POINTWISE, 0x1080: 0x04030201, 0x1084: 0xFFFFFF85}, _CONVOLUTION)
    assert (task[Quantity.PAD_TOP], task[Quantity.PAD_LEFT]) == (1, 2)
    assert task[Quantity.PADDING_VALUE] == -123


def test_inserted_zeros_make_a_convolution_transposed() -> None:
    task = task_of(RK3576, {**POINTWISE, 0x1014: 0x909}, _CONVOLUTION)
    assert (task[Quantity.INSERTED_ROWS], task[Quantity.INSERTED_COLUMNS]) == (1, 1)


def test_a_row_of_pixels_may_be_a_window_of_rows() -> None:
    """A 1x1 convolution of 5 rows of 32 pixels says that it works on 160."""
    changes = {0x102C: 159 << 16, 0x1078: 31 << 16 | 4, 0x301C: 159}
    task = task_of(RK3576, {**POINTWISE, **changes}, _CONVOLUTION)
    assert (task[Quantity.INPUT_HEIGHT], task[Quantity.INPUT_WIDTH]) == (5, 32)
    assert (task[Quantity.OUTPUT_HEIGHT], task[Quantity.OUTPUT_WIDTH]) == (5, 32)
    with pytest.raises(ModelError, match="0x301c"):
        task_of(RK3576, {**POINTWISE, **changes, 0x301C: 158}, _CONVOLUTION)


def test_rows_in_the_buffer_are_read_from_before_the_address() -> None:
    # The last two of six rows of 8 pixels of 16 bytes.
    changes = {0x102C: 7 << 16 | 5, 0x1078: 7 << 16 | 3, 0x1018: 0xC0000505}
    relocations = {0x1088: Relocation("x", 1024), 0x4018: Relocation("y", 0)}
    before = state_of(POINTWISE, _CONVOLUTION, {0x1088: Relocation("x", 1024 - 768)})
    own = state_of({**POINTWISE, **changes}, _CONVOLUTION, relocations)
    found = RK3576.fetched(own, before)
    assert found.relocations[0x1088] == Relocation("x", 1024 - 256)
    assert found.relocations[0x4018] == Relocation("y", 0)


def test_the_same_of_addresses_that_are_there_already() -> None:
    changes = {0x102C: 7 << 16 | 5, 0x1078: 7 << 16 | 3, 0x1018: 0xC0000505, 0x1088: 0x9000}
    before = state_of({**POINTWISE, 0x1088: 0x9000 - 768}, _CONVOLUTION)
    found = RK3576.fetched(state_of({**POINTWISE, **changes}, _CONVOLUTION), before)
    assert found.words[0x1088] == 0x9000 - 256


@pytest.mark.parametrize(
    "before",
    [
        None,
        state_of(BYPASSED, _FROM_MEMORY),
        state_of(POINTWISE, _CONVOLUTION, {0x1088: Relocation("x", 1024 - 640)}),
        state_of(POINTWISE, _CONVOLUTION, {0x1088: Relocation("y", 1024 - 768)}),
    ],
)
def test_rows_that_the_buffer_cannot_hold_are_refused(before: TaskState | None) -> None:
    changes = {0x102C: 7 << 16 | 5, 0x1078: 7 << 16 | 3, 0x1018: 0xC0000505}
    own = state_of({**POINTWISE, **changes}, _CONVOLUTION, {0x1088: Relocation("x", 1024)})
    with pytest.raises(ModelError, match="don't end there"):
        RK3576.fetched(own, before)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({0x100C: 1 << 24}, "0x100c"),
        ({0x1078: 7 << 16 | 3}, "0x1078"),  # rows are left out that the buffer doesn't keep
        ({0x1078: 5 << 16 | 5}, "0x1078"),
        ({0x1068: 1}, "0x1068"),
        ({0x3018: 4}, "CORE_MISC"),
        ({0x4038: 0x120180}, "0x4038"),
        ({0x4060: 0x1900}, "0x4060"),
        ({0x407C: 0x42C1C0}, "0x407c"),
        ({0x407C: 0x10421C8}, "0x407c"),  # a division of whole numbers
        ({0x1074: 0x0102, 0x100C: 1, 0x3018: 2, 0x4038: 0x20040}, "0x1074"),
        ({0x4050: 0x400000}, "DPU_BS_OW_CFG"),
        ({0x40C0: 1}, "0x40c0"),
        ({0x40CC: 2}, "0x40cc"),
        ({0x4108: 5}, "DPU_LUT_CFG"),
        ({0x501C: 1 << 11, 0x4038: 0x100012}, "0x501c"),
        ({0x5044: 0x401}, "RDMA_FEATURE_MODE"),
    ],
)
def test_what_is_refused(changes: dict[int, int], named: str) -> None:
    with pytest.raises(ModelError, match=named):
        stages(RK3576, {**POINTWISE, **changes}, _CONVOLUTION)


def test_numbers_for_all_channels_come_from_a_tensor() -> None:
    """32 bytes of the addend, 16 of the factor, 16 of the shifts."""
    tensor = struct.pack("<i28x h14x 2B14x", -7, 0x4000, 3, 5)

    def constants(address: Address, count: int) -> bytes:
        assert (address, count) == (BUFFERS["operands"], 64)
        return tensor

    changes = {0x4038: 0x100012, 0x4050: 0, 0x501C: 1 << 1 | 1 << 3 | 1 << 4}
    relocations = {0x5024: Relocation("operands", 0)}
    task = task_of(RK3576, {**BYPASSED, **changes}, _FROM_MEMORY, relocations, constants)
    bs, _ = RK3576.stages(task)
    assert bs is not None
    assert (bs.add, bs.multiply, bs.shifts) == (0xFFFFFFF9, 0x4000, (3, 5))
    assert bs.block == 0


def test_a_factor_that_nobody_fetches_is_refused() -> None:
    changes = {0x4038: 0x100012, 0x4050: 0, 0x501C: 0}
    with pytest.raises(ModelError, match="0x4050"):
        stages(RK3576, {**BYPASSED, **changes})


def test_groups_of_surfaces_are_counted_from_their_end() -> None:
    changes = {0x4034: 5 << 16 | 7, 0x401C: 48, 0x40B8: 48, 0x4050: 0x20001}
    task = task_of(RK3576, {**BYPASSED, **changes}, _FROM_MEMORY)
    assert task[Quantity.TARGET_GROUP] == 2 * 48 * 16
    assert task[Quantity.SURFACES_IN_GROUP] == 2
    task = task_of(RK3576, {**BYPASSED, 0x4050: 0x22000F}, _FROM_MEMORY)
    assert task[Quantity.SURFACES_IN_GROUP] == 16, "more than RK3588's field holds"


def test_two_surfaces_of_an_operand_at_a_time() -> None:
    changes = {0x5034: 0x50000044, 0x500C: 7, 0x5010: 5, 0x5040: 50, 0x506C: 52}
    task = task_of(RK3576, {**BYPASSED, **changes}, _FROM_MEMORY)
    assert task[Quantity.OPERAND_SURFACE_NOTCH] == 2 * 16, "surfaces are 50 atoms apart"
    with pytest.raises(ModelError, match="0x506c"):
        task_of(RK3576, {**BYPASSED, **changes, 0x506C: 51}, _FROM_MEMORY)


_FLOAT = {0x4010: DpuDataFormat.PROC_PRECISION.put(Element.FLOAT16.value)}
_NONE = 0x80000000, 0x7FFFFFFF


def _bs_limits(first: tuple[int, int], last: tuple[int, int]) -> dict[int, int]:
    """BS with limits of sums, then of products, and nothing else."""
    words = dict(zip((0x4048, 0x404C, 0x4058, 0x405C), (*first, *last), strict=True))
    return {**BYPASSED, 0x4038: 0x52, **words}


@pytest.mark.parametrize(
    ("first", "last"),
    [
        # The first are told by their place in the order of floats.
        ((0xC0800000, 0x40000000), (0xBF800000, 0x40000000)),
        ((0xC0800000, 0x7FFFFFFF), (0xC0800000, 0x40000000)),
        ((0xC0800000, 0x40000000), _NONE),
        (_NONE, (0xBF800000, 0x40000000)),
    ],
)
def test_both_limits_of_a_stage_count(first: tuple[int, int], last: tuple[int, int]) -> None:
    bs = first_stage(RK3576, {**_bs_limits(first, last), **_FLOAT})
    assert bs.limits == Limits(0xBF800000, 0x40000000)


def test_integers_have_limits_too() -> None:
    words = _bs_limits(_NONE, (-5 & 0xFFFFFFFF, 0x7FFFFFFF))
    assert first_stage(RK3576, words).limits == Limits(-5 & 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        # What is multiplied has limits of its own.
        ({0x4038: 0x100012, 0x501C: 1 << 10, 0x4050: 0x10000}, r"\(0x4048\) = 0xc0800000"),
        ({0x4058: 0x40400000}, "limits values to 2.0 and more than that, 3.0"),
        ({0x4088: 0xBF800000, 0x407C: 0x1004140}, r"\(0x4088\) = 0xbf800000"),
    ],
)
def test_limits_that_are_refused(changes: dict[int, int], named: str) -> None:
    first, last = (0xC0800000, 0x40000000), (0xBF800000, 0x40000000)
    words = {**_bs_limits(first, last), **_FLOAT, **changes}
    with pytest.raises(ModelError, match=named):
        stages(RK3576, words)


def test_integers_take_a_number_in_the_third_stage() -> None:
    words = {**BYPASSED, 0x407C: 0x241C0, 0x4090: 0xFFFFFFF0}
    _, _, third = stages(RK3576, words)
    assert third is not None
    assert (third.operation, third.operand) == (Operation.ADD, 0xFFFFFFF0)
    with pytest.raises(ModelError, match="0x407c"):
        stages(RK3576, {**words, **_FLOAT})


def test_rk3562_refuses_a_limit_after_a_sum_in_float() -> None:
    words = {**BYPASSED, 0x400C: 0x1E5, 0x4060: 0x20010, 0x4064: 0xBF800000, 0x4078: 0x40000000}
    with pytest.raises(ModelError, match=r"\(0x4064\) = 0xbf800000"):
        stages(RK3562, {**words, **_FLOAT})


def test_rk3562_has_scalar_operands_in_registers() -> None:
    words = {
        **BYPASSED,
        0x400C: 0x1E5,
        0x4038: 0x100312,
        0x4040: 9,
        0x4044: 0x40000000,
        0x4050: 0,
        0x4054: 5 << 16,
        0x4060: 0x20000,
        0x4064: 0xFFFFFFFD,
        0x4068: 0x44EE0800,
        0x4010: 0x2000,
    }
    bs, bn, _ = stages(RK3562, words)
    assert bs is not None
    assert bn is not None
    assert (bs.add, bs.multiply, bs.shifts) == (9, 0x4000, (3, 5))
    assert (bn.add, bn.multiply, bn.shifts) == (0xFFFFFFFD, 0x44EE, (8, 8))


def test_rk3562_multiplies_by_zero_where_it_says_so() -> None:
    changes = {0x400C: 0x1E5, 0x4038: 0x52, 0x4060: 0x13}
    for mode, factor in ((0, 0), (2, None)):
        assert first_stage(RK3562, {**BYPASSED, **changes, 0x4050: mode}).multiply == factor


def test_rk3562_offsets_weights_by_a_number() -> None:
    changes = {0x400C: 0x1E5, 0x4038: 0x120080, 0x4050: 2, 0x4054: 0x8000FFF6, 0x4060: 0x13}
    assert first_stage(RK3562, {**BYPASSED, **changes}).weight_offset == -10


def test_weights_with_zero_points_two_by_two() -> None:
    layout = WeightLayout(Element.INT8, 1, 4, 1, 1, 1, 64, True, with_zero_points=2)
    data = np.array([1, 2, 10, -128, 3, 4, -10, 0], np.int8).view(np.uint8)
    assert unpack_weights(data, layout).reshape(-1).tolist() == [11, 130, -7, 4]
    assert layout.bytes == 8


def test_kernels_in_packed_rows() -> None:
    kernels, height, width, channels = 20, 2, 3, 4
    layout = WeightLayout(
        Element.INT8, kernels, channels, height, width, 16, 32, False, row_bytes=16
    )
    wanted = np.random.default_rng(0).integers(-99, 99, (kernels, channels, height, width))
    stored = []
    for first in (0, 16):
        block = wanted[first : first + 16]
        rows = np.zeros((height, len(block), 16), np.int8)
        pixels = block.transpose(2, 0, 3, 1).reshape(height, len(block), -1)
        rows[..., : pixels.shape[2]] = pixels
        stored.append(rows.reshape(-1))
    data = np.concatenate(stored).view(np.uint8)
    assert data.size == layout.bytes
    np.testing.assert_array_equal(unpack_weights(data, layout), wanted)


def test_surfaces_are_packed_into_groups() -> None:
    memory = Memory(np.full(64, 255, np.uint8), {})
    atoms = np.arange(4 * 16, dtype=np.uint8).reshape(2, 1, 2, 16)
    # Two surfaces of 16 + 5 bytes, in groups of 20: one byte each is left over.
    packer = SurfacePacker(Address(INTERNAL, 0), 5, 2, 20, 64)
    write_atoms(memory, Written(packer, (2, 1, 2, 16)), atoms)
    stream = [*range(21), *range(32, 53)]
    written = memory.view(span(Address(INTERNAL, 0), 64)).tolist()
    assert written == [*stream[:20], *[0] * 12, *stream[20:40], *[0] * 12]


def test_what_gets_wider_stays_together_as_it_is_packed() -> None:
    memory = Memory(np.full(64, 255, np.uint8), {})
    # Two surfaces of two pixels each: an atom of bytes gave both atoms of a pixel.
    atoms = np.arange(4 * 16, dtype=np.uint8).reshape(2, 1, 2, 16)
    packer = SurfacePacker(Address(INTERNAL, 0), 16, 1, 64, 64, 2)
    write_atoms(memory, Written(packer, (2, 1, 2, 16)), atoms)
    written = memory.view(span(Address(INTERNAL, 0), 64)).tolist()
    assert written == [*range(16), *range(32, 48), *range(16, 32), *range(48, 64)]


_PACKS_TWO = {0x400C: 0x2000005, 0x4020: 1, 0x402C: 15, 0x40C8: 2, 0x500C: 3, 0x5014: 7}
"""Four pixels of eight channels in memory, two of sixteen as written."""


def packer(
    words: Mapping[int, int], shape: tuple[int, int, int], together: int
) -> PackedWriter | SurfacePacker:
    task = task_of(RK3576, {**BYPASSED, **words}, _FROM_MEMORY)
    found = RK3576.packer(task, shape, Address(INTERNAL, 0), together)
    assert isinstance(found, PackedWriter | SurfacePacker)
    return found


def test_pixels_of_half_an_atom_are_put_together() -> None:
    words = {**_PACKS_TWO, 0x4010: 0}
    assert packer(words, (1, 1, 4), 1) == PackedWriter(Address(INTERNAL, 0), 8, 32, 1, 16)
    more = {**words, 0x402C: 63, 0x40C8: 8, 0x5014: 31}
    assert packer(more, (2, 1, 4), 1) == PackedWriter(Address(INTERNAL, 0), 16, 128, 1, 16, 2)


@pytest.mark.parametrize(
    ("changes", "shape", "together"),
    [
        ({0x5014: 3}, (1, 1, 4), 1),
        ({0x4010: 1 << 29}, (1, 1, 4), 1),
        ({}, (2, 1, 4), 1),
        ({}, (1, 1, 8), 1),
        ({0x400C: 0x2000005 | 5 << 26}, (1, 1, 4), 1),
        ({0x400C: 0x2000005 | 5 << 26, 0x4020: 3}, (2, 1, 4), 2),
        ({0x4020: 3}, (3, 1, 4), 2),
    ],
)
def test_other_sizes_of_packed_pixels_are_refused(
    changes: dict[int, int], shape: tuple[int, int, int], together: int
) -> None:
    with pytest.raises(ModelError, match="is not known"):
        packer({**_PACKS_TWO, **changes}, shape, together)


@pytest.mark.parametrize(
    ("config", "element"), [(0x42C1C0, Element.FLOAT32), (0x8042C1C0, Element.INT32)]
)
def test_sums_of_32_bits(config: int, element: Element) -> None:
    precision = DpuDataFormat.PROC_PRECISION.put(element.value)
    words = {**BYPASSED, 0x407C: config, 0x4010: precision}
    _, _, third = stages(RK3576, words)
    assert third is not None
    assert (third.operation, third.operand) == (Operation.ADD, FromMemory.FEATURES)
    assert not third.converts
    with pytest.raises(ModelError, match="0x407c"):
        stages(RK3576, {**words, 0x4010: 0})


def test_a_reduction_leaves_a_value_of_each_group_of_channels_and_column() -> None:
    output = Output(Element.FLOAT16, 1, 0, 0, 1.0)
    dpu = Dpu(True, None, None, None, "max", output, reduced_lanes=4, reduces_rows=True)
    # The last four channels of each group of eight don't count.
    values = np.full((16, 3, 2), 9, np.float32)
    values[:4], values[8:12] = -7, -8
    values[2, 1, 0], values[9, 2, 1] = -1, -2
    reduced = process(Memory(np.zeros(0, np.uint8), {}), dpu, values)
    assert reduced.tolist() == [[[-1, -7]], [[-8, -2]]]
    assert dpu.reduced_shape(values.shape) == reduced.shape


def test_channels_that_the_compiler_cut_are_refused() -> None:
    changes = {0x402C: 8399 & 0x1FFF, 0x4030: 8399 << 16}
    with pytest.raises(ModelError, match=r"0x402c and 0x4030 ask for 208 and 8400 channels"):
        task_of(RK3576, {**BYPASSED, **changes}, _FROM_MEMORY)


def test_rows_that_lie_too_far_apart_are_refused() -> None:
    """134,399 pixels in 16 bits; the rest went where un-pooling has its distance."""
    changes = {0x4028: 134_399, 0x4034: 1 << 16}
    with pytest.raises(ModelError, match=r"\(0x4028\) = 0x20cff: rows that lie apart by more"):
        task_of(RK3576, {**BYPASSED, **changes}, _FROM_MEMORY)
    task_of(RK3576, {**BYPASSED, 0x4028: 134_399}, _FROM_MEMORY)


@pytest.mark.parametrize(
    ("register", "word"),
    [(0x102C, 1 << 28), (0x1078, 1 << 13), (0x1024, 1 << 14), (0x107C, 1 << 16)],
)
def test_bits_of_no_field_are_refused(register: int, word: int) -> None:
    with pytest.raises(ModelError, match=rf"{register:#x}\) = {word:#x}: the bits"):
        task_of(RK3576, {**POINTWISE, register: word}, _CONVOLUTION)


def test_wide_and_tall_features() -> None:
    for columns, rows in ((4096, 1), (1, 8192)):
        size = columns - 1 << 16 | rows - 1
        changes = {0x102C: size, 0x1078: size, 0x301C: rows - 1 << 16 | columns - 1}
        task = task_of(RK3576, {**POINTWISE, **changes}, _CONVOLUTION)
        assert (task[Quantity.INPUT_HEIGHT], task[Quantity.INPUT_WIDTH]) == (rows, columns)


def test_a_maximum_over_channels_has_rk3588_s_mark_on_rk3562() -> None:
    words = {0x400C: 0x20001E5, 0x4024: 0x1C00000, 0x4038: 0x53, 0x4060: 0x13, 0x407C: 0x10041C1}
    words |= {0x4050: 2, 0x40C0: 0x4440002}
    words |= {0x40CC: 0}
    assert task_of(RK3562, words, _FROM_MEMORY)[Quantity.REDUCTION] & 3 == 3
    with pytest.raises(ModelError, match="0x4024"):
        task_of(RK3562, {**words, 0x4024: 0x400000}, _FROM_MEMORY)


def test_the_written_channels_are_above_the_other_bits() -> None:
    changes = {0x402C: 127, 0x4030: 127 << 16 | 0xF00}
    task = task_of(RK3576, {**BYPASSED, **changes}, _FROM_MEMORY)
    assert task[Quantity.WRITTEN_CHANNELS] == 128


@pytest.mark.parametrize(("word", "bits"), [(0, 0), (0x21, 1), (0x42, 2), (0xC6, 6), (0x129, 9)])
def test_the_bits_that_sums_lose_are_told_twice(word: int, bits: int) -> None:
    task = task_of(RK3576, {**POINTWISE, 0x3024: word}, _CONVOLUTION)
    assert task[Quantity.TRUNCATED_BITS] == bits
    with pytest.raises(ModelError, match=r"CORE_CLIP_TRUNCATE \(0x3024\)"):
        task_of(RK3576, {**POINTWISE, 0x3024: word + 1}, _CONVOLUTION)
