"""What Python and the NPU's C kernels share: structures, enumerations, constants.

native/npu.h is written from these declarations (`header`), so a name, a number or a layout stands
here alone. Addresses are those of a first atom or element, strides are bytes.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum, IntFlag

from .....structures import Structure
from ..elements import Element
from ..tasks import TABLE_ENTRIES

_INTEGER, _POINTER = ctypes.c_int64, ctypes.c_void_p
_SINGLE, _DOUBLE = ctypes.c_float, ctypes.c_double

BLOCK = 60
"""Pixels that go through the stages together."""

LANES = 16
"""Bytes of an atom, at most."""

COLUMNS = 16
"""Kernels of a dense int8 convolution whose sums are computed together."""

SLICE = 512
"""Places of a dense int8 kernel whose weights are unpacked at a time."""

GROUP = 16
"""Channels that the general kernels compute together."""

ROWS = 6
"""Rows of a matrix product that are multiplied together."""

PAIRED_TOGETHER = 8
"""Neighbours of an int8 convolution channel by channel whose sums are computed together."""

CHUNK = 256
"""Products that the general kernels add up before the next weights are unpacked."""

AXES = 5
"""Axes of a way through memory."""

CONSTANTS = {
    "BLOCK": BLOCK,
    "LANES": LANES,
    "COLUMNS": COLUMNS,
    "SLICE": SLICE,
    "GROUP": GROUP,
    "ROWS": ROWS,
    "PAIRED_TOGETHER": PAIRED_TOGETHER,
    "CHUNK": CHUNK,
    "AXES": AXES,
    "TABLE_ENTRIES": TABLE_ENTRIES,
}


class OperandKind(IntEnum):
    """What the second operand is, if it isn't a number."""

    ONE_A_RESULT = 1
    ONE_A_PIXEL = 2


class KernelOperation(IntEnum):
    """What the element-wise stage does with its two operands; int8 kernels know the first six."""

    NONE = 0
    ADD = 1
    SUBTRACT = 2
    MAX = 3
    MIN = 4
    MULTIPLY = 5
    DIVIDE = 6
    ABS = 7
    NEGATE = 8
    FLOOR = 9
    CEIL = 10
    PRELU = 11
    GREATER = 12


class Follow(IntFlag):
    """What follows a bias and a factor: the short ways through the stages of int8.

    SPLIT: shifts of positive and negative values differ; LEAK: BN multiplies negative values;
    SECOND: BN multiplies and adds; ADDITION: an operand is added, with limits; INDEX: there is no
    output conversion, values are places in a table.
    """

    NOTHING = 0
    SPLIT = 1
    LEAK = 2
    SECOND = 4
    ADDITION = 8
    INDEX = 16


class Method(IntEnum):
    """What the general kernels do with what a window sees, channel by channel."""

    PRODUCTS = 0
    SUMS = 1
    GREATEST = 2
    LEAST = 3


class Features(Structure):
    """Features in channel blocks.

    Where `odd` is set, every second block lies there. Channels from `valid` on count as zero.
    Nothing past `readable` bytes from `base` on is touched. `conversion`, (4, 256), says what
    bytes become, by channel % 4; or it is NULL.
    """

    _fields_ = [
        ("base", _POINTER),
        ("odd", _POINTER),
        ("surface", _INTEGER),
        ("line", _INTEGER),
        ("pixel", _INTEGER),
        ("surfaces", _INTEGER),
        ("lanes", _INTEGER),
        ("channels", _INTEGER),
        ("valid", _INTEGER),
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("element", _INTEGER),
        ("readable", _INTEGER),
        ("conversion", _POINTER),
    ]


class Window(Structure):
    """What one output pixel sees.

    `inserted_y` and `inserted_x` are rows and columns of padding between those of the input.
    """

    _fields_ = [
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("stride_y", _INTEGER),
        ("stride_x", _INTEGER),
        ("dilation_y", _INTEGER),
        ("dilation_x", _INTEGER),
        ("top", _INTEGER),
        ("left", _INTEGER),
        ("inserted_y", _INTEGER),
        ("inserted_x", _INTEGER),
        ("out_height", _INTEGER),
        ("out_width", _INTEGER),
        ("padding", _SINGLE),
    ]


