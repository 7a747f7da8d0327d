"""RK3562 ("RKNPU t4")."""

from __future__ import annotations

from collections.abc import Mapping

from ...elements import Element
from ...registers.blocks import Enabled
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ..base import Groups, always
from ..rk3576 import convolution, writer
from ..rk3576.cna import CnaLine, CoreClip
from ..rk3576.generation import Rk3576
from ..rk3576.stages import check_sources
from ..settings import StageSettings
from ..truncation import check_told_again
from . import stages
from .registers import (
    MODES,
    PACKING_MODES,
    REGISTERS,
    CnaFetched,
    CnaInputSize,
    CnaWeightSize1,
    DpuBsOw,
    DpuFeatureMode,
)

_TRANSPOSED = 8
_OF_RK3576 = (
    Quantity.KERNEL_BYTES,
    Quantity.TARGET_GROUP,
    Quantity.REDUCTION,
    Quantity.POSITIVE_START,
)
"""What RK3576 derives, and has a field of its own here."""


def _fetched_height(task: TaskRegisters) -> int:
    return task.own(_fetched(task, Quantity.INPUT_HEIGHT, Quantity.FETCHED_HEIGHT))


def _fetched_width(task: TaskRegisters) -> int:
    return task.own(_fetched(task, Quantity.INPUT_WIDTH, Quantity.FETCHED_WIDTH))


def _fetched(task: TaskRegisters, whole: Quantity, fetched: Quantity) -> Quantity:
    return whole if task[Quantity.PICTURE_FORMAT] else fetched


def _picture_line(task: TaskRegisters) -> int:
    """Each channel fills up atoms; the register counts the atoms of all rows."""
    element = Element(task[Quantity.CONVOLUTION_ELEMENT])
    pixels = Rk3576.atom // element.size
    filled = -(-task[Quantity.INPUT_WIDTH] // pixels) * pixels
    line = filled * task.picture_channels() * element.size
    area = line * task[Quantity.INPUT_HEIGHT] // Rk3576.atom
    if task[CnaLine.LINE_STRIDE] != area:
        raise task.error(CnaLine.LINE_STRIDE, f"a picture of {area} atoms has it otherwise")
    return line


class Rk3562(Rk3576):
    """RK3562."""

    registers = REGISTERS
    operand_group = 4
    groups = Groups(kernels={1: 16, 2: 8}, channels={1: 32, 2: 32}, depthwise={1: 32, 2: 16})
    derived: Mapping[Quantity, Derived] = {
        **{what: how for what, how in Rk3576.derived.items() if what not in _OF_RK3576},
        **stages.DERIVED,
        Quantity.FETCHED_HEIGHT: Derived(_fetched_height, CnaFetched.HEIGHT),
        Quantity.FETCHED_WIDTH: Derived(_fetched_width, CnaFetched.WIDTH),
        Quantity.PICTURE_LINE: Derived(_picture_line, CnaLine.LINE_STRIDE),
        Quantity.ROW_BYTES: always(0, CnaWeightSize1),
        Quantity.TRANSPOSED_PIXELS: always(_TRANSPOSED, DpuBsOw.ORDER),
    }

    def check(self, task: TaskRegisters) -> None:
        if task.state.enable_mask & Enabled.CNA:
            self._check_sizes(task)
            convolution.check_sizes(task)
            check_told_again(task, CoreClip.AGAIN)
        if task.state.enable_mask & Enabled.DPU:
            check_sources(task)
            burst = DpuFeatureMode.BURST_LEN
            mode = task.word(DpuFeatureMode) & ~burst.put(burst.mask)
            writer.check_writer(task, mode, MODES, PACKING_MODES)

    def _check_sizes(self, task: TaskRegisters) -> None:
        sizes = (
            Quantity.KERNELS,
            Quantity.KERNEL_HEIGHT,
            Quantity.KERNEL_WIDTH,
            Quantity.INPUT_CHANNELS,
            Quantity.FETCHED_HEIGHT,
            Quantity.FETCHED_WIDTH,
        )
        inputs = task.own(Quantity.INPUT_HEIGHT), task.own(Quantity.INPUT_WIDTH)
        if not (all(task[what] for what in sizes) and all(inputs)):
            raise task.error(CnaInputSize)

    def stages(self, task: TaskRegisters) -> tuple[StageSettings | None, StageSettings | None]:
        return stages.stages(task)
