"""Rows of bytes by factors, their products, sums, normalisation and softmax by the C kernels."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .....native import steps
from .. import structures
from ..memory import Window
from ..places import Places
from ..shaders.forms import (
    LAYER_VECTOR,
    ByteProducts,
    LayerRows,
    Part,
    RowFactors,
    SoftmaxRows,
    WindowSums,
)
from ..shaders.shader import Image
from ..shaders.task import ShaderTask
from . import native
from .arguments import Arguments
from .moves import MovePlan
from .plan import Plan, units_of

_TOGETHER = 4096
"""Values that a unit of work has at least, if there are as many."""
_MOST_PIXELS = 1 << 24
"""Bytes of which a sum has 32 bits."""
_MOST_ZERO_POINT = 0xFFFF


class _Lines(NamedTuple):
    """A result's lines: all of them, those of a plane, their pixels, those of a unit of work."""

    total: int
    rows: int
    pixels: int
    unit: int


class RowsPlan(Plan):
    """Lines of an image, each for itself."""

    __slots__ = "_form", "_task", "_threads"
    kernel = "rows of bytes"

    def __init__(self, task: ShaderTask, form: object, threads: int) -> None:
        self._task, self._form, self._threads = task, form, threads
        self.scratch = 0

    def bind(self, arguments: Arguments) -> steps.Entry:
        planes, rows, pixels = self._task.output.shape
        longest = max(pixels, *(image.shape[2] for image in self._task.inputs))
        lines = _Lines(planes * rows, rows, pixels, math.ceil(_TOGETHER / longest))
        name, called_with = _CALLS[type(self._form)]
        call = called_with(self._form, self._task, lines, arguments)
        units = math.ceil(lines.total / lines.unit)
        return steps.Entry(
            native.address(name), arguments.put(call), units, units_of(units, self._threads)
        )


def plan_rows(task: ShaderTask, threads: int) -> Plan | None:
    """A plan of a task with a form of rows, which writes nothing that it reads."""
    images = (*task.inputs, task.output)
    if not all(map(_has_pixels_side_by_side, images)):
        return None
    form = task.form
    if isinstance(form, Part):
        return _plan_of_part(task, form, threads)
    if isinstance(form, ByteProducts):
        task, form = _ordered(task, form)
    is_taken = _TAKEN.get(type(form))
    if is_taken is None or not is_taken(form, task):
        return None
    return RowsPlan(task, form, threads)


def _has_pixels_side_by_side(image: Image) -> bool:
    window = image.window
    if window.wraps or 0 in window.shape:
        return False
    return image.constant is not None or window.shape[2] == 1 or window.strides[2] == _item(image)


def _item(image: Image) -> int:
    return image.window.shape[3]


def _pointer(image: Image, arguments: Arguments) -> int:
    if image.constant is not None:
        return arguments.constant(image.constant)
    return arguments.pointer(image.window.space) + image.window.offset


def _lines(image: Image, arguments: Arguments, *, height: int = 1) -> structures.Lines:
    """An image's lines, or the first of each `height` rows; an axis of one is repeated."""
    planes, rows, _ = image.shape
    plane, row = image.window.strides[:2]
    if image.constant is not None:
        plane, row, _ = image.constant.strides
    return structures.Lines(
        first=_pointer(image, arguments),
        plane=plane if planes > 1 else 0,
        row=height * row if rows > 1 else 0,
    )


# ------------------------------------------------------------------------------------ copies


def _plan_of_part(task: ShaderTask, form: Part, threads: int) -> MovePlan | None:
    """Rows of bytes from places to places."""
    (source,), output = task.inputs, task.output
    if source.constant is not None:
        return None
    planes, rows, pixels = output.shape
    item = _item(output) * pixels
    origins = _line_places(source.window, form.first, (planes, rows))
    places = _line_places(output.window, (0, 0, 0), (planes, rows))
    spaces = source.window.space, output.window.space
    return MovePlan(*spaces, origins, places, item, threads)


def _line_places(window: Window, first: tuple[int, int, int], counts: tuple[int, int]) -> Places:
    """Where the first bytes of lines are, from a plane, row and pixel on."""
    start = window.offset + sum(map(int.__mul__, first, window.strides[:3]))
    begins = Window(window.space, start, counts, window.strides[:2])
    return Places.of(begins.offsets(), counts[1])


# ----------------------------------------------------------------------------------- factors


def _takes_factors(form: RowFactors, _: ShaderTask) -> bool:
    return 0 <= form.zero_point <= _MOST_ZERO_POINT


def _factors(
    form: RowFactors, task: ShaderTask, lines: _Lines, arguments: Arguments
) -> structures.RowFactors:
    source, factors, constants = task.inputs
    return structures.RowFactors(
        source=_lines(source, arguments),
        target=_lines(task.output, arguments),
        rows=lines.rows,
        pixels=lines.pixels,
        zero_point=form.zero_point,
        factors=_pointer(factors, arguments),
        constants=_pointer(constants, arguments),
        unit=lines.unit,
    )