class Weights(Structure):
    """Kernels as the hardware streams them: blocks of kernels, of channels, of places.

    `offsets` are added to each kernel's weights, in whole groups; or NULL. `row`, if not 0, is the
    elements of a kernel's row: pixels side by side, and padding.
    """

    _fields_ = [
        ("base", _POINTER),
        ("element", _INTEGER),
        ("kernels", _INTEGER),
        ("channels", _INTEGER),
        ("kernel_group", _INTEGER),
        ("channel_group", _INTEGER),
        ("offsets", _POINTER),
        ("row", _INTEGER),
    ]


class Operand(Structure):
    """A number a channel, or none.

    `values` is an array of whole atoms or groups, of floats or for integers of doubles; `stored`
    lies in memory, where a group of channels takes `stride` bytes.
    """

    _fields_ = [
        ("values", _POINTER),
        ("stored", _POINTER),
        ("group", _INTEGER),
        ("stride", _INTEGER),
        ("element", _INTEGER),
        ("channels", _INTEGER),
    ]


class Stage(Structure):
    """(v + add) * multiply, or with `multiply_first` v * multiply + add; then limits.

    Integers are multiplied by `positive` or `negative`, 2^-shift, and rounded before the limits,
    which are those of int32 where results may reach them. With `subtracts` the number is taken
    away; int8 kernels want its negative in `values` instead, and both operands there.
    """

    _fields_ = [
        ("add", Operand),
        ("multiply", Operand),
        ("lowest", _DOUBLE),
        ("highest", _DOUBLE),
        ("positive", _DOUBLE),
        ("negative", _DOUBLE),
        ("subtracts", _INTEGER),
        ("multiply_first", _INTEGER),
        ("only_negatives", _INTEGER),
    ]


class Table(Structure):
    """Both look-up tables, one after the other: of negative values, and of the others.

    What there is two of is in that order too; `step` is 1 / the distance of entries. `lines` are
    those through two entries each, for float32, which does up to `reach` steps from 0; or NULL:
    see `FloatTable`.
    """

    _fields_ = [
        ("entries", _POINTER),
        ("lines", _POINTER),
        ("start", _DOUBLE * 2),
        ("end", _DOUBLE),
        ("step", _DOUBLE * 2),
        ("slope", _DOUBLE * 2),
        ("reach", _DOUBLE),
    ]


class ShortWay(Structure):
    """Ways through the stages of int8 for results that fit into 30 bits, with ties to even.

    `is_positive`: BS adds first and has one shift and a ReLU, and only the output follows;
    `is_linear`: BS adds first, and `follow` says what else there is. `results` are those of a table
    and all that comes after it, for `count` whole numbers from `first` on; or NULL.
    `is_whole`: `run_whole` knows the way, which rounds by adding 1.5 * 2^52. Sums and what BS adds
    to them are int32 together, and so are results even without limits; BS's and the operand's
    factors are short, the output's scale is above 0 and at most 1, and its offset is whole.
    """

    _fields_ = [
        ("is_positive", _INTEGER),
        ("is_linear", _INTEGER),
        ("is_whole", _INTEGER),
        ("follow", _INTEGER),
        ("results", _POINTER),
        ("first", _INTEGER),
        ("count", _INTEGER),
    ]


class Dpu(Structure):
    """All stages between sums and what is stored.

    The second operand is `number` where there are no features of it; integers are converted by
    `operand_offset` and `operand_scale`, with the shift. `product` is 2^-shift of integers'
    products. `lowest` and `highest` follow the operation. The output is multiplied by `factor` and
    gets `addend` where either side is a float; integers to integers have `scale`, with the shift,
    and `offset`. Ties go away from zero for an output or operand that is `away`, else to even.
    `average`: of int8 sums, times this, / 2^32. `after` has stages of another task,
    without a third one, that the general kernels run on what float32 the others give; or it is
    NULL.
    """

    _fields_ = [
        ("bs", Stage),
        ("bn", Stage),
        ("table", Table),
        ("operand", Features),
        ("number", _DOUBLE),
        ("operand_offset", _DOUBLE),
        ("operand_scale", _DOUBLE),
        ("product", _DOUBLE),
        ("lowest", _DOUBLE),
        ("highest", _DOUBLE),
        ("factor", _DOUBLE),
        ("addend", _DOUBLE),
        ("scale", _DOUBLE),
        ("offset", _DOUBLE),
        ("output_away", _INTEGER),
        ("operand_away", _INTEGER),
        ("is_integer", _INTEGER),
        ("average", _INTEGER),
        ("has_bs", _INTEGER),
        ("has_bn", _INTEGER),
        ("has_table", _INTEGER),
        ("operation", _INTEGER),
        ("has_operand", _INTEGER),
        ("has_limits", _INTEGER),
        ("element", _INTEGER),
        ("after", _POINTER),
        ("short_way", ShortWay),
    ]


