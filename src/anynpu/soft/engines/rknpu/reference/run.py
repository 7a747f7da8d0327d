"""One task, from memory to memory."""

from __future__ import annotations

import numpy as np

from ..layout import written
from ..memory import Memory
from ..rounding import SILICON, Rounding
from ..tasks import ConvolutionTask, CopyTask, ElementwiseTask, PoolingTask, Task
from .convolution import convolve
from .dpu import process
from .features import as_numbers, read_atoms, read_features
from .pooling import pool
from .writer import write_atoms, write_channels


def run_task(memory: Memory, task: Task, rounding: Rounding = SILICON) -> None:
    """Compute what a task describes. Infinities and NaN are results, not warnings."""
    with np.errstate(all="ignore"):
        match task:
            case ConvolutionTask():
                sums = convolve(memory, task.convolution)
                write_channels(memory, written(task), process(memory, task.dpu, sums, rounding))
            case ElementwiseTask():
                values = as_numbers(read_features(memory, task.source), task.source.element)
                write_channels(memory, written(task), process(memory, task.dpu, values, rounding))
            case CopyTask():
                _copy(memory, task)
            case PoolingTask():
                write_channels(memory, written(task), pool(memory, task, rounding))


def _copy(memory: Memory, task: CopyTask) -> None:
    atoms = read_atoms(memory, task.source)
    rows, columns = task.repeats
    if (rows, columns) != (1, 1):
        # The copies, one below the other, are further surfaces for the writer.
        atoms = np.concatenate([atoms.repeat(columns, axis=2)] * rows)
    write_atoms(memory, written(task), atoms)
