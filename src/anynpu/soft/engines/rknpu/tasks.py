"""What one hardware task computes, resolved: no registers, no addresses left to find.

Everything here is immutable and shared between contexts and threads. Shapes are (channels, height,
width); strides are bytes; an *atom* is what one pixel takes in one channel block (NC1HWC2's C2
elements): 16 bytes, or 8 on RK3566 and RK3568. A *surface* is one channel block of all pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from .elements import Address, Element
from .rounding import Ties
from .weights import Operand, Weights

TABLE_ENTRIES = 513
REDUCED_GROUP = 8
"""Channels of which a reduction may leave out the last ones."""


@dataclass(frozen=True)
class Features:
    """Features in channel blocks: lane c % lanes of surface c // lanes.

    `line` and `surface` are the distances between rows and between channel blocks; both may be
    negative. Where `odd` is set, surfaces 1, 3, 5... lie there and `address` holds 0, 2, 4...
    """

    address: Address
    element: Element
    channels: int
    height: int
    width: int
    line: int
    surface: int
    atom: int
    odd: Address | None = None

    @property
    def lanes(self) -> int:
        return self.atom // self.element.size

    @property
    def surfaces(self) -> int:
        return -(-self.channels // self.lanes)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width


@dataclass(frozen=True)
class Image:
    """A picture with its channels side by side: height rows of width * channels elements."""

    address: Address
    element: Element
    channels: int
    height: int
    width: int
    line: int


class OffsetPlace(Enum):
    """Where a conversion's offset is added."""

    BEFORE_SCALE = "(x + offset) * scale >> shift"
    BEFORE_SHIFT = "(x * scale + offset) >> shift"
    AFTER_SHIFT = "(x * scale >> shift) + offset"


@dataclass(frozen=True)
class InputConversion:
    """What bytes become before they are multiplied, clipped to int8; each by channel % 4.

    `is_unsigned` takes them as 0 to 255.
    """

    place: OffsetPlace
    offsets: tuple[int, int, int, int]
    scales: tuple[int, int, int, int]
    shifts: tuple[int, int, int, int]
    is_unsigned: bool = False
    ties: Ties = Ties.EVEN


@dataclass(frozen=True)
class Convolution:
    """A convolution, dense or depthwise: an exact integer sum, or one in float32.

    Between input pixels `inserted` rows and columns of the padding value go first (a transposed
    convolution; kernels are stored flipped). Padding at the bottom and right follows from the
    output's size. With a stride of 0 all outputs of that axis see the same place, which repeats a
    row or a column. Channels from `valid_channels` on count as zero. `weight_offset`, a number or
    an array (K, 1, 1), is added to every weight of a kernel. Integer sums leave without their last
    `truncate` bits, rounded as `truncate_ties` says.
    """

    source: Features | Image
    valid_channels: int
    conversion: InputConversion | None
    weights: Weights
    inserted: tuple[int, int]
    padding: tuple[int, int]
    padding_value: float
    stride: tuple[int, int]
    dilation: tuple[int, int]
    weight_offset: Operand | None
    channels: int
    height: int
    width: int
    truncate: int = 0
    truncate_ties: Ties = Ties.EVEN

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width


@dataclass(frozen=True)
class Limited:
    """What leaves a stage is kept from `lower` to `upper`, each None for no limit."""

    lower: float | None = field(default=None, kw_only=True)
    upper: float | None = field(default=None, kw_only=True)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.lower is not None or self.upper is not None


@dataclass(frozen=True)
class Stage(Limited):
    """The DPU's first (BS) or second (BN) stage: add and multiply, shift, limits.

    It adds first, or multiplies first; with `subtracts` the first number is taken away.
    `multiply_negatives` leaves positive values as they are (PReLU). Integers are shifted right
    after that, positive and negative ones by their own number of bits, with ties to even, and kept
    within int32.
    """

    add: Operand | None
    subtracts: bool
    multiply: Operand | None
    adds_first: bool
    multiply_negatives: bool
    shift_positive: int
    shift_negative: int


