"""What operations do, resolved: descriptions without a command word, immutable.

A unit is a decoder, which makes a description of an operation or raises `Unknown`, and a function
of the reference that carries the description out on a context's memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .coefficients import Kernels
from .memory import Scattered, Window
from .places import Places
from .planes import Planes


class Task(ABC):
    """One operation. `macs` are the products that it sums."""

    __slots__ = ()

    @property
    def macs(self) -> int:
        return 0

    @abstractmethod
    def reads(self) -> Iterator[Window]:
        """What it reads of memory that changes."""

    @abstractmethod
    def writes(self) -> Iterator[Window | Scattered]:
        """What it writes."""


@dataclass(frozen=True)
class MaxPooling:
    """A maximum over windows; padding counts for nothing."""

    size: int
    stride: int
    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, eq=False)
class Table:
    """A function as 1,024 entries, over the exponent and the top bits of the mantissa.

    `is_signed` says that negative arguments have a half of their own; otherwise the function is
    odd. There are entries for `exponents` powers of two, the middle one being that of 1;
    `is_flipped` says that the upper half of them comes first. Beyond the last entry the function
    goes on by the slope for positive or for negative arguments, below the first one by that at
    zero; without `slopes` it is as between the last entries, and linear from zero to the second
    power of two. With `rounds_parts` what the two entries around an argument contribute is rounded
    to 16 significant bits each.
    """

    values: NDArray[np.float64]
    is_signed: bool
    is_flipped: bool
    rounds_parts: bool = False
    exponents: int = 32
    slopes: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Second:
    """A second operand, whose bytes less nothing are multiplied by `scale`.

    `constant` is added with it: less the operand's zero point, in steps of the result. With
    `is_subtracted` the result is less both of them.
    """

    source: Planes
    scale: float
    constant: float
    is_subtracted: bool = False


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of products, as the NN core makes them for itself and for the stream processor.

    `kernels` None: each channel is its own input, plus `bias`. `top` and `left` are rows and pixels
    in front of the image; `border` is the pixel there and beyond the image, as in memory. Of
    `height` rows and `width` pixels each, before a stride. `is_wide` says that pixels are int16.
    """

    source: Planes
    is_signed: bool
    kernels: Kernels | None
    bias: int
    is_depthwise: bool
    kernel_height: int
    kernel_width: int
    top: int
    left: int
    border: int
    channels: int
    height: int
    width: int
    is_wide: bool = False

    @property
    def macs(self) -> int:
        taps = self.kernel_height * self.kernel_width
        depth = 1 if self.is_depthwise else self.source.channels
        return self.channels * self.height * self.width * taps * depth

    def reads(self) -> Iterator[Window]:
        for _, window in self.source.windows():
            yield window


@dataclass(frozen=True, slots=True)
class Convolution(Task):
    """Sums, multiplied by `scale` or by each channel's own, and what follows until they are bytes.

    In this order: `table`; negative values by `negative_scale` instead (or each channel's own),
    within `low` and `high`, not below zero with `has_relu`, every `stride`-th, `pooling` (with
    `negative_scale` these two come first), then
    `addition`, and with `cuts_sum` zero for what is below it, or `product`. Values are steps of the
    result, which has the zero point `zero_point`; with `is_half` they are float16, with `is_wide`
    int16.
    `shuffle` says how many rows and pixels of an image that many times as high and wide so many
    channels become.
    """

    sums: Sums
    target: Planes
    is_signed: bool
    is_half: bool
    table: Table | None
    scale: float
    negative_scale: float | None
    low: float
    high: float
    has_relu: bool
    stride: int
    pooling: MaxPooling | None
    addition: Second | None
    has_short_sums: bool
    product: Second | None
    zero_point: int
    shuffle: tuple[int, int] = (1, 1)
    is_wide: bool = False
    cuts_sum: bool = False

    @property
    def shuffles_depth(self) -> bool:
        """Whether channels become pixels."""
        return self.shuffle != (1, 1)

    @property
    def limits_values(self) -> bool:
        """Whether `low` is in steps of the result; where each channel has a slope it is a sum."""
        kernels = self.sums.kernels
        return self.negative_scale is None or kernels is None or kernels.negative_scales is None

    @property
    def macs(self) -> int:
        return self.sums.macs

    def reads(self) -> Iterator[Window]:
        yield from self.sums.reads()
        for second in (self.addition, self.product):
            if second is not None:
                for _, window in second.source.windows():
                    yield window

    def writes(self) -> Iterator[Window]:
        for _, window in self.target.windows():
            yield window


