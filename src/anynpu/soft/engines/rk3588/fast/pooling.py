"""Maximum and minimum pooling of int8."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..elements import Element
from ..memory import Memory
from ..tasks import PoolingMethod, PoolingTask
from . import kernels
from .arguments import features_of, overlap, writer_of
from .steps import Plan, Step, call, shares, together

_SIGNS = {PoolingMethod.MAX: 1, PoolingMethod.MIN: -1}


def plan_pooling(task: PoolingTask) -> Plan | None:
    """A plan for int8 that doesn't write into its own input."""
    source = task.source
    shape = (source.surfaces, task.height, task.width, source.atom)
    if source.element is not Element.INT8 or task.method not in _SIGNS:
        return None
    return None if overlap(source, task.writer, shape) else _Pooling(task)


class _Pooling(Plan):
    def __init__(self, task: PoolingTask) -> None:
        self._task = task

    def bind(self, memory: Memory, scratch: Sequence[NDArray[np.uint8]]) -> Step:
        task, source = self._task, self._task.source
        window = kernels.Window(
            *task.kernel, *task.stride, 1, 1, *task.padding, task.height, task.width, 0
        )
        writer = writer_of(task.writer, source.channels, task.width, source.lanes, memory)
        features, sign = features_of(source, memory), _SIGNS[task.method]
        function = kernels.function("anynpu_npu_pool")
        work = source.channels * task.height * task.width * task.kernel[0] * task.kernel[1]
        parts = shares(source.surfaces, 1, work, len(scratch))
        return together(
            [call(function, writer, features, window, sign, *part, keeps=self) for part in parts]
        )