# ---------------------------------------------------------------------------------- products


def _ordered(task: ShaderTask, form: ByteProducts) -> tuple[ShaderTask, ByteProducts]:
    """The same with an operand first that has all pixels, if there is one."""
    a, b = task.inputs
    if a.shape[2] == task.output.shape[2]:
        return task, form
    zero, other = form.zero_points
    turned = ByteProducts((other, zero), form.scale, form.constant)
    return ShaderTask((b, a), task.output, task.function, form=turned), turned


def _takes_products(form: ByteProducts, task: ShaderTask) -> bool:
    a, b = task.inputs
    pixels = task.output.shape[2]
    is_known = all(0 <= zero_point <= _MOST_ZERO_POINT for zero_point in form.zero_points)
    return is_known and a.shape[2] == pixels and b.shape[2] in (1, pixels)


def _products(
    form: ByteProducts, task: ShaderTask, lines: _Lines, arguments: Arguments
) -> structures.ByteProducts:
    a, b = task.inputs
    zero_point, other = form.zero_points
    return structures.ByteProducts(
        source=_lines(a, arguments),
        other=_lines(b, arguments),
        target=_lines(task.output, arguments),
        rows=lines.rows,
        count=lines.total,
        pixels=lines.pixels,
        zero_point=zero_point,
        other_zero_point=other,
        other_is_one=b.shape[2] == 1,
        scale=form.scale,
        constant=form.constant,
        unit=lines.unit,
    )


# -------------------------------------------------------------------------------------- sums


def _takes_sums(_: WindowSums, task: ShaderTask) -> bool:
    (source,) = task.inputs
    return source.shape[2] < _MOST_PIXELS


def _sums(
    form: WindowSums, task: ShaderTask, lines: _Lines, arguments: Arguments
) -> structures.WindowSums:
    (source,) = task.inputs
    height, width = form.size
    return structures.WindowSums(
        source=_lines(source, arguments, height=height),
        target=_lines(task.output, arguments),
        rows=lines.rows,
        count=lines.total,
        pixels=lines.pixels,
        height=height,
        width=width,
        next_row=source.window.strides[1],
        addend=form.addend,
        scale=form.scale,
        constant=form.constant,
        unit=lines.unit,
    )


# ----------------------------------------------------------------------------- normalisation


def _takes_layer(_: LayerRows, task: ShaderTask) -> bool:
    bias, scales = task.inputs[1:]
    return bias.constant is not None and scales.constant is not None


def _layer(
    form: LayerRows, task: ShaderTask, lines: _Lines, arguments: Arguments
) -> structures.LayerRows:
    source, bias, scales = task.inputs
    beyond = -lines.pixels % LAYER_VECTOR * form.own
    return structures.LayerRows(
        source=_lines(source, arguments),
        target=_lines(task.output, arguments),
        rows=lines.rows,
        count=lines.total,
        pixels=lines.pixels,
        scales=_pointer(scales, arguments),
        bias=_pointer(bias, arguments),
        sum_beyond=beyond,
        squares_beyond=beyond * form.own,
        part=form.part,
        epsilon=form.epsilon,
        factor=form.factor,
        constant=form.constant,
        unit=lines.unit,
    )


# ----------------------------------------------------------------------------------- softmax


def _takes_softmax(form: SoftmaxRows, _: ShaderTask) -> bool:
    numbers = form.factor, form.constant, *form.powers
    return bool(np.isfinite(numbers).all())


def _softmax(
    form: SoftmaxRows, task: ShaderTask, lines: _Lines, arguments: Arguments
) -> structures.SoftmaxRows:
    (source,) = task.inputs
    return structures.SoftmaxRows(
        source=_lines(source, arguments),
        target=_lines(task.output, arguments),
        rows=lines.rows,
        count=lines.total,
        pixels=lines.pixels,
        powers=arguments.constant(form.powers),
        factor=form.factor,
        constant=form.constant,
        is_half=form.is_half,
        unit=lines.unit,
    )


_TAKEN: dict[type, Callable[[Any, ShaderTask], bool]] = {
    RowFactors: _takes_factors,
    ByteProducts: _takes_products,
    WindowSums: _takes_sums,
    LayerRows: _takes_layer,
    SoftmaxRows: _takes_softmax,
}
"""Whether a kernel takes a task of a form."""

_CALLS: dict[type, tuple[str, Callable[[Any, ShaderTask, _Lines, Arguments], ctypes.Structure]]] = {
    RowFactors: ("anynpu_vip_row_factors", _factors),
    ByteProducts: ("anynpu_vip_byte_products", _products),
    WindowSums: ("anynpu_vip_window_sums", _sums),
    LayerRows: ("anynpu_vip_layer_rows", _layer),
    SoftmaxRows: ("anynpu_vip_softmax_rows", _softmax),
}
"""The kernels of forms, and what they are called with."""
