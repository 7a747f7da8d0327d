"""What the stream processor does: a program over sums or values, in float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory
from ..rounding import half_away
from ..stream.arithmetic import Reals
from ..stream.evaluation import run
from ..stream.task import RealInput, RealOutput, StreamTask
from .compute import compute
from .nn import sums_of

_LEAST_NORMAL = np.float32(2.0**-14)
"""Of float16; what is less is zero, as an operand and as a result."""

_ZERO = np.float32(0)


@compute.register
def _(task: StreamTask, memory: Memory) -> None:
    shape = task.rows, task.length
    inputs = [
        (
            _values(part, memory)
            if isinstance(part, RealInput)
            else sums_of(part, memory).astype(np.float32)
        ).reshape(shape)
        for part in task.inputs
    ]
    with np.errstate(over="ignore", invalid="ignore"):
        result = run(task.flow, task.binding, inputs, shape, memory.queues)
        if task.output is not None and result is not None:
            _store(task.output, result.reshape(task.shape), memory)


def _values(part: RealInput, memory: Memory) -> Reals:
    content = np.ascontiguousarray(part.source.read(memory))
    values: Reals = content.view(part.dtype)[..., 0].astype(np.float32)
    if part.dtype == np.float16:
        values = np.where(np.abs(values) < _LEAST_NORMAL, np.copysign(_ZERO, values), values)
    return values


def _store(output: RealOutput, values: Reals, memory: Memory) -> None:
    """Results as (channels, rows, pixels) in the output's type: whole before the zero point."""
    kept = values[:, :: output.stride, :: output.stride]
    stored: NDArray[np.uint8] | NDArray[np.int16] | NDArray[np.float16] | Reals
    if output.dtype in (np.uint8, np.int16):
        wide = np.nan_to_num(kept.astype(np.float64))
        whole = (half_away(wide) if output.halves_go_away else np.rint(wide)) + output.zero_point
        if output.dtype == np.uint8:
            stored = np.clip(whole, 0, 255).astype(np.uint8)
        else:
            stored = np.clip(whole, -0x8000, 0x7FFF).astype(np.int16)
    elif output.dtype == np.float16:
        stored = np.where(np.abs(kept) < _LEAST_NORMAL, np.copysign(_ZERO, kept), kept)
        stored = stored.astype(np.float16)
    else:
        stored = kept
    content = np.ascontiguousarray(stored[..., None]).view(np.uint8)
    output.target.write(memory, content)
