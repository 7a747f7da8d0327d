"""From registers to descriptions, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.generations.rk3588.cna import (
    CnaConv1,
    CnaConv3,
    CnaConvert0,
    CnaDataSize0,
    CnaDataSize1,
    CnaDecompressControl,
    CnaDma1,
    CnaDma2,
    CnaPad0,
    CnaPad1,
    CnaWeightSize0,
    CnaWeightSize1,
    CnaWeightSize2,
)
from anynpu.soft.engines.rknpu.generations.rk3588.core import CoreClip, CoreSize0
from anynpu.soft.engines.rknpu.generations.rk3588.dpu import (
    DpuBn,
    DpuBs,
    DpuBsMul,
    DpuBsOw,
    DpuChannel,
    DpuDataFormat,
    DpuEw,
    DpuFeatureMode,
    DpuOffsetPend,
    DpuOutOffset,
    DpuOutScale,
    DpuOutShift,
    DpuSurfaceAdd,
    DpuSurfaceStride,
    DpuWidth,
    DpuWriteSize1,
)
from anynpu.soft.engines.rknpu.generations.rk3588.rdma import (
    RdmaBs,
    RdmaChannel,
    RdmaFeatureMode,
    RdmaHeight,
    RdmaWidth,
)
from anynpu.soft.engines.rknpu.memory import INTERNAL
from anynpu.soft.engines.rknpu.registers.fields import Field
from anynpu.soft.engines.rknpu.rounding import Ties
from anynpu.soft.engines.rknpu.tasks import (
    BlockWriter,
    ConvolutionTask,
    CopyTask,
    ElementwiseTask,
    Features,
)

from .commands import Word, decode, fields

CONVOLUTION, CONVOLUTION_WITH_OPERANDS, FROM_MEMORY = 0x0D, 0x1D, 0x18
WEIGHTS = {1: np.arange(32 * 32 * 9, dtype=np.int64).astype(np.int8).tobytes()}

DPU: dict[Field, int] = {
    DpuFeatureMode.OUTPUT_MODE: 2,
    DpuBs.BYPASS: 1,
    DpuBn.BYPASS: 1,
    DpuEw.BYPASS: 1,
    DpuOutScale.OUT_CVT_SCALE: 1,
    DpuSurfaceStride.DST_SURF_STRIDE: 256,
    DpuSurfaceAdd.SURF_ADD: 256,
    DpuWriteSize1.HEIGHT_WDMA: 3,
    DpuWriteSize1.WIDTH_WDMA: 3,
}
DENSE: dict[Field, int] = {
    **DPU,
    CnaConv3.CONV_X_STRIDE: 1,
    CnaConv3.CONV_Y_STRIDE: 1,
    CnaDataSize0.DATAIN_HEIGHT: 4,
    CnaDataSize0.DATAIN_WIDTH: 4,
    CnaDataSize1.DATAIN_CHANNEL: 32,
    CnaDataSize1.DATAIN_CHANNEL_REAL: 23,
    CnaWeightSize1.WEIGHT_BYTES_PER_KERNEL: 32 * 9,
    CnaWeightSize2.WEIGHT_KERNELS: 32,
    CnaWeightSize2.WEIGHT_HEIGHT: 3,
    CnaWeightSize2.WEIGHT_WIDTH: 3,
    CnaConvert0.CVT_BYPASS: 1,
    CnaPad0.PAD_TOP: 1,
    CnaPad0.PAD_LEFT: 1,
    CnaPad1.PAD_VALUE: 0xFFFFFFFA,
    CnaDma1.LINE_STRIDE: 16,
    CnaDma2.SURF_STRIDE: 0,
    CoreSize0.DATAOUT_HEIGHT: 3,
    CoreSize0.DATAOUT_WIDTH: 3,
}
COPY: dict[Field, int] = {
    **DPU,
    DpuChannel.CHANNEL: 31,
    RdmaChannel.CHANNEL: 31,
    RdmaHeight.HEIGHT: 3,
    RdmaWidth.WIDTH: 3,
}
ADDRESSES: list[Word] = [(0x1070, "x"), (0x1110, "weights"), (0x4020, "y"), (0x5018, "x")]


def dense(changes: dict[Field, int] | None = None, mask: int = CONVOLUTION, **more: Any) -> Any:
    words = fields({**DENSE, **(changes or {})})
    return decode(
        mask, [*words, *ADDRESSES, *more.get("words", [])], {**WEIGHTS, **more.get("constants", {})}
    )


def test_a_dense_convolution() -> None:
    task = dense()
    assert isinstance(task, ConvolutionTask)
    what = task.convolution
    assert what.source == Features(Address(INTERNAL, 0), Element.INT8, 32, 4, 4, 64, 256, 16)
    assert (what.valid_channels, what.padding, what.padding_value) == (24, (1, 1), -6.0)
    assert (what.channels, what.height, what.width) == (32, 4, 4)
    # Kernel k, channel c, row y, column x lies at (y, x, k, c).
    stored = np.frombuffer(WEIGHTS[1], np.int8).reshape(3, 3, 32, 32)
    np.testing.assert_array_equal(what.weights.values, stored.transpose(2, 3, 0, 1))
    assert task.writer == BlockWriter(Address(INTERNAL, 1 << 14), 4, 4, 64, 256, 2, 256, 16, 0)
    assert (task.dpu.bs, task.dpu.bn, task.dpu.elementwise) == (None, None, None)


@pytest.mark.parametrize(("mode", "ties"), [(0, Ties.EVEN), (1, Ties.UP)])
def test_sums_may_lose_bits(mode: int, ties: Ties) -> None:
    what = dense({CoreClip.CLIP_TRUNCATE: 6, CoreClip.ROUND_TYPE: mode}).convolution
    assert (what.truncate, what.truncate_ties) == (6, ties)


def test_operands_of_bs() -> None:
    groups = [
        (np.arange(8) + 100 * group, np.arange(8) - group, np.arange(8) * 3) for group in range(4)
    ]
    block = b"".join(
        part.astype(kind).tobytes()
        for group in groups
        for part, kind in zip(group, ("<i4", "<i2", "<i2"), strict=True)
    )
    task = dense(
        {
            DpuBs.BYPASS: 0,
            DpuBs.RELU_BYPASS: 1,
            DpuBs.ALU_SRC: 1,
            DpuBs.ALU_ALGO: 2,
            DpuBsMul.MUL_SRC: 1,
            DpuBsMul.MUL_SHIFT_VALUE: 14,
            DpuDataFormat.BS_MUL_SHIFT_VALUE_NEG: 13,
            DpuBsOw.OW_SRC: 1,
            RdmaBs.DATA_USE: 7,
        },
        CONVOLUTION_WITH_OPERANDS,
        words=[(0x5020, "operands")],
        constants={2: block},
    )
    bs = task.dpu.bs
    assert bs.add.ravel().tolist() == [
        *range(8),
        *range(100, 108),
        *range(200, 208),
        *range(300, 308),
    ]
    assert bs.multiply.ravel()[:9].tolist() == [0, 3, 6, 9, 12, 15, 18, 21, 0]
    assert task.convolution.weight_offset.ravel()[7:10].tolist() == [7, -1, 0]
    assert (bs.shift_positive, bs.shift_negative, bs.is_limited) == (14, 13, False)


def test_a_depthwise_convolution() -> None:
    task = dense(
        {
            CnaConv1.CONV_MODE: 3,
            CnaWeightSize0.WEIGHT_BYTES: 32 * 9,
            CnaWeightSize2.WEIGHT_KERNELS: 1,
            CnaPad1.PAD_VALUE: 0xFAFA,
        },
        words=[(0x3010, 2)],
    )
    what = task.convolution
    stored = np.frombuffer(WEIGHTS[1], np.int8)[: 32 * 9].reshape(3, 3, 32)
    np.testing.assert_array_equal(what.weights.values, stored.transpose(2, 0, 1))
    assert what.padding_value == -6
    assert what.channels == 32


def test_weights_in_internal_memory_are_read_at_run_time() -> None:
    words = fields(DENSE)
    task = decode(CONVOLUTION, [*words, (0x1070, "x"), (0x1110, "y"), (0x4020, "y")])
    assert isinstance(task, ConvolutionTask)
    assert not task.convolution.weights.is_constant


def test_a_copy_does_not_look_into_atoms() -> None:
    task = decode(FROM_MEMORY, [*fields(COPY), *ADDRESSES])
    assert isinstance(task, CopyTask)
    assert task.source.shape == (32, 4, 4)
    assert task.repeats == (1, 1)


def test_features_through_the_output_conversion() -> None:
    changed = {
        **COPY,
        DpuOutScale.OUT_CVT_SCALE: 0x8000,
        DpuOutShift.OUT_CVT_SHIFT: 3,
        DpuOutOffset.OUT_CVT_OFFSET: 0xFFFFFFFF,
    }
    task = decode(FROM_MEMORY, [*fields(changed), *ADDRESSES])
    assert isinstance(task, ElementwiseTask)
    out = task.dpu.output
    assert (out.scale, out.shift, out.offset) == (-32768, 3, -1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({CnaConv1.PROC_PRECISION: 1}, r"CNA_CONV_CON1 \(0x100c\) = 0x80: PROC_PRECISION = 1"),
        ({CnaDecompressControl.DECOMP_CONTROL: 1}, "DECOMP_CONTROL = 1 is not known"),
        ({CnaDataSize0.DATAIN_WIDTH: 0}, "there is no input"),
        ({CnaWeightSize1.WEIGHT_BYTES_PER_KERNEL: 100}, "not whole channels"),
        ({CnaWeightSize2.WEIGHT_KERNELS: 64}, r"bytes 0 to 18432 of data section 1 .* has 9216"),
        ({CnaDma2.SURF_STRIDE: 0x7FFFFFF}, "of internal memory"),
        ({DpuSurfaceAdd.SURF_ADD: 0x7FFFFFF0}, "of internal memory"),
        ({DpuFeatureMode.OUTPUT_MODE: 1}, "OUTPUT_MODE = 1 is not known"),
        ({DpuBs.BYPASS: 0, DpuBs.ALU_ALGO: 7}, "ALU_ALGO = 7 is not known"),
        ({DpuDataFormat.OUT_PRECISION: 3}, "integers are not known to become it"),
        ({DpuEw.BYPASS: 0, DpuEw.OP_SRC: 1}, "the operand is to come from memory"),
        (
            {CoreSize0.DATAOUT_HEIGHT: 65535, CoreSize0.DATAOUT_WIDTH: 65535},
            "of a task|reaches over",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(changes: dict[Field, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        dense(changes)


def test_a_stride_of_zero_stays_where_it_is() -> None:
    assert dense({CnaConv3.CONV_Y_STRIDE: 0}).convolution.stride == (0, 1)


def test_copies_without_a_channel_in_each_lane_are_padded() -> None:
    changed = {**COPY, DpuChannel.ORIG_CHANNEL: 17, DpuOffsetPend.OFFSET_PEND: 0xFFFB}
    task = decode(FROM_MEMORY, [*fields(changed), *ADDRESSES])
    assert isinstance(task, ElementwiseTask)
    assert task.source.channels == 18
    assert isinstance(task.writer, BlockWriter)
    assert task.writer.padding == 0xFFFB


def test_surfaces_are_not_dropped_silently() -> None:
    changed = {**COPY, DpuChannel.CHANNEL: 15, DpuWidth.WIDTH: 31}
    with pytest.raises(ModelError, match="32 channels as fewer are not known"):
        decode(FROM_MEMORY, [*fields(changed), *ADDRESSES])


def test_writers_start_with_an_atom() -> None:
    with pytest.raises(ModelError, match=r"DPU_DST_BASE_ADDR .*from within an atom"):
        decode(FROM_MEMORY, [*fields(COPY), (0x5018, "x"), (0x4020, "y + 8")])


def test_unknown_bits_of_a_register_are_refused() -> None:
    with pytest.raises(ModelError, match=r"CNA_CONV_CON3 .*the bits 0x80000000 have no known"):
        dense(words=[(0x1014, 0x80000009)])


def test_unknown_enable_masks_are_refused() -> None:
    with pytest.raises(ModelError, match="the enable mask 0x11 is not known"):
        dense(mask=0x11)


def test_a_missing_address_is_refused() -> None:
    with pytest.raises(ModelError, match=r"CNA_FEATURE_DATA_ADDR .*no relocation"):
        decode(
            CONVOLUTION, [*fields(DENSE), (0x1070, 0), (0x1110, "weights"), (0x4020, "y")], WEIGHTS
        )


def test_a_strange_buffer_is_refused() -> None:
    with pytest.raises(ModelError, match="buffer 'RubikConv', which the file doesn't describe"):
        decode(FROM_MEMORY, [*fields(COPY), (0x5018, "RubikConv"), (0x4020, "y")])


def test_two_inputs_leave_no_place_for_an_operand() -> None:
    changed = {
        **COPY,
        RdmaFeatureMode.COMB_USE: 3,
        DpuEw.BYPASS: 0,
        DpuEw.LUT_BYPASS: 1,
        DpuEw.OP_SRC: 1,
    }
    words: list[Word] = [*fields(changed), *ADDRESSES, (0x5038, "y"), (0x5034, 4 | 1 << 30)]
    with pytest.raises(ModelError, match="two inputs for an operand as well"):
        decode(FROM_MEMORY, words)
