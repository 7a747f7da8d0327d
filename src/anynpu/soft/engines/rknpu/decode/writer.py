"""The DPU's writer: where results go, and in which order."""

from __future__ import annotations

from ..elements import Address, Element
from ..layout import ATOM
from ..registers.dpu import (
    DpuBsOw,
    DpuChannel,
    DpuDataFormat,
    DpuDestination,
    DpuFeatureMode,
    DpuHeight,
    DpuOffsetPend,
    DpuSurfaceAdd,
    DpuSurfaceStride,
    DpuWriteSize0,
    DpuWriteSize1,
)
from ..registers.ppu import PpuDestination
from ..task_registers import TaskRegisters
from ..tasks import (
    AtomTransposer,
    BlockWriter,
    DenseWriter,
    PackedWriter,
    PhaseWriter,
    PixelTransposer,
    Writer,
)
from .context import Context
from .stages import PPU_ENABLED

_ATOM_BYTES = {2: 1, 3: 2, 4: 4, 5: 8}
"""RGP_TYPE to the bytes of an atom that are kept; 0 keeps the channels that there are."""


def decode_writer(
    task: TaskRegisters,
    context: Context,
    shape: tuple[int, int, int],
    element: Element,
    source: Element | None = None,
) -> Writer:
    """The writer for (surfaces, height, width) atoms of an element.

    `source` is the element that was read, None for a convolution. That all it writes lies in memory
    is for `Context.check_written` to see, once the task is known.
    """
    atom = context.generation.atom_of(element)
    if _destination(task).offset % context.generation.atom:
        # Seen where a compiler packs lines closer than it reads them.
        raise task.error(DpuDestination, "writing from within an atom on is not known")
    together = max(1, element.size // (source or element).size)
    if task[DpuHeight.MINMAX_CTL] & 1:
        return _reduced(task, context, shape, element)
    rearranging = (
        _transposer(task, context)
        or context.generation.packer(task, shape, _destination(task), together)
        or context.generation.row_writer(task, _destination(task), shape)
        or _packed(task, context.generation.atom, element, together)
    )
    if rearranging is None:
        return _blocks(task, context, shape, element, atom)
    if isinstance(rearranging, PackedWriter) and rearranging.atom == context.generation.atom:
        return rearranging
    known = atom if isinstance(rearranging, AtomTransposer) else ATOM
    if atom != known or atom != context.generation.atom:
        raise task.error(
            DpuDataFormat.OUT_PRECISION, f"atoms of {atom} bytes are not known to be rearranged"
        )
    return rearranging


def _reduced(
    task: TaskRegisters, context: Context, shape: tuple[int, int, int], element: Element
) -> Writer:
    """The writer of one value a pixel, side by side, or a column of a few in its atom."""
    surfaces, height, width = shape
    atom = context.generation.atom_of(element)
    if context.generation.reduces_to_lanes and not task[DpuFeatureMode.NONALIGN]:
        stride, padding = task.stride(DpuSurfaceStride), task[DpuOffsetPend.OFFSET_PEND]
        address, line = _destination(task), width * atom
        return BlockWriter(address, height, width, line, stride, surfaces, 0, atom, padding)
    unit = atom // element.size
    return DenseWriter(_destination(task), unit if context.generation.has_pixel_operands else 1)


def _destination(task: TaskRegisters) -> Address:
    if task.state.enable_mask & PPU_ENABLED:
        return task.address(PpuDestination)
    return task.address(DpuDestination)


def _line(task: TaskRegisters, context: Context, width: int, atom: int) -> int:
    return (width + context.generation.target_line_notch(task)) * atom


def _transposer(task: TaskRegisters, context: Context) -> Writer | None:
    width = task[DpuWriteSize1.WIDTH_WDMA] + 1
    surface = task.stride(DpuSurfaceStride)
    line = _line(task, context, width, context.generation.atom)
    if task[DpuFeatureMode.TP_EN]:
        return AtomTransposer(_destination(task), line, surface, context.generation.atom)
    if not task[DpuBsOw.TP_ORG_EN]:
        return None
    element_size = context.generation.transposed_bytes(task)
    return PixelTransposer(
        _destination(task),
        element_size,
        task[DpuWriteSize1.HEIGHT_WDMA] + 1,
        width,
        line,
        surface,
        task.stride(DpuSurfaceAdd),
        _pixels(task, context, element_size),
    )


def _pixels(task: TaskRegisters, context: Context, element_size: int) -> int:
    """How many pixels become as many atoms."""
    if element_size == ATOM:
        return task[DpuBsOw.SIZE_E_0] + 1
    is_block = element_size == 1 and context.generation.transposes_byte_blocks
    return ATOM if is_block else ATOM // 2


def _packed(task: TaskRegisters, atom: int, element: Element, together: int) -> PackedWriter | None:
    if not task[DpuFeatureMode.NONALIGN]:
        return None
    valid = min(atom, (task[DpuChannel.CHANNEL] + 1) * element.size)
    return PackedWriter(
        _destination(task),
        _ATOM_BYTES.get(task[DpuFeatureMode.RGP_TYPE], valid),
        task[DpuFeatureMode.SURF_LEN] * atom,
        together,
        atom,
    )


def _blocks(
    task: TaskRegisters,
    context: Context,
    shape: tuple[int, int, int],
    element: Element,
    atom: int,
) -> BlockWriter | PhaseWriter:
    surfaces, height, width = shape
    surface, add = task.stride(DpuSurfaceStride), task.stride(DpuSurfaceAdd)
    padding = task[DpuOffsetPend.OFFSET_PEND]
    rows = task[DpuWriteSize0.CHANNEL_WDMA] + 1
    channels = task[DpuChannel.CHANNEL] + 1
    # Pixels are written as a column each; RV1106 says so with the writer's size alone.
    in_columns = (task[DpuWriteSize1.HEIGHT_WDMA], task[DpuWriteSize1.WIDTH_WDMA]) == (width - 1, 0)
    counts_rows = rows == height * channels and rows > channels
    if height > 1 and (counts_rows or (in_columns and width > 1)):
        pixel = _line(task, context, 1, atom)
        return PhaseWriter(_destination(task), add, pixel, surface, atom, padding)
    group = context.generation.surfaces_in_group(task)
    if not context.generation.writes_surface_groups:
        group, add = surfaces, 0
    elif group == 1:
        group, surface = surfaces, add
    elif add == group * surface:
        group = surfaces
    written = (task[DpuWriteSize1.HEIGHT_WDMA] + 1, task[DpuWriteSize1.WIDTH_WDMA] + 1)
    if written[0] * written[1] != height * width:
        written = (height, width)
    line = _line(task, context, written[1], atom)
    return BlockWriter(
        _destination(task), *written, line, surface, max(group, 1), add, atom, padding
    )