@dataclass(frozen=True)
class LookupTable:
    """Two tables of 513 entries, one for negative values and one for the others.

    Between entries, 2^`steps` apart, values are interpolated; of integers the bits after the point
    are dropped. Below `negative_start` and from `positive_end` on straight lines go on from the
    outermost entries, with slopes `slope` / 2^`shift`.
    """

    negative: NDArray[np.float64]
    positive: NDArray[np.float64]
    negative_start: int
    positive_start: int
    positive_end: int
    steps: tuple[int, int]
    slopes: tuple[int, int]
    shifts: tuple[int, int]


class Operation(Enum):
    """What the element-wise stage does; the value is EW_ALU_ALGO's of RK3588 as far as it has one.

    GREATER gives 1 for what is greater than the operand, else 0.
    """

    MAX = 0
    MIN = 1
    ADD = 2
    DIVIDE = 3
    SUBTRACT = 4
    ABS = 5
    NEGATE = 6
    FLOOR = 7
    CEIL = 8
    MULTIPLY = 16
    PRELU = 17
    GREATER = 18


@dataclass(frozen=True)
class OperandConversion:
    """(e + offset) * scale, shifted right with rounding."""

    offset: int
    scale: int
    shift: int
    ties: Ties = Ties.EVEN


@dataclass(frozen=True)
class Elementwise(Limited):
    """The DPU's third stage: the table, then an operation with a second operand, then limits.

    The operand is a number, features of the same shape, one pixel for all, one number a pixel
    (features of one channel), or one a column (one channel and one row).
    """

    table: LookupTable | None
    operation: Operation | None
    operand: float | Features | None
    conversion: OperandConversion | None
    product_shift: int


@dataclass(frozen=True)
class Output:
    """The conversion to the element that is written.

    Integers to integers: x * scale / 2^shift + offset, rounded and saturated. Everything else is
    multiplied by `factor`, `addend` is added, and that is rounded.
    """

    element: Element
    scale: int
    shift: int
    offset: int
    factor: float
    addend: float = 0.0
    ties: Ties = Ties.EVEN