class Writer(Structure):
    """Where atoms go: `group` surfaces lie `surface` apart, groups of them `group_stride`.

    Lanes past the last channel hold the padding.
    """

    _fields_ = [
        ("base", _POINTER),
        ("line", _INTEGER),
        ("pixel", _INTEGER),
        ("surface", _INTEGER),
        ("group", _INTEGER),
        ("group_stride", _INTEGER),
        ("width", _INTEGER),
        ("channels", _INTEGER),
        ("lanes", _INTEGER),
        ("padding", _INTEGER),
    ]


class Int8Dense(Structure):
    """A dense int8 convolution: rows of what each output pixel sees, times weights.

    `weights` are (groups of COLUMNS kernels, depth / 4, COLUMNS, 4), with `offsets`, (groups,
    COLUMNS), to be added to each weight of a kernel. `rows` are those of all output pixels, or NULL
    where each thread gathers its own, `tile` at a time and `stride` values apart, of one byte or
    two as the form has them; lanes past `channels` have no weights. `is_packed`: neighbours in a
    row of the input lie side by side, with all their channels. `is_pointwise`: each pixel sees its
    own atoms of LANES, which lie one after another in a surface. `depth` is the places of a kernel,
    a multiple of 8. Sums lose `truncate` bits before the stages, and halves go up with
    `truncate_up`, else to the even number.
    """

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("weights", _POINTER),
        ("offsets", _POINTER),
        ("rows", _POINTER),
        ("channels", _INTEGER),
        ("is_packed", _INTEGER),
        ("is_pointwise", _INTEGER),
        ("depth", _INTEGER),
        ("stride", _INTEGER),
        ("tile", _INTEGER),
        ("pixels", _INTEGER),
        ("truncate", _INTEGER),
        ("truncate_up", _INTEGER),
    ]


class Int8Depthwise(Structure):
    """An int8 convolution channel by channel; `weights` are (surfaces, height, pairs, lanes, 2).

    The input is laid out as pairs of neighbours, the dilation apart, in rows of `columns` pairs:
    outputs are `apart` of these apart, pairs of the kernel `pair`, and its rows `reach`. `band`
    output rows are computed at a time, so that their input stays cached. Sums are truncated as
    those of a dense one.
    """

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("weights", _POINTER),
        ("pairs", _INTEGER),
        ("columns", _INTEGER),
        ("apart", _INTEGER),
        ("pair", _INTEGER),
        ("reach", _INTEGER),
        ("band", _INTEGER),
        ("truncate", _INTEGER),
        ("truncate_up", _INTEGER),
    ]


class Remap(Structure):
    """int8 features through a function of one value: `values` of -128 to 127."""

    _fields_ = [("writer", Writer), ("features", Features), ("values", _POINTER)]


class Pool(Structure):
    """The greatest int8 value of each window, or with the sign -1 the least."""

    _fields_ = [
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("sign", _INTEGER),
    ]


class Move(Structure):
    """Atoms of 8 or 16 bytes to other places; strides of surfaces, rows and pixels."""

    _fields_ = [
        ("source", _POINTER),
        ("target", _POINTER),
        ("rows", _INTEGER),
        ("pixels", _INTEGER),
        ("source_strides", _INTEGER * 3),
        ("target_strides", _INTEGER * 3),
        ("atom", _INTEGER),
    ]


