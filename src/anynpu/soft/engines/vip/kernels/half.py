"""What shaders do with float16 by C kernels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .....native import steps
from .. import structures
from ..memory import Window
from ..rounding import normal_halves
from ..shaders.forms import RowProducts, Windows
from ..shaders.task import ShaderTask
from ..structures import AT_ONCE, HALF_KERNELS, HALF_ROWS
from . import native
from .arguments import Arguments
from .plan import Plan, rounded_up, units_of

_HALF, _DOUBLE = 2, 8
"""Bytes."""
_SHARES = 4
"""Units of work for each thread, at least."""


class WindowsPlan(Plan):
    """Windows as rows."""

    __slots__ = "_form", "_task", "_threads"
    kernel = "windows as rows"

    def __init__(self, task: ShaderTask, form: Windows, threads: int) -> None:
        self._task, self._form, self._threads = task, form, threads
        self.scratch = _HALF * task.output.shape[2]

    def bind(self, arguments: Arguments) -> steps.Entry:
        (image,), form = self._task.inputs, self._form
        source, target = image.window, self._task.output.window
        channels, height, width = image.shape
        _, count, _ = self._task.output.shape
        unit = math.ceil(count / (_SHARES * self._threads))
        call = structures.HalfWindows(
            source=arguments.pointer(source.space) + source.offset,
            plane=source.strides[0],
            row=source.strides[1],
            channels=channels,
            height=height,
            width=width,
            kernel_height=form.size[0],
            kernel_width=form.size[1],
            step_y=form.steps[0],
            step_x=form.steps[1],
            top=form.before[0],
            left=form.before[1],
            columns=form.columns,
            target=arguments.pointer(target.space) + target.offset,
            target_row=target.strides[1],
            count=count,
            unit=unit,
        )
        address = native.address("anynpu_vip_half_windows")
        return steps.Entry(address, arguments.put(call), math.ceil(count / unit), 1)


class RowProductsPlan(Plan):
    """Rows by kernels."""

    __slots__ = "_bias", "_form", "_task", "_threads", "_weights"
    kernel = "float16 products"

    def __init__(self, task: ShaderTask, form: RowProducts, threads: int) -> None:
        self._task, self._form, self._threads = task, form, threads
        self._weights = _blocks(form.weights)
        kernels, length = form.weights.shape
        self._bias = np.pad(form.bias, (0, -kernels % HALF_KERNELS))
        self.scratch = (HALF_ROWS * _DOUBLE + _HALF) * rounded_up(length, AT_ONCE)

    def bind(self, arguments: Arguments) -> steps.Entry:
        (image,), form = self._task.inputs, self._form
        source, target = image.window, self._task.output.window
        _, count, length = image.shape
        kernels = form.weights.shape[0]
        tiles, blocks = math.ceil(count / HALF_ROWS), math.ceil(kernels / HALF_KERNELS)
        parts = min(blocks, math.ceil(_SHARES * self._threads / tiles))
        together = math.ceil(blocks / parts)
        apart = target.strides[1], target.strides[2]
        by_kernel, by_row = apart if form.by_kernel else apart[::-1]
        call = structures.HalfProducts(
            source=arguments.pointer(source.space) + source.offset,
            source_row=source.strides[1],
            count=count,
            length=length,
            weights=arguments.constant(self._weights),
            bias=arguments.constant(self._bias),
            kernels=kernels,
            together=form.together,
            cuts=form.cuts,
            target=arguments.pointer(target.space) + target.offset,
            by_kernel=by_kernel,
            by_row=by_row,
            blocks=together,
        )
        units = tiles * math.ceil(blocks / together)
        address = native.address("anynpu_vip_half_products")
        return steps.Entry(address, arguments.put(call), units, units_of(units, self._threads))


def is_plain(task: ShaderTask) -> bool:
    """Whether values of a row lie side by side, in memory, and there are some."""
    images = (*task.inputs, task.output)
    return all(
        image.constant is None and _has_rows(image.window) and 0 not in image.shape
        for image in images
    )


def _has_rows(window: Window) -> bool:
    return not window.wraps and window.strides[2:] == (_HALF, 1)


def _blocks(weights: NDArray[np.float16]) -> NDArray[np.float16]:
    """Kernels as native/vip_half.h has them: (blocks, values, kernels of a block), zeros behind."""
    kernels, length = weights.shape
    padded = np.zeros((rounded_up(kernels, HALF_KERNELS), rounded_up(length, AT_ONCE)), np.float16)
    padded[:kernels, :length] = normal_halves(weights)
    blocks = padded.reshape(-1, HALF_KERNELS, padded.shape[1]).swapaxes(1, 2)
    return np.ascontiguousarray(blocks)
