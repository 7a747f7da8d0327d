"""Features and writers as the kernels' structures."""

from __future__ import annotations

from ..memory import Memory
from ..tasks import BlockWriter, Features, Image, PhaseWriter
from . import kernels


def features_of(
    features: Features | Image, memory: Memory, valid: int | None = None
) -> kernels.Features:
    """Features, or a picture as one block of few channels; channels from `valid` on are zero."""
    base = memory.pointer(features.address)
    if isinstance(features, Image):
        lanes = features.channels
        return kernels.Features(
            base,
            None,
            0,
            features.line,
            lanes,
            1,
            lanes,
            features.height,
            features.width,
            lanes,
        )
    odd = memory.pointer(features.odd) if features.odd else None
    return kernels.Features(
        base,
        odd,
        features.surface,
        features.line,
        features.atom,
        features.surfaces,
        features.lanes,
        features.height,
        features.width,
        features.channels if valid is None else valid,
    )


def writer_of(
    writer: BlockWriter | PhaseWriter, channels: int, width: int, memory: Memory
) -> kernels.Writer:
    """A writer of int8 in rows of `width`."""
    base, padding, lanes = memory.pointer(writer.address), writer.padding & 0xFF, writer.atom
    surfaces = -(-channels // lanes)
    if isinstance(writer, PhaseWriter):
        return kernels.Writer(
            base, writer.line, writer.pixel, writer.surface, surfaces, 0, width, channels, lanes,
            padding,
        )  # fmt: skip
    return kernels.Writer(
        base, writer.line, writer.atom, writer.surface, writer.group, writer.group_stride,
        writer.width, channels, lanes, padding,
    )  # fmt: skip