class Dense(Structure):
    """A convolution as rows times weights.

    Where there are few pixels, `rows` are gathered by a step of their own and units are groups of
    kernels, of `tile` pixels each; otherwise units are pixels, whose rows are gathered `tile` at a
    time. Or units are output rows, `tile` at a time, and rows those of the padded input, with
    `columns` pixels. Sums of `together` pixels are kept. `depth` is from row to row. `fused`:
    products are exact. Integer sums are multiplied by `truncate` before the stages, and halves go
    up with `truncate_up`, else to the even number.
    """

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("weights", Weights),
        ("rows", _POINTER),
        ("tile", _INTEGER),
        ("together", _INTEGER),
        ("depth", _INTEGER),
        ("columns", _INTEGER),
        ("fused", _INTEGER),
        ("truncate", _DOUBLE),
        ("truncate_up", _INTEGER),
    ]


class Depthwise(Structure):
    """Depthwise products, or without weights a pooling by its method.

    Units are output rows of all groups with `by_rows`, else groups. `fused` and `truncate` as those
    of a dense one.
    """

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("weights", Weights),
        ("method", _INTEGER),
        ("fused", _INTEGER),
        ("by_rows", _INTEGER),
        ("truncate", _DOUBLE),
        ("truncate_up", _INTEGER),
    ]


class Process(Structure):
    """Features through the stages.

    Units of the general kernel are groups with `by_groups`, else pixels; those of int8 surfaces.
    """

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("by_groups", _INTEGER),
    ]


class Reduction(Structure):
    """The greatest, or with the sign -1 the least channel of each pixel, as float16 side by side.

    `filled` elements are written, the last ones like that of the last pixel.
    """

    _fields_ = [
        ("dpu", Dpu),
        ("features", Features),
        ("sign", _INTEGER),
        ("target", _POINTER),
        ("pixels", _INTEGER),
        ("filled", _INTEGER),
    ]


class Way(Structure):
    """A way through memory: the last axis is the fastest; strides may be negative."""

    _fields_ = [
        ("base", _POINTER),
        ("counts", _INTEGER * AXES),
        ("strides", _INTEGER * AXES),
    ]


class Copy(Structure):
    """Units of `size` bytes from one way to the other, from a number on in each.

    With a mask, units are words of 8 bytes, and of each the bits stay that the mask's words have.
    """

    _fields_ = [
        ("source", Way),
        ("target", Way),
        ("size", _INTEGER),
        ("source_first", _INTEGER),
        ("target_first", _INTEGER),
        ("mask", _POINTER),
    ]


class Transposition(Structure):
    """Blocks of as many atoms, lanes turned into pixels, with zeros for what is missing.

    Units are blocks of `atoms`, at most sixteen, whose `target` is the first: atoms lie `lane`
    apart, every eight of them `line`. `size` is that of an element; 16 leaves atoms as they are.
    """

    _fields_ = [
        ("source", Way),
        ("pixels", _INTEGER),
        ("atoms", _INTEGER),
        ("target", Way),
        ("lane", _INTEGER),
        ("line", _INTEGER),
        ("size", _INTEGER),
    ]


STRUCTURES: tuple[type[ctypes.Structure], ...] = (
    Features, Window, Weights, Operand, Stage, Table, ShortWay, Dpu, Writer,
    Int8Dense, Int8Depthwise, Remap, Pool, Move,
    Dense, Depthwise, Process, Reduction,
    Way, Copy, Transposition,
)  # fmt: skip
"""In the order in which they need one another."""

POINTERS = {
    "features.base": "const uint8_t *",
    "features.odd": "const uint8_t *",
    "features.conversion": "const float *",
    "weights.base": "const uint8_t *",
    "weights.offsets": "const float *",
    "operand.values": "const void *",
    "operand.stored": "const uint8_t *",
    "table.entries": "const double *",
    "table.lines": "const float *",
    "dpu.after": "const struct dpu *",
    "short_way.results": "const int8_t *",
    "writer.base": "uint8_t *",
    "int8_dense.weights": "const int8_t *",
    "int8_dense.offsets": "const int16_t *",
    "int8_dense.rows": "int8_t *",
    "int8_depthwise.weights": "const int16_t *",
    "remap.values": "const int8_t *",
    "move.source": "const uint8_t *",
    "move.target": "uint8_t *",
    "dense.rows": "float *",
    "reduction.target": "uint8_t *",
    "way.base": "uint8_t *",
    "copy.mask": "const uint64_t *",
}
"""What addresses in a structure point to."""

ENUMERATIONS = {
    "element": Element,
    "operand_kind": OperandKind,
    "operation": KernelOperation,
    "follow": Follow,
    "method": Method,
}
