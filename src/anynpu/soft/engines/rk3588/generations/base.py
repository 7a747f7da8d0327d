"""What may differ between the chips: atoms, groups, and the notation of some registers.

A generation turns its registers into RK3588's notation; decoding is written once, for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .....errors import ModelError
from ..elements import Address, Element
from ..machine import TaskState
from ..registers.cna import (
    CnaConv1,
    CnaConvert0,
    CnaConvert1,
    CnaConvert2,
    CnaConvert3,
    CnaConvert4,
    CnaDma1,
    CnaDma2,
)
from ..registers.dpu import DpuWriteSize0
from ..registers.fields import Register
from ..tasks import InputConversion, RowWriter
from ..view import TaskRegisters

_CONVERSIONS = (CnaConvert1, CnaConvert2, CnaConvert3, CnaConvert4)


@dataclass(frozen=True)
class Groups:
    """How many kernels and channels lie side by side in weights, by the size of an element."""

    kernels: Mapping[int, int]
    channels: Mapping[int, int]
    depthwise: Mapping[int, int]


class Generation:
    """RK3588, and RK3576 as far as its files decode."""

    atom = 16
    """Bytes of a pixel in one channel block."""

    wide_atom = 16
    """The same for elements of four bytes."""

    operand_group = 8
    """Channels whose biases, offsets and factors lie together."""

    groups = Groups(kernels={1: 32, 2: 16}, channels={1: 32, 2: 32}, depthwise={1: 64, 2: 32})

    has_weight_zero_points = False
    """Whether depthwise weights are pairs of weight and zero point."""

    valid_channels_in_last_group = True
    """Whether the count of valid channels is that of the last 64 channels, or of all."""

    writes_surface_groups = True
    """Whether the surfaces that a writer fills go in groups with a stride of their own."""

    def atom_of(self, element: Element) -> int:
        """Bytes of a pixel in one channel block."""
        return self.wide_atom if element.size == 4 else self.atom

    has_pixel_operands = False
    """Whether data mode 2 of the element-wise operand is known: a number for each pixel."""

    has_column_operands = True
    """Whether data mode 2 of an operand in registers is known: a number for each column."""

    works_without_core = False
    """Whether a task may start the CNA and the DPU alone."""

    own: frozenset[int] = frozenset()
    """Registers that only this generation has; `translate` uses them up."""

    own_inert: frozenset[int] = frozenset()
    """Registers that only this generation has, without an effect on results."""

    def translate(self, state: TaskState) -> dict[int, int]:
        """A task's registers in RK3588's notation."""
        return state.words

    def feature_strides(self, task: TaskRegisters, width: int) -> tuple[int, int]:
        """Bytes between rows, and between surfaces, of a convolution's input."""
        line, surface = task[CnaDma1.LINE_STRIDE], task.signed(CnaDma2.SURF_STRIDE)
        if task[CnaConv1.GROUP_LINE_OFF]:
            return line * self.atom, (surface + width) * self.atom
        return line * 4, (surface + line) * self.atom

    def transposed_bytes(self, task: TaskRegisters) -> int:
        """Bytes of what a writer that turns lanes into pixels moves; 16 for atoms as they are."""
        return 2 if task[DpuWriteSize0.TP_PRECISION] else 1

    def row_writer(
        self, task: TaskRegisters, address: Address, shape: tuple[int, int, int]
    ) -> RowWriter | None:
        """What packs or unpacks rows of (surfaces, height, width) atoms, where a task does so."""
        return None

    def image_line(self, task: TaskRegisters, width: int, channels: int, element: Element) -> int:
        """Bytes between rows of a packed picture."""
        return task[CnaDma1.LINE_STRIDE] * channels * element.size

    def input_conversion(self, task: TaskRegisters) -> InputConversion | None:
        """What the CNA does to its input, where it isn't bypassed."""
        offsets = [task.signed(register.OFFSET) for register in _CONVERSIONS]
        scales = [task.signed(register.SCALE) for register in _CONVERSIONS]
        shifts = (
            task[CnaConvert0.CVT_TRUNCATE_0],
            task[CnaConvert0.CVT_TRUNCATE_1],
            task[CnaConvert0.CVT_TRUNCATE_2],
            task[CnaConvert0.CVT_TRUNCATE_3],
        )
        add_first = bool(task[CnaConvert0.CVT_TYPE])
        return InputConversion(add_first, _four(offsets), _four(scales), shifts)


def _four(values: list[int]) -> tuple[int, int, int, int]:
    first, second, third, fourth = values
    return first, second, third, fourth


def unknown(register: type[Register], value: int) -> ModelError:
    """An exception that names a register and its value."""
    return ModelError(
        f"register {register.title} ({register.number:#06x}) = {value:#x} is not known"
    )
