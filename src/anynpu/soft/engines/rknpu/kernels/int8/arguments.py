"""Writers as the int8 kernels' structure: what `layout` says of them, no byte more."""

from __future__ import annotations

from ...layout import Written
from ...memory import Memory
from ...tasks import BlockWriter, PhaseWriter
from .. import structures


def writer_of(target: Written, channels: int, memory: Memory) -> structures.Writer:
    """A writer of blocks or phases of int8."""
    writer = target.writer
    assert isinstance(writer, BlockWriter | PhaseWriter), "others rearrange"
    surfaces, _, width, lanes = target.atoms
    base, padding = memory.pointer(*target.views, writeable=True), writer.padding & 0xFF
    if isinstance(writer, PhaseWriter):
        return structures.Writer(
            base, writer.line, writer.pixel, writer.surface, surfaces, 0, width, channels, lanes,
            padding,
        )  # fmt: skip
    return structures.Writer(
        base, writer.line, writer.atom, writer.surface, writer.group, writer.group_stride,
        writer.width, channels, lanes, padding,
    )  # fmt: skip
