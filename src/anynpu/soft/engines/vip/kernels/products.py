"""Products of two tensors by the C kernel."""

from __future__ import annotations

import math

import numpy as np

from .....native import steps
from .. import structures
from ..decode.matrix_product import MatrixProduct
from ..memory import MemoryMap
from . import native
from .arguments import Arguments
from .plan import Plan, fits_circle, is_apart, planes_in, units_of

_SUM = 4
"""Bytes."""
_MOST_PRODUCT = 255 * 255
_MOST_SUM = 1 << 31


class MatrixProductPlan(Plan):
    """A kernel's row of pixels as a unit of work."""

    __slots__ = "_task", "_threads"
    kernel = "product of tensors"

    def __init__(self, task: MatrixProduct, threads: int) -> None:
        self._task, self._threads = task, threads
        self.scratch = _SUM * task.source.width

    def bind(self, arguments: Arguments) -> steps.Entry:
        task = self._task
        kernels = task.kernels
        call = structures.MatrixProduct(
            kernels=arguments.pointer(kernels.space) + kernels.offset,
            kernel_step=kernels.strides[0],
            weight_step=kernels.strides[1],
            source=planes_in(task.source, arguments),
            target=planes_in(task.target, arguments),
            depth=kernels.shape[1],
            height=task.source.height,
            width=task.source.width,
            kernel_zero_point=task.kernel_zero_point,
            input_zero_point=task.input_zero_point,
            zero_point=task.output_zero_point,
            scale=task.scale,
            low=task.low,
            high=task.high,
        )
        units = kernels.shape[0] * task.source.height
        return steps.Entry(
            native.address("anynpu_vip_matrix_product"),
            arguments.put(call),
            units,
            units_of(units, self._threads),
        )


def plan_product(layout: MemoryMap, task: MatrixProduct, threads: int) -> MatrixProductPlan | None:
    """A plan for bytes where sums have 32 bits, and rows may be gone along."""
    if task.is_wide or task.stored != np.uint8 or task.table is not None:
        return None
    zero_points = task.kernel_zero_point, task.input_zero_point
    if not all(0 <= zero_point <= 255 for zero_point in zero_points):
        return None
    if not math.isfinite(task.scale) or task.kernels.shape[1] * _MOST_PRODUCT >= _MOST_SUM:
        return None
    sides = task.source, task.target
    if task.kernels.wraps or not all(planes.group == 1 and fits_circle(planes) for planes in sides):
        return None
    return MatrixProductPlan(task, threads) if is_apart(layout, task) else None
