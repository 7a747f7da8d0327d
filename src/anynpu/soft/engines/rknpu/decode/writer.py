"""The DPU's writer: where results go, and in which order."""

from __future__ import annotations

from ..elements import NOWHERE, Address, Element, changed
from ..layout import ATOM
from ..registers.blocks import Enabled
from ..registers.quantities import Quantity
from ..task_registers import TaskRegisters
from ..tasks import (
    AtomTransposer,
    BlockWriter,
    PackedWriter,
    PhaseWriter,
    PixelTransposer,
    Writer,
)
from .context import Context

_ATOM_BYTES = {2: 1, 3: 2, 4: 4, 5: 8}
"""The kind of packing to the bytes of an atom that are kept; 0 keeps the channels there are."""


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
    destination = _destination(task)
    if destination.offset % context.generation.atom:
        # Seen where a compiler packs lines closer than it reads them.
        raise task.error(Quantity.DESTINATION, "writing from within an atom on is not known")
    given = shape, element, source or element
    writer = context.remembered.of(_writer, task, context, *given, by=given)
    return changed(writer, address=destination)


def _writer(
    task: TaskRegisters,
    context: Context,
    shape: tuple[int, int, int],
    element: Element,
    read: Element,
) -> Writer:
    """The writer, at no address yet."""
    atom = context.generation.atom_of(element)
    together = max(1, element.size // read.size)
    if task[Quantity.REDUCTION] & 1:
        return context.generation.reduction_writer(task, shape, element, NOWHERE)
    rearranging = (
        _transposer(task, context)
        or context.generation.packer(task, shape, NOWHERE, together)
        or _packed(task, context.generation.atom, shape, element, read)
    )
    if rearranging is None:
        return _blocks(task, context, shape, atom)
    if isinstance(rearranging, PackedWriter) and rearranging.atom == context.generation.atom:
        return rearranging
    known = atom if isinstance(rearranging, AtomTransposer) else ATOM
    if atom != known or atom != context.generation.atom:
        raise task.error(
            Quantity.OUTPUT_ELEMENT, f"atoms of {atom} bytes are not known to be rearranged"
        )
    return rearranging


def _destination(task: TaskRegisters) -> Address:
    is_pooled = task.state.enable_mask & Enabled.PPU
    return task.address(Quantity.POOLING_DESTINATION if is_pooled else Quantity.DESTINATION)


def _line(task: TaskRegisters, context: Context, width: int, atom: int) -> int:
    """Pixels have atoms of their element; what is left out between rows has the chip's."""
    return width * atom + task[Quantity.TARGET_NOTCH] * context.generation.atom


def _transposer(task: TaskRegisters, context: Context) -> Writer | None:
    width = task[Quantity.WRITTEN_WIDTH]
    surface = task[Quantity.TARGET_SURFACE]
    line = _line(task, context, width, context.generation.atom)
    if task[Quantity.TRANSPOSES_ATOMS]:
        return AtomTransposer(NOWHERE, line, surface, context.generation.atom)
    if not task[Quantity.TRANSPOSES_PIXELS]:
        return None
    return PixelTransposer(
        NOWHERE,
        task[Quantity.TRANSPOSED_BYTES],
        task[Quantity.WRITTEN_HEIGHT],
        width,
        line,
        surface,
        task[Quantity.TARGET_GROUP],
        task[Quantity.TRANSPOSED_PIXELS],
    )


def _packed(
    task: TaskRegisters, atom: int, shape: tuple[int, int, int], element: Element, source: Element
) -> PackedWriter | None:
    if not task[Quantity.PACKS]:
        return None
    valid = min(atom, task[Quantity.CHANNELS] * element.size)
    kept = _ATOM_BYTES.get(task[Quantity.PACKED_KIND], valid)
    together = max(1, element.size // source.size)
    apart = max(1, source.size // element.size)
    if apart > 1 and kept < atom:
        if kept * apart > atom and shape[1] * shape[2] > 1:
            raise task.error(Quantity.PACKS, f"{kept} bytes of what was wider are not known")
        # They were one surface.
        apart = 1
    limit = task[Quantity.PACKED_ATOMS] * atom
    return PackedWriter(NOWHERE, kept, limit, together, atom, apart)


def _blocks(
    task: TaskRegisters, context: Context, shape: tuple[int, int, int], atom: int
) -> BlockWriter | PhaseWriter:
    surfaces, height, width = shape
    surface, add = task[Quantity.TARGET_SURFACE], task[Quantity.TARGET_GROUP]
    padding = task[Quantity.PADDING]
    rows = task[Quantity.WRITTEN_CHANNELS]
    channels = task[Quantity.CHANNELS]
    # Pixels are written as a column each; most chips count the rows among the channels, too. As
    # many may be the atom's channels alone, of which only some are computed.
    written = task[Quantity.WRITTEN_HEIGHT], task[Quantity.WRITTEN_WIDTH]
    counts_rows = rows == height * channels and rows > channels
    if height > 1 and written == (width, 1) and (width > 1 or counts_rows):
        pixel = _line(task, context, 1, atom)
        return PhaseWriter(NOWHERE, add, pixel, surface, atom, padding)
    group = task[Quantity.SURFACES_IN_GROUP]
    if not group:
        group, add = surfaces, 0
    elif group == 1:
        group, surface = surfaces, add
    elif add == group * surface:
        group = surfaces
    if written[0] * written[1] != height * width:
        written = (height, width)
    line = _line(task, context, written[1], atom)
    return BlockWriter(NOWHERE, *written, line, surface, max(group, 1), add, atom, padding)
