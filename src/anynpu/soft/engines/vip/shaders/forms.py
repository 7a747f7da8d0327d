"""What functions of shaders do, as data, where a C kernel does the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Windows:
    """Each window of an image of 16-bit values as a row; what lies beyond the image is zero.

    `columns` windows of `size` rows and pixels are beside each other, `steps` apart, the first one
    beginning `before` the image.
    """

    size: tuple[int, int]
    steps: tuple[int, int]
    before: tuple[int, int]
    columns: int


@dataclass(frozen=True, eq=False)
class RowProducts:
    """Rows of float16 by kernels, (kernels, values), of float16, and a bias of float32.

    Sums of 8 products are cut to float32, `together` of them summed and rounded before they are
    added to what is there. With `cuts` negative results are zero. With `by_kernel` a row of the
    output has a kernel's results, otherwise a row's.
    """

    weights: NDArray[np.float16]
    bias: NDArray[np.float32]
    together: int
    cuts: bool
    by_kernel: bool


LAYER_VECTOR = 16
"""Pixels that the shader of a layer's normalisation reads at once."""


@dataclass(frozen=True, slots=True)
class RowFactors:
    """Bytes less their zero point, by their row's factor, and its constant.

    These are the second and third operand, float32 of which the images have the halves.
    """

    zero_point: int


@dataclass(frozen=True, slots=True)
class ByteProducts:
    """Products of two operands' bytes less their `zero_points`, by `scale`, and `constant`.

    That of both zero points is in the constant.
    """

    zero_points: tuple[int, int]
    scale: np.float32
    constant: np.float32


@dataclass(frozen=True, slots=True)
class WindowSums:
    """Sums of bytes over windows of `size` rows and pixels, which fill the image side by side.

    They begin with `addend`, and are multiplied by `scale`, before `constant` is added.
    """

    size: tuple[int, int]
    addend: int
    scale: np.float32
    constant: np.float32


@dataclass(frozen=True, slots=True)
class LayerRows:
    """Bytes of a row less their mean over their deviation, by each pixel's scale, and its bias.

    These are the third and the second operand. Sums have as many bytes of the value `own` more as
    a row lacks to whole vectors, `part` is what means are made by, and `epsilon` is added to a
    variance. Then `factor`, and `constant`.
    """

    own: int
    part: np.float32
    epsilon: np.float32
    factor: np.float32
    constant: np.float32


@dataclass(frozen=True, eq=False)
class SoftmaxRows:
    """Softmax over a row's bytes; `powers` are those of each difference to the greatest byte.

    The result is float16, or bytes of shares by `factor`, and `constant`.
    """

    powers: NDArray[np.float32]
    factor: np.float32
    constant: np.float32
    is_half: bool


@dataclass(frozen=True, slots=True)
class Part:
    """An image's values as they are, from this plane, row and pixel on."""

    first: tuple[int, int, int] = (0, 0, 0)


Form = (
    Windows | RowProducts | RowFactors | ByteProducts | WindowSums | LayerRows | SoftmaxRows | Part
)
