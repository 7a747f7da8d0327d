"""Features and writers as the kernels' structures: what `layout` says of them, no byte more."""

from __future__ import annotations

from ...layout import Written, feature_views, image_view
from ...memory import Memory
from ...tasks import BlockWriter, Features, Image, PhaseWriter
from . import kernels


def features_of(
    features: Features | Image, memory: Memory, valid: int | None = None
) -> kernels.Features:
    """Features, or a picture as one block of few channels; channels from `valid` on are zero."""
    size = features.height, features.width
    if isinstance(features, Image):
        lanes, view = features.channels, image_view(features)
        base, readable = memory.pointer(view), view.extent[1] - view.address.offset
        return kernels.Features(
            base, None, 0, view.strides[0], lanes, 1, lanes, *size, lanes, readable
        )
    even, *odd = feature_views(features)
    surface, line, pixel, _ = even.strides
    return kernels.Features(
        memory.pointer(even),
        memory.pointer(odd[0]) if odd else None,
        surface,
        line,
        pixel,
        features.surfaces,
        features.lanes,
        *size,
        features.channels if valid is None else valid,
        even.extent[1] - even.address.offset,
    )


def writer_of(target: Written, channels: int, memory: Memory) -> kernels.Writer:
    """A writer of blocks or phases of int8."""
    writer = target.writer
    assert isinstance(writer, BlockWriter | PhaseWriter), "others rearrange"
    surfaces, _, width, lanes = target.atoms
    base, padding = memory.pointer(*target.views, writeable=True), writer.padding & 0xFF
    if isinstance(writer, PhaseWriter):
        return kernels.Writer(
            base, writer.line, writer.pixel, writer.surface, surfaces, 0, width, channels, lanes,
            padding,
        )  # fmt: skip
    return kernels.Writer(
        base, writer.line, writer.atom, writer.surface, writer.group, writer.group_stride,
        writer.width, channels, lanes, padding,
    )  # fmt: skip
