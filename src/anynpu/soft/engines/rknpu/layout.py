"""Which bytes of memory features, pictures, weights, operands and writers touch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ....errors import ModelError
from .elements import Address
from .memory import Strided, span
from .tasks import (
    AtomTransposer,
    BlockWriter,
    ConvolutionTask,
    CopyTask,
    DenseWriter,
    Dpu,
    ElementwiseTask,
    Features,
    Image,
    PackedWriter,
    PhaseWriter,
    PixelTransposer,
    PoolingTask,
    RowWriter,
    SurfacePacker,
    Task,
    Writer,
)
from .weights import StoredOperand, Weights

ATOM = 16
"""Bytes of the atoms that transposers know."""

_KEPT = 1 << 10
"""Views that are kept: what a task reads and writes is asked for several times as it is loaded."""


@lru_cache(maxsize=_KEPT)
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


def weight_view(weights: Weights) -> Strided:
    """The bytes of all kernels."""
    return span(weights.address, weights.layout.bytes)


def operand_view(operand: StoredOperand) -> Strided:
    """The bytes of the block that an operand is a part of."""
    return span(operand.address, operand.block.bytes)


def moved(address: Address, distance: int) -> Address:
    """The address `distance` bytes further on."""
    return Address(address.section, address.offset + distance)


@dataclass(frozen=True)
class Written:
    """What a task writes: the atoms (surfaces, height, width, bytes) that its writer gets.

    For a writer of a reduction's results side by side these are elements. Raises `ModelError` for
    atoms that the writer doesn't take.
    """

    writer: Writer
    atoms: tuple[int, int, int, int]

    def __post_init__(self) -> None:
        _, height, width, atom = self.atoms
        writer = self.writer
        takes = _atom_of(writer)
        if takes and takes != atom:
            raise ModelError(f"a {type(writer).__name__} of {takes} bytes gets atoms of {atom}")
        if isinstance(writer, BlockWriter) and writer.height * writer.width != height * width:
            raise ModelError(
                f"{height}x{width} pixels are written as {writer.height}x{writer.width}"
            )

    @cached_property
    def views(self) -> tuple[Strided, ...]:
        """The bytes that are filled, in the order in which they are."""
        return _target_views(self.writer, self.atoms)


def written(task: Task, after: Dpu | None = None) -> Written:
    """What a task writes: the decoder checks it, the reference and the kernels fill it.

    With `after` it is what those stages make of the task's floats.
    """
    match task:
        case CopyTask():
            source, (rows, columns) = task.source, task.repeats
            if isinstance(task.writer, DenseWriter):
                raise ModelError("a copy is written as a reduction's results are")
            height, width = source.height, source.width * columns
            return Written(task.writer, (source.surfaces * rows, height, width, source.atom))
        case PoolingTask():
            source = task.source
            atoms = source.surfaces, task.height, task.width, source.atom
            return Written(task.writer, atoms)
        case ConvolutionTask():
            shape = task.dpu.reduced_shape(task.convolution.shape)
        case ElementwiseTask():
            shape = task.dpu.reduced_shape(task.source.shape)
        case _:
            raise AssertionError("there are no other tasks")
    return _results(task.writer, shape, (after or task.dpu).output.element.size)


@lru_cache(maxsize=_KEPT)
def _results(writer: Writer, shape: tuple[int, int, int], size: int) -> Written:
    """What is written of results of a shape (C, H, W), of `size` bytes each."""
    if isinstance(writer, DenseWriter):
        results = shape[1] * shape[2]
        return Written(writer, (1, 1, -(-results // writer.unit) * writer.unit, size))
    atom = _atom_of(writer) or ATOM
    lanes = max(1, atom // size)
    return Written(writer, (-(-shape[0] // lanes), *shape[1:], atom))


def read(task: Task) -> Sequence[Strided]:
    """What a task reads of memory: features or a picture, an operand, and what others computed."""
    views = list(features_read(task))
    if isinstance(task, ConvolutionTask) and not task.convolution.weights.is_constant:
        views.append(weight_view(task.convolution.weights))
    if isinstance(task, ConvolutionTask) and isinstance(
        task.convolution.weight_offset, StoredOperand
    ):
        views.append(operand_view(task.convolution.weight_offset))
    if isinstance(task, ConvolutionTask | ElementwiseTask):
        stages = [stage for stage in (task.dpu.bs, task.dpu.bn) if stage]
        operands = [operand for stage in stages for operand in (stage.add, stage.multiply)]
        views += [operand_view(one) for one in operands if isinstance(one, StoredOperand)]
    return views


def features_read(task: Task) -> Iterator[Strided]:
    """The features and pictures that a task reads."""
    match task:
        case ConvolutionTask():
            source = task.convolution.source
        case CopyTask() | ElementwiseTask() | PoolingTask():
            source = task.source
        case _:
            raise AssertionError("there are no other tasks")
    yield from (image_view(source),) if isinstance(source, Image) else feature_views(source)
    operand = None if isinstance(task, CopyTask | PoolingTask) else task.dpu.features_operand
    if operand is not None:
        yield from feature_views(operand)


def _atom_of(writer: Writer) -> int:
    """The bytes of the atoms that a writer takes, 0 for any."""
    match writer:
        case BlockWriter() | PhaseWriter() | PackedWriter() | AtomTransposer():
            return writer.atom
        case PixelTransposer() | RowWriter() | SurfacePacker():
            return ATOM
        case DenseWriter():
            return 0


def _target_views(writer: Writer, shape: tuple[int, int, int, int]) -> tuple[Strided, ...]:
    """The bytes that a writer fills when it gets atoms of this shape (surfaces, h, w, bytes)."""
    match writer:
        case BlockWriter():
            return _blocks(writer, shape[0], shape[-1])
    return (_target_view(writer, shape),)


def _target_view(
    writer: PhaseWriter
    | AtomTransposer
    | PixelTransposer
    | PackedWriter
    | SurfacePacker
    | RowWriter
    | DenseWriter,
    shape: tuple[int, int, int, int],
) -> Strided:
    surfaces, height, width, atom = shape
    match writer:
        case PhaseWriter():
            strides = (writer.surface, writer.line, writer.pixel, 1)
            return Strided(writer.address, shape, strides)
        case AtomTransposer():
            transposed = (width, surfaces, height, atom)
            return Strided(writer.address, transposed, (writer.surface, writer.line, atom, 1))
        case PixelTransposer():
            return _transposed_pixels(writer, surfaces, height * width)
        case RowWriter():
            return Strided(writer.address, (writer.rows, writer.kept), (writer.pitch, 1))
        case DenseWriter():
            return span(writer.address, width * atom)
    return span(writer.address, min(_stream_bytes(writer, surfaces, height * width), writer.limit))


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
