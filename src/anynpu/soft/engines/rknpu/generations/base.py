"""What may differ between the chips: atoms, groups, and the notation of some registers.

A generation turns its registers into RK3588's notation; decoding is written once, for that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from .....errors import ModelError
from ..command_stream import TaskState
from ..elements import Address, Element
from ..layout import ATOM
from ..registers.cna import (
    CnaBuffer1,
    CnaConv1,
    CnaConvert0,
    CnaConvert1,
    CnaConvert2,
    CnaConvert3,
    CnaConvert4,
    CnaDataSize0,
    CnaDma1,
    CnaDma2,
)
from ..registers.dpu import DpuBsOw, DpuNotch, DpuWriteSize0
from ..registers.fields import NAMES, Field, Register, sign_extend, signed_word
from ..registers.ppu import PpuMode
from ..registers.rdma import RdmaHeight, RdmaSourceDma
from ..rounding import Ties
from ..task_registers import TaskRegisters
from ..tasks import (
    Dpu,
    InputConversion,
    OffsetPlace,
    PackedWriter,
    RowWriter,
    SurfacePacker,
)

Constants = Callable[[int, int], bytes]
"""What an address register points to, in the file's constants: a number of bytes."""

_CONVERSIONS = (CnaConvert1, CnaConvert2, CnaConvert3, CnaConvert4)


@dataclass(frozen=True)
class Groups:
    """How many kernels and channels lie side by side in weights, by the size of an element."""

    kernels: Mapping[int, int]
    channels: Mapping[int, int]
    depthwise: Mapping[int, int]


