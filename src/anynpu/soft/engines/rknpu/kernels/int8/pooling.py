"""Maximum and minimum pooling of int8."""

from __future__ import annotations

from collections.abc import Sequence

from ...elements import Element
from ...layout import written
from ...memory import Memory
from ...tasks import PoolingMethod, PoolingTask
from .. import structures
from ..aliasing import overlap
from ..arguments import features_of, pooled_window
from ..steps import KernelStep, Plan, Scratch
from . import kernels
from .arguments import writer_of

_SIGNS = {PoolingMethod.MAX: 1, PoolingMethod.MIN: -1}
_LEAST = {PoolingMethod.MAX: -128.0, PoolingMethod.MIN: -127.0}
"""What padding has to be at most, with its sign, so that it never is a window's result."""

_WORK_OF_AN_ATOM = 400
"""What a place of a window costs, in products of a dense convolution."""


def plan_pooling(task: PoolingTask) -> Plan | None:
    """A plan for int8 that doesn't write into its own input."""
    source = task.source
    if source.element is not Element.INT8 or task.method not in _SIGNS:
        return None
    if task.padding_value * _SIGNS[task.method] > _LEAST[task.method]:
        return None
    target = written(task)
    return None if overlap(source, target) or source.odd else _Pooling(task)


class _Pooling(Plan):
    def __init__(self, task: PoolingTask) -> None:
        self._task = task

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        task, source = self._task, self._task.source
        arguments = structures.Pool(
            writer_of(written(task), source.channels, memory),
            features_of(source, memory),
            pooled_window(task),
            _SIGNS[task.method],
        )
        rows, places = source.surfaces * task.height, task.kernel[0] * task.kernel[1]
        work = float(rows) * task.width * places * _WORK_OF_AN_ATOM
        return [KernelStep(kernels.kernel("pool"), arguments, rows, work, keeps=(self, memory))]
