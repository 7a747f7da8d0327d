"""Products of two tensors: exact sums, then the NN core's rounding."""

from __future__ import annotations

import numpy as np

from ..decode.matrix_product import MatrixProduct
from ..memory import Memory
from ..rounding import half_away
from .compute import compute


@compute.register
def _(task: MatrixProduct, memory: Memory) -> None:
    kernels = memory.read(task.kernels).astype(np.float64) - task.kernel_zero_point
    image = task.source.read(memory)[..., 0].astype(np.float64) - task.input_zero_point
    depth, height, width = image.shape
    sums = kernels @ image.reshape(depth, height * width)
    values = np.clip(sums * task.scale, task.low, task.high)
    whole = np.clip(half_away(values) + task.output_zero_point, 0, 255).astype(np.uint8)
    task.target.write(memory, whole.reshape(len(kernels), height, width, 1))