class Generation:
    """RK3588."""

    atom = 16
    """Bytes of a pixel in one channel block."""

    wide_atom = 16
    """The same for elements of four bytes."""

    operand_group = 8
    """Channels whose biases, offsets and factors lie together."""

    groups = Groups(kernels={1: 32, 2: 16}, channels={1: 32, 2: 32}, depthwise={1: 64, 2: 32})

    weights_with_zero_points = 0
    """How many depthwise weights their zero points follow, where they have any."""

    valid_channels_in_last_group = True
    """Whether the count of valid channels is that of the last 64 channels, or of all."""

    writes_surface_groups = True
    """Whether the surfaces that a writer fills go in groups with a stride of their own."""

    pads_channels_in_pairs = True
    """Whether a depthwise convolution has two bytes to pad with, for even and for odd channels."""

    def atom_of(self, element: Element) -> int:
        """Bytes of a pixel in one channel block."""
        return self.wide_atom if element.size == 4 else self.atom

    field_bits: Mapping[Field, int] = {
        CnaDataSize0.DATAIN_HEIGHT: 13,
        CnaDataSize0.DATAIN_WIDTH: 11,
        DpuWriteSize0.CHANNEL_WDMA: 13,
        PpuMode.COUNTS_INSIDE: 0,
    }
    """How many bits a field has here, where the notation has room for more."""

    has_pixel_operands = False
    """Whether data mode 2 of the element-wise operand is known: a number for each pixel."""

    has_column_operands = True
    """Whether data mode 2 of an operand in registers is known: a number for each column."""

    works_without_core = False
    """Whether a task may start the CNA and the DPU alone."""

    bn_adds_first = False
    """Whether the second stage adds before it multiplies, as the first one does."""

    reduces_to_lanes = False
    """Whether a reduction that isn't packed writes some values of each column to its lanes."""

    transposes_byte_blocks = False
    """Whether a transposer of bytes fills blocks of sixteen atoms, rather than two rows."""

    own: frozenset[int] = frozenset()
    """Registers that only this generation has; `translate` uses them up."""

    own_inert: frozenset[int] = frozenset()
    """Registers that only this generation has, without an effect on results."""

    own_zeros: frozenset[int] = frozenset()
    """The same, of which files have nothing but 0."""

    moved_addresses: Mapping[int, int] = {}
    """Address registers that have another number than RK3588's, and that one."""

    @property
    def known(self) -> Collection[int]:
        """The registers that a task may write and that matter."""
        return {*NAMES, *self.own}

    def located(self, state: TaskState, before: TaskState | None) -> TaskState:
        """The task with its addresses at RK3588's registers.

        `before` is the last one that started the CNA, as it is.
        """
        moved = self.moved_addresses
        if not moved:
            return state
        relocations = {moved.get(at, at): found for at, found in state.relocations.items()}
        return replace(state, relocations=relocations)

    def translate(self, state: TaskState, constants: Constants) -> dict[int, int]:
        """A task's registers in RK3588's notation."""
        return state.words

    def weight_row_bytes(self, task: TaskRegisters) -> int:
        """Bytes of a row of a dense kernel where its pixels lie side by side, else 0."""
        return 0

    def packer(
        self, task: TaskRegisters, shape: tuple[int, int, int], address: Address, together: int
    ) -> SurfacePacker | PackedWriter | None:
        """What packs atoms of a shape (surfaces, height, width) in a way of its own.

        Of each surface that was read `together` are written.
        """
        return None

    def reduced(self, task: TaskRegisters, dpu: Dpu, shape: tuple[int, int, int]) -> Dpu:
        """The DPU of a convolution whose results (C, H, W) are reduced."""
        return dpu

    def feature_strides(self, task: TaskRegisters, width: int) -> tuple[int, int]:
        """Bytes between rows, and between surfaces, of a convolution's input."""
        line, surface = task[CnaDma1.LINE_STRIDE], task.signed(CnaDma2.SURF_STRIDE)
        if task[CnaConv1.GROUP_LINE_OFF]:
            return line * self.atom, (surface + width) * self.atom
        return line * 4, (surface + line) * self.atom

    def source_line_notch(self, task: TaskRegisters) -> int:
        """Pixels between rows of what the DPU reads."""
        return task[RdmaSourceDma.LINE_NOTCH_ADDR]

    def operand_line_notch(self, task: TaskRegisters) -> int:
        """The same of the element-wise operand."""
        return task[RdmaHeight.EW_LINE_NOTCH_ADDR]

    def target_line_notch(self, task: TaskRegisters) -> int:
        """Pixels between rows of what the DPU writes."""
        return task[DpuNotch.NOTCH_ADDR_0]

    def transposed_bytes(self, task: TaskRegisters) -> int:
        """Bytes of what a writer that turns lanes into pixels moves; 16 for atoms as they are."""
        return 2 if task[DpuWriteSize0.TP_PRECISION] else 1

    def surfaces_in_group(self, task: TaskRegisters) -> int:
        """How many surfaces a writer fills before it goes on a group's stride further."""
        return task[DpuBsOw.SIZE_E_0] + 1

    def row_writer(
        self, task: TaskRegisters, address: Address, shape: tuple[int, int, int]
    ) -> RowWriter | None:
        """What packs or unpacks rows of (surfaces, height, width) atoms, where a task does so."""
        return None

    def image_line(self, task: TaskRegisters, width: int, channels: int, element: Element) -> int:
        """Bytes between rows of a packed picture.

        They are fetched as they follow each other: in the graph's input and where a picture is cut
        into columns filled up to whole atoms a channel, else without gaps. Of columns the register
        says twice their distance; of others the buffer's pixels tell which it is.
        """
        filled, height = self.filled_width(width, element), task[CnaDataSize0.DATAIN_HEIGHT]
        line, entries = task[CnaDma1.LINE_STRIDE], task[CnaBuffer1.DATA_ENTRIES]
        if line == 2 * filled or (line == width and entries == filled * height):
            return filled * channels * element.size
        if line != width or (entries != width * height and height > 1):
            raise task.error(CnaDma1.LINE_STRIDE, f"not known of a picture of {width} columns")
        return width * channels * element.size

    def filled_width(self, width: int, element: Element) -> int:
        """The pixels that a row of a packed picture takes in memory."""
        pixels = self.atom // element.size
        return -(-width // pixels) * pixels

    def input_conversion(self, task: TaskRegisters) -> InputConversion:
        """What the CNA does to its input, where it isn't bypassed."""
        offsets = [task.signed(register.OFFSET) for register in _CONVERSIONS]
        scales = [task.signed(register.SCALE) for register in _CONVERSIONS]
        shifts = (
            task[CnaConvert0.CVT_TRUNCATE_0],
            task[CnaConvert0.CVT_TRUNCATE_1],
            task[CnaConvert0.CVT_TRUNCATE_2],
            task[CnaConvert0.CVT_TRUNCATE_3],
        )
        return InputConversion(
            offset_place(task.word(CnaConvert0)),
            _four(offsets),
            _four(scales),
            shifts,
            not task[CnaConvert0.DATA_SIGN],
            input_ties(task.word(CnaConvert0)),
        )


def offset_place(word: int) -> OffsetPlace:
    """Where the input conversion adds its offset, by CNA_CVT_CON0."""
    # The second turns pictures of bytes into a model's int8: scale and zero point are the model's.
    adds_first = CnaConvert0.CVT_TYPE.of(word)
    return OffsetPlace.BEFORE_SCALE if adds_first else OffsetPlace.AFTER_SHIFT


def input_ties(word: int) -> Ties:
    """How the input conversion rounds, by CNA_CVT_CON0."""
    return Ties.UP if CnaConvert0.ROUND_TYPE.of(word) else Ties.EVEN


def _four(values: list[int]) -> tuple[int, int, int, int]:
    first, second, third, fourth = values
    return first, second, third, fourth


def bytes_of_atoms(word: int) -> int:
    """A register that counts atoms, with a sign, as one that counts bytes."""
    return signed_word(sign_extend(word, 32) * ATOM)


def unknown(register: type[Register], value: int) -> ModelError:
    """An exception that names a register and its value."""
    return ModelError(
        f"register {register.title} ({register.number:#06x}) = {value:#x} is not known"
    )


def unknown_number(number: int, value: int) -> ModelError:
    """The same for a register of a generation's own."""
    return ModelError(f"register {number:#06x} = {value:#x} is not known")
