"""Coefficients that a shader makes of a tensor, for a product of two tensors (T527, V853).

The shader fills a blob without a code: bytes of each kernel where a table says, and behind them
what makes up for the zero points. Here the blob's space holds the kernels' bytes, row by row from
its beginning; nothing but the NN command that is made for them reads them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..coefficients.blob import KernelShape, streams_of
from ..memory import Space, Window
from ..refusal import Unknown
from .quantized import U8
from .shader import Image, Shader
from .task import ShaderTask, copy_of

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

    That of kernels is None where it made no difference. `per_core` is how many of a superblock a
    core has.
    """

    space: Space
    kernels: int
    depth: int
    input_zero_point: int
    kernel_zero_point: int | None
    per_core: int

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
    return MadeKernels(
        shader.space(_BLOB),
        kernels,
        depth,
        input_zero_point=128 - less,
        kernel_zero_point=zero_point if less else None,
        per_core=_kernels_per_core(shader, kernels, depth),
    )


def _kernels_per_core(shader: Shader, kernels: int, depth: int) -> int:
    """How many kernels a core has of a superblock, where kernels go to where the NN core has them.

    A row of the table is a kernel's number, its first byte, how far its blocks are apart, and the
    place of what is added. Raises `Unknown` for other places.
    """
    table = shader.constant(_TABLE)[: 16 * kernels]
    if table.size < 16 * kernels:
        raise Unknown(f"a table of {table.size} bytes for {kernels} kernels")
    rows = np.frombuffer(table.tobytes(), "<i4").reshape(kernels, 4)
    numbers = rows[:, 0]
    if set(numbers.tolist()) != set(range(kernels)):
        raise Unknown("coefficients made of other kernels than there are")
    added = rows[np.argsort(numbers), 3]
    # Superblocks have as many kernels as follow one another at the beginning of the first core.
    following = int(np.append(np.diff(numbers) == 1, False).argmin()) + 1
    each = min(following, math.ceil(kernels / shader.cores))
    if (np.diff(added) != 4).any() or rows[:, :3].tolist() != _places(
        shader.cores, kernels, depth, each
    ):
        raise Unknown("coefficients made for other streams than the NN core's")
    return each


def _places(cores: int, kernels: int, depth: int, each: int) -> list[list[int]]:
    """A row for each kernel, core by core: its number, its first byte, and from block to block."""
    shape = KernelShape(
        kernels, depth, 1, 1, is_depthwise=False, per_core=each, cores=cores, is_signed=False,
        zero_point=0, has_scales=False, has_negative_scales=False,
    )  # fmt: skip
    blocks = math.ceil(depth / _BLOCK)
    rows = []
    start = _STREAM
    for counts, channels in streams_of(shape, min(kernels, cores)):
        place, numbers = start + _COUNT, iter(channels.tolist())
        for count in counts.tolist():
            apart = count * _BLOCK
            rows += [[next(numbers), place + _BLOCK * k, apart] for k in range(count)]
            place += apart * blocks
        start += -(-(place - start) // _STREAM) * _STREAM
    return rows


def make_coefficients(shader: Shader) -> ShaderTask:
    """Rows of bytes that become kernels."""
    (source,) = shader.images_of(0x00)
    made = made_kernels(shader)
    shape = (1, made.kernels, made.depth, 1)
    strides = (made.kernels * made.depth, made.depth, 1, 1)
    target = Image(Window(made.space, 0, shape, strides), U8)
    shader.check(target)
    return copy_of(source, target)
