"""Rows so long that tasks take them in parts, with another distance between rows than there is.

Toolkit 2.5.0 writes the distance without its upper bits (RK3576 from 32,768 pixels on, RK3566 from
8,192 on), or writes another one: of a ReLU or a sum by itself, where rows have more than 8,176.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....formats.rknn.model import ElementType, Node, Tensor, TensorLayout
from ...rknpu.tasks import (
    BlockWriter,
    ConvolutionTask,
    ElementwiseTask,
    Features,
    PoolingTask,
    Task,
)
from .sentence import mistake
from .subject import Subject, operand_of

_LOST = 1 << 13
"""In pixels: the least bit that is missing."""
_LEAST = 8_176
"""Columns: more are taken in parts."""
_BLOCKED_AXES = 5
_RELU, _INT8_LEAST = "Relu", -128
_REARRANGED = frozenset({"exSoftmax13"})
"""Nodes whose tasks see scratch memory as pictures of other shapes."""


def mistakes(subject: Subject) -> Iterator[str]:
    """The nodes, as sentences."""
    for node in subject.nodes:
        pictures = list(_pictures(subject, node))
        if not any(_width(picture) > _LEAST for picture in pictures) or _is_idle(subject, node):
            continue
        in_parts = node.op_type not in _REARRANGED
        tasks = subject.tasks.get(node.index, ())
        if any(_is_wrong(task, pictures, in_parts) for task in tasks):
            yield mistake(
                node.name,
                "takes its rows to lie otherwise than they do",
                "Version 2.5.0 does so where a picture has several rows of more than 8,176 "
                "pixels: give it shorter ones",
            )


def _is_idle(subject: Subject, node: Node) -> bool:
    """Whether a node leaves its input as it is: a ReLU of int8 without negative values, in place.

    Which rows it takes is all the same then.
    """
    source, output = next(iter(subject.inputs(node)), None), subject.output(node)
    if node.op_type != _RELU or source is None or output is None:
        return False
    zero = output.quantization.zero_point if output.quantization else None
    is_same = source.quantization == output.quantization and all(
        _is_in_place(task) for task in subject.tasks.get(node.index, ())
    )
    return output.element is ElementType.INT8 and zero == _INT8_LEAST and is_same


def _is_in_place(task: Task) -> bool:
    if not isinstance(task, ElementwiseTask) or not isinstance(task.writer, BlockWriter):
        return False
    source, target = task.source, task.writer
    is_alike = source.address == target.address and source.line == target.line
    return is_alike and (source.surfaces == 1 or source.surface == target.surface)


def _is_wrong(task: Task, pictures: Sequence[Tensor], in_parts: bool) -> bool:
    """Whether a task goes from a row to the next by another distance than pictures have.

    With `in_parts` it takes parts of rows as they lie, and doesn't rearrange them.
    """
    widths = [_width(picture) for picture in pictures]
    convolves = isinstance(task, ConvolutionTask)
    computes = in_parts and isinstance(task, ConvolutionTask | ElementwiseTask | PoolingTask)
    views = [v for v in _views(task) if v.height > 1 and (v.line > 0 or (convolves and not v.line))]
    return any(
        _is_cut(view, widths) or (computes and _is_misplaced(view, pictures)) for view in views
    )


def _pictures(subject: Subject, node: Node) -> Iterator[Tensor]:
    for index in (*node.inputs, *node.outputs):
        tensor = subject.graph.tensors[index] if index >= 0 else None
        if tensor is not None and _is_picture(tensor):
            yield tensor


def _is_picture(tensor: Tensor) -> bool:
    is_blocked = tensor.layout is TensorLayout.BLOCKED and tensor.element.dtype is not None
    return is_blocked and len(tensor.native_shape) == _BLOCKED_AXES


def _width(picture: Tensor) -> int:
    return picture.native_shape[3]


def _height(picture: Tensor) -> int:
    return picture.native_shape[2]


def _views(task: Task) -> Iterator[Features | BlockWriter]:
    convolution = getattr(task, "convolution", task)
    views = getattr(convolution, "source", None), operand_of(task), getattr(task, "writer", None)
    yield from (view for view in views if isinstance(view, Features | BlockWriter))


def _is_cut(view: Features | BlockWriter, widths: Sequence[int]) -> bool:
    """Whether upper bits are missing from a distance."""
    pixels = view.line // view.atom
    if pixels in widths:
        return False
    return any(pixels < width and (width - pixels) % _LOST == 0 for width in widths)


def _is_misplaced(view: Features | BlockWriter, pictures: Sequence[Tensor]) -> bool:
    """Whether a part of several rows of a wide picture has another distance than all pictures."""
    pixels = view.line // view.atom
    is_part = any(
        _LEAST < _width(picture) > view.width and view.height <= _height(picture)
        for picture in pictures
    )
    return is_part and all(pixels != _width(picture) for picture in pictures)
