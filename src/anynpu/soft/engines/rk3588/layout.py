"""Which bytes of memory features, pictures and writers touch."""

from __future__ import annotations

from dataclasses import replace

from .elements import Address
from .memory import Strided
from .tasks import (
    AtomTransposer,
    BlockWriter,
    DenseWriter,
    Features,
    Image,
    LaneWriter,
    PackedWriter,
    PhaseWriter,
    PixelTransposer,
    RowWriter,
    SurfacePacker,
    Writer,
)

ATOM = 16
"""Bytes of the atoms that transposers know."""


def feature_views(features: Features) -> tuple[Strided, ...]:
    """The atoms (surfaces, height, width, bytes); two views where odd surfaces lie elsewhere."""
    strides = (features.surface, features.line, features.atom, 1)
    shape = (features.surfaces, features.height, features.width, features.atom)
    if features.odd is None:
        return (Strided(features.address, shape, strides),)
    odd = shape[0] // 2
    even_view = Strided(features.address, (shape[0] - odd, *shape[1:]), strides)
    if not odd:
        return (even_view,)
    return (even_view, Strided(features.odd, (odd, *shape[1:]), strides))


def image_view(image: Image) -> Strided:
    """The bytes (height, width * channels * element)."""
    row = image.width * image.channels * image.element.size
    return Strided(image.address, (image.height, row), (image.line, 1))


def moved(address: Address, distance: int) -> Address:
    """The address `distance` bytes further on."""
    return replace(address, offset=address.offset + distance)


def target_views(writer: Writer, shape: tuple[int, int, int, int]) -> tuple[Strided, ...]:
    """The bytes that a writer fills when it gets atoms of this shape (surfaces, h, w, bytes)."""
    surfaces, height, width, atom = shape
    match writer:
        case BlockWriter():
            return _blocks(writer, surfaces, atom)
        case PhaseWriter():
            strides = (writer.surface, writer.line, writer.pixel, 1)
            return (Strided(writer.address, shape, strides),)
        case AtomTransposer():
            transposed = (width, surfaces, height, atom)
            return (Strided(writer.address, transposed, (writer.surface, writer.line, atom, 1)),)
        case PixelTransposer():
            return (_transposed_pixels(writer, surfaces, height * width),)
        case PackedWriter() | SurfacePacker():
            count = min(_stream_bytes(writer, surfaces, height * width), writer.limit)
            return (Strided(writer.address, (count,), (1,)),)
        case RowWriter():
            rows = (writer.rows, writer.kept)
            return (Strided(writer.address, rows, (writer.pitch, 1)),)
        case DenseWriter() | LaneWriter():
            raise AssertionError("the writer of a reduction takes no atoms")


def _stream_bytes(writer: PackedWriter | SurfacePacker, surfaces: int, pixels: int) -> int:
    if isinstance(writer, PackedWriter):
        return surfaces * pixels * writer.atom_bytes
    surface = (pixels - 1) * ATOM + writer.last_bytes
    group = min(writer.group_bytes, surfaces * surface)
    return writer.groups * -(-group // ATOM) * ATOM


def _blocks(writer: BlockWriter, surfaces: int, atom: int) -> tuple[Strided, ...]:
    rest = (writer.height, writer.width, atom)
    strides = (writer.surface, writer.line, atom, 1)
    if surfaces <= writer.group:
        return (Strided(writer.address, (surfaces, *rest), strides),)
    return tuple(
        Strided(
            moved(writer.address, first // writer.group * writer.group_stride),
            (min(writer.group, surfaces - first), *rest),
            strides,
        )
        for first in range(0, surfaces, writer.group)
    )


def _transposed_pixels(writer: PixelTransposer, surfaces: int, pixels: int) -> Strided:
    if writer.element_size == 1 and writer.pixels != ATOM:
        groups = -(-surfaces * pixels // ATOM)
        strides = (writer.group_stride, writer.line, writer.lane_stride, 1)
        return Strided(writer.address, (groups, 2, 8, ATOM), strides)
    blocks = -(-surfaces * pixels // writer.pixels)
    groups = -(-blocks // (writer.width * writer.height))
    return Strided(
        writer.address,
        (groups, writer.height, writer.width, writer.pixels, ATOM),
        (writer.group_stride, writer.line, ATOM, writer.lane_stride, 1),
    )
