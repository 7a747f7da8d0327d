"""RK3566 and RK3568 ("RKNPU lite"), the first generation.

Atoms have half the size, operand and weight groups half the channels. What is written has the size
of what is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...elements import Element
from ...registers.fields import sign_extend
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ...tasks import InputConversion
from ..base import Groups, always
from ..rk3588 import convolution, stages
from ..rk3588.dpu import DpuBsOw
from ..rk3588.generation import Rk3588
from ..rk3588.rdma import RdmaEwSurfaceStride
from ..settings import ElementwiseSettings, StageSettings
from .registers import (
    ATOM,
    REGISTERS,
    CnaConv1,
    CnaConvert0,
    CnaDma1,
    CnaPad,
    CoreMisc,
    CoreSize0,
    CoreSize1,
    DpuBn,
    DpuBs,
    DpuBsOwOperand,
    DpuEw,
    DpuFeatureMode,
    RdmaBn,
    RdmaBs,
    RdmaEw,
    RdmaFeatureMode,
)

_BS = replace(stages.BS, config=DpuBs)
_BN = replace(stages.BN, config=DpuBn)
_OFFSET_BITS = 16


def _is_depthwise(task: TaskRegisters) -> int:
    says = task[CoreMisc.DW_EN]
    if says != (task[CnaConv1.CONV_MODE] == convolution.DEPTHWISE):
        raise task.error(CnaConv1.CONV_MODE, f"{CoreMisc.title} has DW_EN = {says}")
    return says


def _picture_line(task: TaskRegisters) -> int:
    """Of the whole picture, of which a task may see some columns; each channel fills up atoms."""
    channels = task.picture_channels()
    element = Element(task[Quantity.CONVOLUTION_ELEMENT])
    line = -(-task[Quantity.INPUT_LINE] // (channels * ATOM)) * channels * ATOM
    if line < task[Quantity.INPUT_WIDTH] * channels * element.size:
        raise task.error(CnaDma1.LINE_STRIDE, f"less than {task[Quantity.INPUT_WIDTH]} columns")
    return line


def _padding_value(task: TaskRegisters) -> int:
    value = task[CnaPad.PAD_VALUE]
    is_float = Element(task[Quantity.CONVOLUTION_ELEMENT]).is_float
    # Of a depthwise convolution it is a byte.
    return sign_extend(value, 8) if task[Quantity.IS_DEPTHWISE] and not is_float else value


def _channels(task: TaskRegisters) -> int:
    """The stages' channels.

    A convolution that writes one phase of an interpolation has rows times channels in the register.
    """
    said = task.own(Quantity.CHANNELS)
    if not task.has(CoreSize0):
        return said
    rows, channels = task[Quantity.OUTPUT_HEIGHT], task[CoreSize1.DATAOUT_CHANNEL]
    return channels if rows > 1 and said == rows * channels else said


def _written_channels(task: TaskRegisters) -> int:
    return task.own(Quantity.CHANNELS)


def _written_height(task: TaskRegisters) -> int:
    """What is written has the input's size; an atom transposer makes rows of its columns."""
    return 1 if task[Quantity.TRANSPOSES_ATOMS] else task[Quantity.HEIGHT]


def _written_width(task: TaskRegisters) -> int:
    return task[Quantity.HEIGHT] if task[Quantity.TRANSPOSES_ATOMS] else task[Quantity.WIDTH]


def _bs_use(task: TaskRegisters) -> int:
    return 0 if task[RdmaBs.DISABLE] else task.own(Quantity.BS_USE)


def _bn_use(task: TaskRegisters) -> int:
    return 0 if task[RdmaBn.DISABLE] else task.own(Quantity.BN_USE)


def _operand_bytes(task: TaskRegisters) -> int:
    return min(Element(task[Quantity.ELEMENT]).size, 2)


def _operand_surface_notch(task: TaskRegisters) -> int:
    """The register has the distance of surfaces."""
    height, width = task[Quantity.HEIGHT], task[Quantity.WIDTH]
    area = (height * width + (height - 1) * task[Quantity.OPERAND_NOTCH]) * ATOM
    return sign_extend(task.word(RdmaEwSurfaceStride) - area, 32)


class Rk3566(Rk3588):
    """RK3566 and RK3568."""

    registers = REGISTERS
    atom = ATOM
    operand_group = 4
    groups = Groups(kernels={1: 16, 2: 8}, channels={1: 32, 2: 16}, depthwise={1: 32, 2: 16})
    derived: Mapping[Quantity, Derived] = {
        **{
            quantity: derived
            for quantity, derived in Rk3588.derived.items()
            if quantity
            not in (Quantity.VALID_CHANNELS, Quantity.INPUT_LINE, Quantity.INPUT_SURFACE)
        },
        Quantity.IS_DEPTHWISE: Derived(_is_depthwise, CnaConv1.CONV_MODE),
        Quantity.PICTURE_LINE: Derived(_picture_line, CnaDma1.LINE_STRIDE),
        Quantity.PADDING_VALUE: Derived(_padding_value, CnaPad.PAD_VALUE),
        Quantity.CHANNELS: Derived(_channels, CoreSize1.DATAOUT_CHANNEL),
        Quantity.WRITTEN_CHANNELS: Derived(_written_channels, CoreSize1.DATAOUT_CHANNEL),
        Quantity.WRITTEN_HEIGHT: Derived(_written_height, DpuFeatureMode.TP_EN),
        Quantity.WRITTEN_WIDTH: Derived(_written_width, DpuFeatureMode.TP_EN),
        Quantity.BS_USE: Derived(_bs_use, RdmaBs.DATA_USE),
        Quantity.BN_USE: Derived(_bn_use, RdmaBn.DATA_USE),
        Quantity.OPERAND_BYTES: Derived(_operand_bytes, RdmaEw),
        Quantity.OPERAND_SURFACE_NOTCH: Derived(_operand_surface_notch, RdmaEwSurfaceStride),
        Quantity.PACKED_KIND: always(0, DpuFeatureMode),
        Quantity.TRANSPOSED_BYTES: always(1, DpuBsOw.TP_ORG_EN),
        Quantity.SURFACES_IN_GROUP: always(0, DpuBsOw.SIZE_E_0),
    }

    def check(self, task: TaskRegisters) -> None:
        offset = task[DpuBsOwOperand.OW_OP]
        if sign_extend(offset, _OFFSET_BITS) != offset:
            raise task.error(DpuBsOwOperand, f"more than {_OFFSET_BITS} bits")
        # Two DMAs may read one stream where they have the same surfaces: as good as one.
        if not task[RdmaFeatureMode.COMBINES]:
            return
        area = task[Quantity.HEIGHT] * task[Quantity.WIDTH] * ATOM
        surface = area + task[Quantity.SOURCE_SURFACE_NOTCH]
        is_same = task.address(Quantity.SOURCE) == task.address(Quantity.OPERAND)
        strides = surface == task.word(RdmaEwSurfaceStride)
        if not (is_same and strides and task[DpuEw.BYPASS]):
            raise task.error(RdmaFeatureMode)

    def input_conversion(self, task: TaskRegisters) -> InputConversion | None:
        # Set for pictures of bytes alone.
        return convolution.conversion_of(task) if task[CnaConvert0.CONVERTS] else None

    def stages(self, task: TaskRegisters) -> tuple[StageSettings | None, StageSettings | None]:
        offset = stages.weight_offset(task, DpuBsOwOperand)
        return stages.stage(task, _BS, offset), stages.stage(task, _BN)

    def elementwise(self, task: TaskRegisters) -> ElementwiseSettings | None:
        return stages.elementwise(task, DpuEw, has_columns=False)
