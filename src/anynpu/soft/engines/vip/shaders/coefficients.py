"""Coefficients that a shader makes of a tensor, for a product of two tensors (T527).

The shader fills a blob without a code: bytes of each kernel where a table says, and behind them
what makes up for the zero points. Here the blob's space holds the kernels' bytes, row by row from
its beginning; nothing but the NN command that is made for them reads them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..memory import Space, Window
from ..refusal import Unknown
from .quantized import U8
from .shader import Image, Shader
from .task import ShaderTask

LAYER = "ConvolutionLayer"

_PROGRAM = "43c8345aaead8da6"
_TABLE, _BLOB = 0x20, 0x40
_BLOCK = 9
"""Weights of a kernel that lie side by side."""

_STREAM, _COUNT = 64, 2
"""Bytes at which the blob's first stream begins, and those of its number of kernels."""


@dataclass(frozen=True)
class MadeKernels:
    """(kernels, depth) bytes, made in `space` for inputs and kernels of these zero points.

    That of kernels is None where it made no difference.
    """

    space: Space
    kernels: int
    depth: int
    input_zero_point: int
    kernel_zero_point: int | None

    def window(self) -> Window:
        return Window(self.space, 0, (self.kernels, self.depth), (self.depth, 1))


def made_kernels(shader: Shader) -> MadeKernels:
    """What the shader makes; raises `Unknown` for a form that wasn't seen."""
    (source,) = shader.images_of(0x00)
    planes, kernels, depth = source.shape
    if shader.program != _PROGRAM or source.dtype != U8 or planes != 1:
        raise Unknown(f"coefficients made of {source.shape} {source.dtype} in this form")
    whole = depth // _BLOCK * _BLOCK
    if (shader.whole(0x60), shader.whole(0x64)) != (whole, depth - whole):
        raise Unknown(f"coefficients made of rows of {depth} bytes in this form")
    less = shader.signed(0x68)
    zero_point, rest = divmod(shader.signed(0x6C), less * depth) if less else (0, 0)
    if not 0 <= 128 - less <= 255 or rest or not 0 <= zero_point <= 255:
        raise Unknown("coefficients made for other zero points than bytes have")
    _check_places(shader, kernels, depth)
    return MadeKernels(
        shader.space(_BLOB),
        kernels,
        depth,
        input_zero_point=128 - less,
        kernel_zero_point=zero_point if less else None,
    )


def _check_places(shader: Shader, kernels: int, depth: int) -> None:
    """Raise `Unknown` unless kernels go where the NN core takes those of a single superblock.

    A row of the table is a kernel's number, its first byte, how far its blocks are apart, and the
    place of what is added.
    """
    table = shader.constant(_TABLE)[: 16 * kernels]
    if table.size < 16 * kernels:
        raise Unknown(f"a table of {table.size} bytes for {kernels} kernels")
    rows = np.frombuffer(table.tobytes(), "<i4").reshape(kernels, 4)
    if (np.diff(rows[:, 3]) != 4).any() or (rows[:, 0] != np.arange(kernels)).any():
        raise Unknown("coefficients made in another order than kernels are used")
    each, more = divmod(kernels, shader.cores)
    blocks = math.ceil(depth / _BLOCK)
    expected = []
    start = _STREAM
    for core in range(min(kernels, shader.cores)):
        count = each + (core < more)
        apart = count * _BLOCK
        expected += [(start + _COUNT + _BLOCK * kernel, apart) for kernel in range(count)]
        start += -(-(_COUNT + apart * blocks) // _STREAM) * _STREAM
    if rows[:, 1:3].tolist() != [list(row) for row in expected]:
        raise Unknown("coefficients made for other streams than the NN core's")


def make_coefficients(shader: Shader) -> ShaderTask:
    """Rows of bytes that become kernels."""
    (source,) = shader.images_of(0x00)
    made = made_kernels(shader)
    shape = (1, made.kernels, made.depth, 1)
    strides = (made.kernels * made.depth, made.depth, 1, 1)
    target = Image(Window(made.space, 0, shape, strides), U8)
    shader.check(target)
    return ShaderTask((source,), target, lambda values: values)