@dataclass(frozen=True)
class Dpu:
    """The stages between accumulator or memory and the writer, None where bypassed.

    `reduction` takes the least ("min") or greatest ("max") value of all channels instead of an
    output conversion: of the first `reduced_lanes` of every eight where that isn't 0, and of all
    pixels with `reduces_pixels`. With `reduces_rows` it is one value of each group of eight
    channels and of each column: (C, H, W) becomes (C / 8, 1, W).
    """

    is_float: bool
    bs: Stage | None
    bn: Stage | None
    elementwise: Elementwise | None
    reduction: str | None
    output: Output
    reduced_lanes: int = 0
    reduces_pixels: bool = False
    reduces_rows: bool = False

    @property
    def features_operand(self) -> Features | None:
        """The features that the third stage reads, if it does."""
        operand = self.elementwise.operand if self.elementwise else None
        return operand if isinstance(operand, Features) else None

    def reduced_shape(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """The shape of what is written for values of a shape (C, H, W)."""
        if not self.reduction:
            return shape
        if self.reduces_rows:
            return -(-shape[0] // REDUCED_GROUP), 1, shape[2]
        return (1, 1, 1) if self.reduces_pixels else (1, *shape[1:])


@dataclass(frozen=True)
class BlockWriter:
    """Channel blocks: surface s at (s // group) * group_stride + (s % group) * surface.

    Pixels form one linear stream that is broken into `height` rows of `width`.
    """

    address: Address
    height: int
    width: int
    line: int
    surface: int
    group: int
    group_stride: int
    atom: int
    padding: int


@dataclass(frozen=True)
class PhaseWriter:
    """Every n-th pixel of every m-th row: rows `line` apart, pixels `pixel`, surfaces `surface`.

    A pixel has `atom` bytes of a surface.
    """

    address: Address
    line: int
    pixel: int
    surface: int
    atom: int
    padding: int


@dataclass(frozen=True)
class AtomTransposer:
    """Atoms (surface, row, column) go to surface *column*, row *surface*, column *row*."""

    address: Address
    line: int
    surface: int
    atom: int = 16


@dataclass(frozen=True)
class PixelTransposer:
    """Turns lanes into pixels: blocks of as many pixels as lanes are transposed.

    Pixels form one stream, surface after surface. For `element_size` 2, eight of them become eight
    atoms, `lane_stride` apart; blocks follow each other along rows of `width` and `height`, then
    `group_stride`. For 16 the same places get as many `pixels` as they are. For 1, sixteen pixels
    become two rows, `line` apart, of eight atoms; on RK3576 they are blocks of sixteen `pixels`
    that become as many atoms.
    """

    address: Address
    element_size: int
    height: int
    width: int
    line: int
    lane_stride: int
    group_stride: int
    pixels: int = 8


@dataclass(frozen=True)
class PackedWriter:
    """The first `atom_bytes` of every atom side by side, `limit` bytes at most.

    `together` surfaces are what a pixel of one surface that was read became; they lie side by side
    for each pixel, and pixels lie surface after surface. Where elements become narrower, an atom
    holds what `apart` surfaces were; its parts lie with the other pixels of their own.
    """

    address: Address
    atom_bytes: int
    limit: int
    together: int = 1
    atom: int = 16
    apart: int = 1


@dataclass(frozen=True)
class SurfacePacker:
    """Surfaces side by side, the last atom of each cut to `last_bytes`.

    The bytes are broken into `groups` of `group_bytes`, each filled up to whole atoms with zeros;
    `limit` bytes are written at most. Of elements that were narrower as they were read, as many
    surfaces as one gave stay `together`, pixel by pixel.
    """

    address: Address
    last_bytes: int
    groups: int
    group_bytes: int
    limit: int
    together: int = 1


@dataclass(frozen=True)
class RowWriter:
    """The bytes of all atoms as one stream of rows: `kept` bytes of each `row`, `pitch` apart.

    Packs rows that end within an atom, or gives packed ones whole atoms.
    """

    address: Address
    rows: int
    row: int
    kept: int
    pitch: int


@dataclass(frozen=True)
class DenseWriter:
    """One element a pixel, side by side: what a reduction over channels gives.

    The last `unit` elements are filled up with copies of the last one.
    """

    address: Address
    unit: int = 1


Writer = (
    BlockWriter
    | PhaseWriter
    | AtomTransposer
    | PixelTransposer
    | PackedWriter
    | RowWriter
    | SurfacePacker
    | DenseWriter
)


@dataclass(frozen=True)
class Task:
    """`index` is its place in the file's list of tasks, `node` that of its node in the graph."""

    index: int
    node: int


@dataclass(frozen=True)
class ConvolutionTask(Task):
    convolution: Convolution
    dpu: Dpu
    writer: Writer


@dataclass(frozen=True)
class ElementwiseTask(Task):
    """The DPU on features from memory."""

    source: Features
    dpu: Dpu
    writer: Writer


@dataclass(frozen=True)
class CopyTask(Task):
    """Moves atoms without looking into them.

    `repeats` (rows, columns): each pixel is repeated so many times in its row, and the surface so
    often as one more surface.
    """

    source: Features
    repeats: tuple[int, int]
    writer: Writer


class PoolingMethod(Enum):
    AVERAGE = 0
    MAX = 1
    MIN = 2


@dataclass(frozen=True)
class PoolingTask(Task):
    """`reciprocals` of height and width multiply an average's sum: integers / 2^16 for int8.

    With `counts_inside` they are those of the whole kernel alone; of a window that reaches over an
    edge it is the rows and columns inside that count. Padding is added all the same.
    """

    source: Features
    method: PoolingMethod
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    padding_value: float
    reciprocals: tuple[float, float]
    height: int
    width: int
    writer: BlockWriter
    counts_inside: bool = False