@dataclass(frozen=True, eq=False)
class HalfValues(Task):
    """Real values through the NN core: multiplied by `scale`, through `table`, a maximum.

    With `product` they are multiplied by those of another tensor, with `slopes`, (channels, 2), by
    their channel's slope for positive or for negative values. Items of planes say whether they
    are float16 or float32, on both sides; with `zero_point` the result is bytes, with `is_wide`
    int16.
    """

    source: Planes
    target: Planes
    scale: float
    table: Table | None
    pooling: MaxPooling | None
    zero_point: int | None
    product: Planes | None = None
    slopes: NDArray[np.float32] | None = None
    is_wide: bool = False

    def reads(self) -> Iterator[Window]:
        for planes in (self.source, self.product):
            if planes is not None:
                for _, window in planes.windows():
                    yield window

    def writes(self) -> Iterator[Window]:
        for _, window in self.target.windows():
            yield window


@dataclass(frozen=True)
class BlockTranspose(Task):
    """Blocks of bytes copied, rows for columns: both windows have the same shape."""

    source: Window
    target: Window

    def reads(self) -> Iterator[Window]:
        yield self.source

    def writes(self) -> Iterator[Window]:
        yield self.target


@dataclass(frozen=True)
class Normalization:
    """Values times a function of the sum of squares in a window about each.

    `scale` is what values are multiplied by before they are squared.
    """

    height: int
    width: int
    scale: float


@dataclass(frozen=True, eq=False)
class Move(Task):
    """The tensor processor: pixels of a window through arithmetic to where loops put them.

    The window (left, top, right, bottom, the last ones included) may reach over the image, where
    pixels are `border`; with None those of the image's edge, or, with `mirrors`, of its mirror
    image about the edge's pixels. `planes_before` and `planes_after` planes of the border are
    around those of the image. `pooling` are the height and width
    of a maximum, which goes on by `pooling_steps` rows and pixels. Then integers lose
    `input_zero_point`, `table` is applied, the result multiplied by `scale`, an integer rounded.
    With `normalization` the table's argument is a sum of squares, and its result multiplies the
    value.
    An int8 value has its top bit turned, before and after, where `flips` say so. `order` is which
    value of a plane comes next, plane after plane. With `is_wide` integers are int16, those of the
    image multiplied by `input_scale` first.
    """

    source: Planes
    input_is_float: bool
    output_is_float: bool
    input_flips: bool
    output_flips: bool
    window: tuple[int, int, int, int]
    border: float | None
    pooling: tuple[int, int] | None
    pooling_steps: tuple[int, int]
    input_zero_point: int
    output_zero_point: int
    scale: float | None
    table: Table | None
    order: Places
    target: Scattered
    is_wide: bool = False
    input_scale: float = 1.0
    mirrors: bool = False
    planes_before: int = 0
    planes_after: int = 0
    normalization: Normalization | None = None

    def nearest_pixels(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The image's row and pixel that stands for each of the window's."""
        left, top, right, bottom = self.window
        found = []
        for first, last, size in (
            (top, bottom, self.source.height),
            (left, right, self.source.width),
        ):
            places = np.arange(first, last + 1)
            if self.mirrors:
                places = np.abs(places)
                places = np.minimum(places, 2 * (size - 1) - places)
            found.append(np.clip(places, 0, size - 1))
        return found[0], found[1]

    def reads(self) -> Iterator[Window]:
        for _, window in self.source.windows():
            yield window

    def writes(self) -> Iterator[Scattered]:
        yield self.target


@dataclass(frozen=True, eq=False)
class MatrixByRow(Task):
    """A product of a matrix, (outputs, inputs), and a row."""

    source: Window
    target: Window
    weights: NDArray[Any]

    @property
    def macs(self) -> int:
        return self.weights.size

    def reads(self) -> Iterator[Window]:
        yield self.source

    def writes(self) -> Iterator[Window]:
        yield self.target


@dataclass(frozen=True, eq=False)
class FullyConnected(MatrixByRow):
    """A product of a matrix, (outputs, inputs) less its zero point, and a row of uint8.

    Results are uint8, or int16 with `is_wide`, the row as well with `takes_wide`; then their window
    has bytes as its last axis.
    """

    weights: NDArray[np.int16]
    bias: NDArray[np.int32]
    input_zero_point: int
    output_zero_point: int
    scale: float
    has_relu: bool
    is_wide: bool = False
    takes_wide: bool = False


@dataclass(frozen=True, eq=False)
class HalfFullyConnected(MatrixByRow):
    """A product of a matrix, (outputs, inputs), and a row, and a bias, summed in float32.

    Values are float16, or bfloat16 with `is_bfloat16`. Both windows have the bytes of a value as
    their last axis.
    """

    weights: NDArray[np.float16] | NDArray[np.float32]
    bias: NDArray[np.float32]
    has_relu: bool
    is_bfloat16: bool = False
