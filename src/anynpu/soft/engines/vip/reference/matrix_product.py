"""Products of two tensors: exact sums, then the NN core's rounding."""

from __future__ import annotations

import numpy as np

from ..decode.matrix_product import MatrixProduct
from ..memory import Memory
from ..rounding import TABLE_BITS, cut, half_away
from .compute import compute
from .nn import half_bytes, wide_bytes
from .table import look_up


@compute.register
def _(task: MatrixProduct, memory: Memory) -> None:
    dtype = np.int16 if task.is_wide else np.uint8
    kernels, image = (
        np.ascontiguousarray(content).view(dtype)[..., 0].astype(np.float64) - zero_point
        for content, zero_point in (
            (memory.read(task.kernels), task.kernel_zero_point),
            (task.source.read(memory), task.input_zero_point),
        )
    )
    depth, height, width = image.shape
    sums = kernels @ image.reshape(depth, height * width)
    # The scale is in the table, if there is one.
    table = task.table
    scaled = sums * task.scale if table is None else look_up(table, cut(sums, TABLE_BITS))
    values = np.clip(scaled, task.low, task.high)
    values = values.reshape(len(kernels), height, width)
    if task.stored == np.float16:
        task.target.write(memory, half_bytes(values))
    elif task.stored == np.int16:
        task.target.write(memory, wide_bytes(values))
    else:
        whole = np.clip(half_away(values) + task.output_zero_point, 0, 255).astype(np.uint8)
        flip = np.uint8(128 if task.stored == np.int8 else 0)
        task.target.write(memory, (whole ^ flip)[..., None])
