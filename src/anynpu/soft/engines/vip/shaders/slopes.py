"""Slopes of each channel's own for negative values."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from ..rounding import cut_to_half, normal_halves
from .quantized import F16, check_same, types
from .shader import Shader
from .task import Array, ShaderTask

_OF_HALVES = "ac50cb3a3e7b3fe9"


def prelu(shader: Shader) -> ShaderTask:
    """Negative float16 by the slope of their row, which is a plane of a network, cut to float16."""
    source, slopes, output = shader.images(0x00, 0x20, 0x40)
    check_same(output, source)
    planes, rows, _ = source.shape
    if types(source, slopes, output) != (F16, F16, F16) or shader.program != _OF_HALVES:
        raise Unknown(f"slopes of {slopes.dtype} for {source.dtype} in this form")
    if planes != 1 or slopes.shape != (1, 1, rows):
        raise Unknown(f"slopes of {slopes.shape} for {source.shape}")

    def function(values: Array, factors: Array) -> Array:
        products = normal_halves(values) * normal_halves(factors[0, 0])[:, None]
        result: Array = np.where(values < 0, cut_to_half(products), values).astype(np.float16)
        return result

    return ShaderTask((source, slopes), output, function)
