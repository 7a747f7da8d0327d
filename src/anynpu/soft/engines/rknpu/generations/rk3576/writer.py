"""What RK3576's DPU says of its writer, and that of its like."""

from __future__ import annotations

from ......errors import ModelError
from ...elements import Address, Element
from ...layout import ATOM
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ...tasks import PackedWriter, SurfacePacker
from ..base import always
from .dpu import (
    BLOCK_ORDERS,
    BLOCKS,
    REDUCES_PACKED,
    REDUCES_TO_LANES,
    TRANSPOSES_ATOMS,
    TRANSPOSES_BYTES,
    TRANSPOSES_HALVES,
    DpuBsOw,
    DpuChannel,
    DpuFeatureMode,
    DpuGroupNotch,
    DpuHeight,
    DpuNotch,
    DpuOrder,
    DpuWriteChannel,
)

_MAXIMUM = 3


def check_writer(
    task: TaskRegisters, mode: int, modes: frozenset[int], packing_modes: frozenset[int]
) -> None:
    """Raise `ModelError` for what isn't known of the writer's registers together.

    `mode` is DPU_FEATURE_MODE_CFG, then what is known of it where atoms are blocks, and packed.
    """
    packs = bool(task[Quantity.PACKS])
    if packs:
        last = task[Quantity.LAST_BYTES]
        is_known = mode & ~DpuFeatureMode.LAST_BYTES.put(last) in packing_modes
        is_known = is_known and not (task[Quantity.REDUCTION] and last)
    else:
        is_known = mode in modes
    if not is_known:
        raise task.error(DpuFeatureMode)
    order = task[Quantity.ORDER]
    if task[Quantity.REDUCTION]:
        is_known = order == (REDUCES_PACKED if packs else REDUCES_TO_LANES)
    else:
        is_known = packs or order in BLOCK_ORDERS
    if not is_known:
        raise task.error(DpuOrder)
    if task[DpuBsOw.ORDER] == BLOCKS and not packs:
        _check_channels(task)
    if task[Quantity.WRITTEN_HEIGHT] > 1 and task[DpuNotch.OF_COPIES] not in (
        0,
        task[DpuNotch.NOTCH],
    ):
        raise task.error(DpuNotch, "rows that lie apart by more than the register holds")


def _check_channels(task: TaskRegisters) -> None:
    """That the stages have the channels that are written, or rows of them.

    A compiler cuts more than 8192 to what the stages' register holds; the writer's has more bits.
    """
    channels, written = task[Quantity.CHANNELS], task[Quantity.WRITTEN_CHANNELS]
    if written not in (channels, channels * task[Quantity.HEIGHT]):
        raise ModelError(
            f"the registers {DpuChannel.number:#06x} and {DpuWriteChannel.number:#06x} ask for "
            f"{channels} and {written} channels; the compiler cut what the first one can't hold"
        )


def surface_packer(
    task: TaskRegisters, shape: tuple[int, int, int], address: Address, together: int
) -> SurfacePacker | PackedWriter:
    """What writes surfaces side by side, and groups of them where there are any."""
    surfaces, height, width = shape
    last = task[Quantity.LAST_BYTES] or ATOM
    count = surfaces * ((height * width - 1) * ATOM + last)
    groups = task[Quantity.PACKED_GROUPS]
    size = task[Quantity.ORDER] if groups else count
    if groups and not 0 < groups * size <= count:
        raise task.error(DpuOrder)
    written = task[Quantity.HEIGHT] * task[Quantity.WIDTH]
    if task[DpuFeatureMode.FLYING_MODE] and written != height * width:
        return _half_atoms(task, shape, address)
    if height * width == 1:
        together = 1
    if together > 1 and (groups or last != ATOM or surfaces % together):
        # Of what gets wider as it is written only whole atoms were seen.
        raise task.error(DpuFeatureMode)
    limit = task[Quantity.PACKED_ATOMS] * ATOM
    return SurfacePacker(address, last, max(groups, 1), size, limit, together)


def _half_atoms(task: TaskRegisters, shape: tuple[int, int, int], address: Address) -> PackedWriter:
    """What puts pixels of half an atom together to such of a whole one, surface by surface."""
    surfaces, height, width = shape
    is_half = 2 * task[Quantity.HEIGHT] * task[Quantity.WIDTH] == height * width
    read, written = task[Quantity.SOURCE_CHANNELS], task[Quantity.CHANNELS]
    is_byte = task[Quantity.OUTPUT_ELEMENT] == Element.INT8.value
    is_whole = read == surfaces * ATOM or (surfaces == 1 and 2 * read == ATOM)
    cuts = task[Quantity.LAST_BYTES] or task[Quantity.PACKED_GROUPS]
    if not (is_half and is_byte and is_whole and 2 * read == written) or cuts:
        raise task.error(DpuChannel)
    limit = task[Quantity.PACKED_ATOMS] * ATOM
    return PackedWriter(address, min(read, ATOM), limit, 1, ATOM, 1 if read < ATOM else 2)


def _group_stride(task: TaskRegisters) -> int:
    """The register counts from where a group of surfaces ends."""
    height, width = task[Quantity.WRITTEN_HEIGHT], task[Quantity.WRITTEN_WIDTH]
    end = height * width + (height - 1) * task[Quantity.TARGET_NOTCH]
    return task[DpuGroupNotch.NOTCH] + end * ATOM


def _reduction(task: TaskRegisters) -> int:
    return _MAXIMUM if task[DpuHeight.REDUCTION] else 0


def _own_channels(task: TaskRegisters) -> int:
    return task[Quantity.CHANNELS]


def _transposes_atoms(task: TaskRegisters) -> int:
    return task[DpuBsOw.ORDER] == TRANSPOSES_ATOMS


def _transposes_pixels(task: TaskRegisters) -> int:
    return task[DpuBsOw.ORDER] in (TRANSPOSES_BYTES, TRANSPOSES_HALVES)


def _transposed_bytes(task: TaskRegisters) -> int:
    return 2 if task[DpuBsOw.ORDER] == TRANSPOSES_HALVES else 1


def _transposed_pixels(task: TaskRegisters) -> int:
    """Bytes are transposed in blocks of sixteen."""
    return ATOM if task[Quantity.TRANSPOSED_BYTES] == 1 else ATOM // 2


DERIVED = {
    Quantity.TARGET_GROUP: Derived(_group_stride, DpuGroupNotch),
    Quantity.REDUCTION: Derived(_reduction, DpuHeight.REDUCTION),
    Quantity.OWN_CHANNELS: Derived(_own_channels, DpuChannel.CHANNEL),
    Quantity.TRANSPOSES_ATOMS: Derived(_transposes_atoms, DpuBsOw.ORDER),
    Quantity.TRANSPOSES_PIXELS: Derived(_transposes_pixels, DpuBsOw.ORDER),
    Quantity.TRANSPOSED_BYTES: Derived(_transposed_bytes, DpuBsOw.ORDER),
    Quantity.TRANSPOSED_PIXELS: Derived(_transposed_pixels, DpuBsOw.ORDER),
    Quantity.PACKED_KIND: always(0, DpuFeatureMode),
}
