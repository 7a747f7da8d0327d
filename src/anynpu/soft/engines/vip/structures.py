"""What Python and this engine's C files share: structures, an enumeration, constants.

native/vip.h is written from these declarations (`header`), so a name, a number or a layout stands
here alone.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

from ....structures import Structure

_INTEGER, _REAL, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p

KERNELS = 4
"""Kernels that are computed together."""

PIXELS = 8
"""Pixels of a vector."""

TILE = 2 * PIXELS
"""Pixels that lie together, channel after channel, where each is for itself."""

QUAD = 4
"""Bytes that are multiplied and added together, where a processor can."""

LANES = 16
"""Channels that are computed together where each has a kernel of its own."""

HALF_KERNELS = 8
"""Kernels of float16 that are computed together."""

HALF_ROWS = 6
"""Rows of float16 that are."""

AT_ONCE = 8
"""Products of float16 that are summed before they are cut to float32."""

NOWHERE = -(1 << 31)
"""A value's place in a block that stands for none."""

CONSTANTS = {
    "KERNELS": KERNELS,
    "PIXELS": PIXELS,
    "TILE": TILE,
    "QUAD": QUAD,
    "LANES": LANES,
    "HALF_KERNELS": HALF_KERNELS,
    "HALF_ROWS": HALF_ROWS,
    "AT_ONCE": AT_ONCE,
    "NOWHERE": NOWHERE,
}


class Addition(IntEnum):
    """What becomes of a second operand: sums of 10 or of 16 significant bits, a product."""

    NOTHING = 0
    SHORT_SUM = 1
    LONG_SUM = 2
    PRODUCT = 3


class Unit(IntEnum):
    """What a stream processor's unit makes of its operands; three kinds ask a table."""

    UNIT_PRODUCT = 0
    UNIT_LIMITED_PRODUCT = 1
    UNIT_SUM = 2
    UNIT_DIFFERENCE = 3
    UNIT_SIZE = 4
    UNIT_CHOICE = 5
    UNIT_COPY = 6
    UNIT_ENTRY = 7
    UNIT_FRACTION = 8
    UNIT_STEP = 9


class Origin(IntEnum):
    """Where an operand comes from: entries of a queue are an element's, a row's, or every row's."""

    OF_NOTHING = 0
    OF_NUMBER = 1
    OF_INPUT = 2
    OF_UNIT = 3
    OF_EARLIER_ROW = 4
    OF_QUEUE = 5
    OF_QUEUE_BY_ROW = 6
    OF_QUEUE_AGAIN = 7


class Form(IntEnum):
    """How values are stored."""

    FORM_BYTES = 0
    FORM_HALVES = 1
    FORM_FLOATS = 2


class TableForm(IntEnum):
    """What a stream processor's table is of: the tangent is the unit's own."""

    TABLE_ANY = 0
    TABLE_ODD = 1
    TABLE_TANGENT = 2


class Planes(Structure):
    """Rows of pixels in memory.

    `row` and `plane` are bytes of a channel, and of a group of channels that lies alone. Addresses
    from `end` on are `size` lower, if that isn't 0.
    """

    _fields_ = [
        ("base", _POINTER),
        ("offset", _INTEGER),
        ("plane", _INTEGER),
        ("row", _INTEGER),
        ("group", _INTEGER),
        ("end", _INTEGER),
        ("size", _INTEGER),
    ]


class StreamTable(Structure):
    """1,024 values over a sign, an exponent's `exponent_bits` low bits and a mantissa's top bits.

    `low` and `high` are those of arguments that are too large, as stream/tables.py has them.
    """

    _fields_ = [
        ("values", _POINTER),
        ("form", _INTEGER),
        ("is_signed", _INTEGER),
        ("exponent_bits", _INTEGER),
        ("low", _REAL),
        ("high", _REAL),
    ]


class StreamOperand(Structure):
    """What a unit reads: of `origin` the `number`th, or the number `value`.

    Of an earlier row it is what the unit made `back` rows ago, at its place of the `ring`; the
    first rows take what `queue` (0 or 1; -1 for none) held before, or else `value`.
    """

    _fields_ = [
        ("origin", _INTEGER),
        ("number", _INTEGER),
        ("value", _REAL),
        ("back", _INTEGER),
        ("ring", _INTEGER),
        ("queue", _INTEGER),
    ]


class StreamNode(Structure):
    """A unit's work; `initial` is its result where a queue that is empty would give an operand.

    `ring` is its place among those whose results later rows read, -1 for others.
    """

    _fields_ = [
        ("unit", _INTEGER),
        ("a", StreamOperand),
        ("b", StreamOperand),
        ("c", StreamOperand),
        ("table", _POINTER),
        ("initial", _REAL),
        ("ring", _INTEGER),
    ]


class StreamProgram(Structure):
    """What is made of an element, each node after those whose results it reads.

    `low` and `high` limit products; whole numbers get `zero_point`, halves of them go away from
    zero with `halves_go_away`, else to even numbers.
    """

    _fields_ = [
        ("nodes", _POINTER),
        ("count", _INTEGER),
        ("low", _REAL),
        ("high", _REAL),
        ("output", StreamOperand),
        ("zero_point", _INTEGER),
        ("halves_go_away", _INTEGER),
    ]


class StreamInput(Structure):
    """Values as they are stored; bytes are changed by `flip` first, then `addend` is added."""

    _fields_ = [
        ("planes", Planes),
        ("form", _INTEGER),
        ("flip", _INTEGER),
        ("addend", _INTEGER),
    ]


class StreamQueue(Structure):
    """A queue around a program: what it `held`, NULL for nothing, and where what is new goes.

    `written` takes the values of `writer`, `sums` a sum or maximum of each row's values of
    `summand`.
    """

    _fields_ = [
        ("held", _POINTER),
        ("written", _POINTER),
        ("writer", StreamOperand),
        ("sums", _POINTER),
        ("summand", StreamOperand),
    ]


class Stream(Structure):
    """A stream processor's operation: a program for each element of `rows` rows.

    A row is `lines` lines of `width` elements; a channel has `height` lines. Every `stride`-th line
    and pixel is stored. `ring_rows` rows of `rings` units' results are kept, 0 where none is read
    later; then there is one unit of work, otherwise a row is one. `block` elements are computed at
    a time.
    """

    _fields_ = [
        ("program", _POINTER),
        ("rows", _INTEGER),
        ("lines", _INTEGER),
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("inputs", _INTEGER),
        ("first", StreamInput),
        ("second", StreamInput),
        ("target", Planes),
        ("form", _INTEGER),
        ("stride", _INTEGER),
        ("queue_0", StreamQueue),
        ("queue_1", StreamQueue),
        ("has_maxima", _INTEGER),
        ("ring_rows", _INTEGER),
        ("rings", _INTEGER),
        ("block", _INTEGER),
    ]


class ValueTable(Structure):
    """1,024 entries of a function by sign, exponent and the mantissa's top bits, linear in between.

    Arguments of one sign have `exponents` powers of two, the upper half of them first. `middle` is
    the value at zero; `positive`, `negative` and `zero` are the slopes at the ends and there.
    """

    _fields_ = [
        ("values", _POINTER),
        ("is_signed", _INTEGER),
        ("exponents", _INTEGER),
        ("middle", _REAL),
        ("positive", _REAL),
        ("negative", _REAL),
        ("zero", _REAL),
    ]


class Convolution(Structure):
    """Sums of products, and what makes bytes of them.

    `border` is less 128; `flip` is what bytes are changed by first. The `final` image is the
    result's; `out` is before a maximum of `pool_size`, 0 for none. `weights` of a dense kernel are
    quads of channels' bytes less 128, which count from the kernel's `weight_zero_points`; those of
    a depthwise one are as native/vip_depthwise.h says. `quads_bias` is the bias where quads are
    multiplied by bytes without a sign. `taps` say where each pair of a dense kernel is in the
    packed image. `negative` is NULL where negative sums are scaled as others. `has_relu` says that
    what was negative is zero, whatever `low` is. `fits_float` says
    that sums scaled in float32 give the same bytes, `least` to `most`. `operands` are what each
    byte of the second operand adds or multiplies. Scaled sums go through `table`, NULL for none,
    before `low` and `high`; `program`, NULL for none, makes bytes of sums instead of all that.
    There are a bias and scales for whole `LANES` of channels. A unit of work is `rows` of the final
    image for `kernel_blocks` blocks of `KERNELS` kernels, or as many depthwise ones.
    """

    _fields_ = [
        ("source", Planes),
        ("target", Planes),
        ("second", Planes),
        ("channels", _INTEGER),
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("border", _INTEGER),
        ("flip", _INTEGER),
        ("top", _INTEGER),
        ("left", _INTEGER),
        ("kernel_height", _INTEGER),
        ("kernel_width", _INTEGER),
        ("stride", _INTEGER),
        ("out_channels", _INTEGER),
        ("out_height", _INTEGER),
        ("out_width", _INTEGER),
        ("pool_size", _INTEGER),
        ("pool_stride", _INTEGER),
        ("pool_top", _INTEGER),
        ("pool_left", _INTEGER),
        ("final_height", _INTEGER),
        ("final_width", _INTEGER),
        ("is_depthwise", _INTEGER),
        ("weights", _POINTER),
        ("weight_zero_points", _POINTER),
        ("taps", _POINTER),
        ("tap_count", _INTEGER),
        ("bias", _POINTER),
        ("quads_bias", _POINTER),
        ("scale", _POINTER),
        ("negative", _POINTER),
        ("low", _REAL),
        ("high", _REAL),
        ("has_relu", _INTEGER),
        ("fits_float", _INTEGER),
        ("least", _INTEGER),
        ("most", _INTEGER),
        ("addition", _INTEGER),
        ("operands", _POINTER),
        ("constant", _REAL),
        ("zero_point", _INTEGER),
        ("output_flip", _INTEGER),
        ("shuffled_rows", _INTEGER),
        ("shuffled_pixels", _INTEGER),
        ("rows", _INTEGER),
        ("row_blocks", _INTEGER),
        ("kernel_blocks", _INTEGER),
        ("packed_rows", _INTEGER),
        ("packed_width", _INTEGER),
        ("table", _POINTER),
        ("program", _POINTER),
    ]


class ConvolutionPart(Structure):
    """A convolution of some kernels, and the first of all parts' units of work that is its own."""

    _fields_ = [("convolution", _POINTER), ("first", _INTEGER)]


class ConvolutionParts(Structure):
    """`count` convolutions, and `units` of work of all of them together."""

    _fields_ = [("parts", _POINTER), ("count", _INTEGER), ("units", _INTEGER)]


class Places(Structure):
    """A byte of a space for each value: value i's is `blocks[i / size] + inside[i % size]`.

    There is none where `inside` is NOWHERE. Of each `run` of them, 1 if there are no longer ones,
    one is `step` behind the other. With a `turn`, places from `end` on are as many bytes less;
    `inside` is `least` to `most`.
    """

    _fields_ = [
        ("blocks", _POINTER),
        ("inside", _POINTER),
        ("size", _INTEGER),
        ("run", _INTEGER),
        ("step", _INTEGER),
        ("least", _INTEGER),
        ("most", _INTEGER),
        ("end", _INTEGER),
        ("turn", _INTEGER),
    ]


class Move(Structure):
    """Bytes from places to places, through a table of 256 if there is one.

    A source's place that is none gives `border`, which has no table. `item` bytes lie at each
    place, 1 with a table;
    `unit` places are a unit of work.
    """

    _fields_ = [
        ("source", _POINTER),
        ("target", _POINTER),
        ("origins", Places),
        ("places", Places),
        ("table", _POINTER),
        ("border", _INTEGER),
        ("item", _INTEGER),
        ("count", _INTEGER),
        ("unit", _INTEGER),
    ]


class HalfWindows(Structure):
    """Windows of a float16 image as rows; what lies beyond the image is zero.

    `plane` and `row` are bytes of a channel and of its rows, whose pixels lie side by side. Windows
    of `kernel_height` and `kernel_width` are `step_y` and `step_x` apart, `columns` beside each
    other, the first one beginning `top` and `left` before the image. `target_row` bytes lie from
    one of the `count` rows to the next, `unit` rows are a unit of work.
    """

    _fields_ = [
        ("source", _POINTER),
        ("plane", _INTEGER),
        ("row", _INTEGER),
        ("channels", _INTEGER),
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("kernel_height", _INTEGER),
        ("kernel_width", _INTEGER),
        ("step_y", _INTEGER),
        ("step_x", _INTEGER),
        ("top", _INTEGER),
        ("left", _INTEGER),
        ("columns", _INTEGER),
        ("target", _POINTER),
        ("target_row", _INTEGER),
        ("count", _INTEGER),
        ("unit", _INTEGER),
    ]


class HalfProducts(Structure):
    """Products of `count` float16 rows of `length` and as many kernels' values, with a bias.

    `weights` are (blocks of 8 kernels, values up to a multiple of 8, 8), of normal numbers; there
    are a bias and weights for whole blocks. `together` sums of 8 products are summed before they
    are added. Results, negative ones as zero with `cuts`, are `by_kernel` and `by_row` bytes apart.
    A unit of work is some rows with `blocks` blocks of kernels.
    """

    _fields_ = [
        ("source", _POINTER),
        ("source_row", _INTEGER),
        ("count", _INTEGER),
        ("length", _INTEGER),
        ("weights", _POINTER),
        ("bias", _POINTER),
        ("kernels", _INTEGER),
        ("together", _INTEGER),
        ("cuts", _INTEGER),
        ("target", _POINTER),
        ("by_kernel", _INTEGER),
        ("by_row", _INTEGER),
        ("blocks", _INTEGER),
    ]


class Lines(Structure):
    """Rows of an image: bytes from one plane, and from one row, to the next; 0 for one."""

    _fields_ = [("first", _POINTER), ("plane", _INTEGER), ("row", _INTEGER)]


class RowFactors(Structure):
    """Bytes of each of `rows` rows less a zero point, by the row's factor, and its constant.

    `factors` and `constants` are float32 at any address. `unit` rows are a unit of work.
    """

    _fields_ = [
        ("source", Lines),
        ("target", Lines),
        ("rows", _INTEGER),
        ("pixels", _INTEGER),
        ("zero_point", _INTEGER),
        ("factors", _POINTER),
        ("constants", _POINTER),
        ("unit", _INTEGER),
    ]


class ByteProducts(Structure):
    """Products of two images' bytes, each less its zero point, but without that of both of these.

    Then `scale` and `constant`. With `other_is_one` a line of the `other` image is one pixel. There
    are `count` lines, `rows` of a plane, of which `unit` are a unit of work.
    """

    _fields_ = [
        ("source", Lines),
        ("other", Lines),
        ("target", Lines),
        ("rows", _INTEGER),
        ("count", _INTEGER),
        ("pixels", _INTEGER),
        ("zero_point", _INTEGER),
        ("other_zero_point", _INTEGER),
        ("other_is_one", _INTEGER),
        ("scale", _REAL),
        ("constant", _REAL),
        ("unit", _INTEGER),
    ]


class WindowSums(Structure):
    """Sums of bytes over windows side by side, by `scale`, and `constant`.

    A line of the source is the first row of a line of windows of `height` rows, `next_row` bytes
    apart, and `width` pixels; sums begin with `addend`. There are `count` lines of `pixels`
    windows, `rows` of a plane, of which `unit` are a unit of work.
    """

    _fields_ = [
        ("source", Lines),
        ("target", Lines),
        ("rows", _INTEGER),
        ("count", _INTEGER),
        ("pixels", _INTEGER),
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("next_row", _INTEGER),
        ("addend", _INTEGER),
        ("scale", _REAL),
        ("constant", _REAL),
        ("unit", _INTEGER),
    ]


class LayerRows(Structure):
    """Bytes of a line less their mean over their deviation, by each pixel's scale, and its bias.

    Then `factor` and `constant`. `sum_beyond` and `squares_beyond` are of what lies beyond a line's
    end, `part` is one over the number of pixels. There are `count` lines, `rows` of a plane, of
    which `unit` are a unit of work.
    """

    _fields_ = [
        ("source", Lines),
        ("target", Lines),
        ("rows", _INTEGER),
        ("count", _INTEGER),
        ("pixels", _INTEGER),
        ("scales", _POINTER),
        ("bias", _POINTER),
        ("sum_beyond", _INTEGER),
        ("squares_beyond", _INTEGER),
        ("part", _REAL),
        ("epsilon", _REAL),
        ("factor", _REAL),
        ("constant", _REAL),
        ("unit", _INTEGER),
    ]


class SoftmaxRows(Structure):
    """Softmax over a line's bytes, to float16, or by `factor` and `constant` to bytes.

    `powers` are of each difference to the greatest byte. There are `count` lines, `rows` of a
    plane, of which `unit` are a unit of work.
    """

    _fields_ = [
        ("source", Lines),
        ("target", Lines),
        ("rows", _INTEGER),
        ("count", _INTEGER),
        ("pixels", _INTEGER),
        ("powers", _POINTER),
        ("factor", _REAL),
        ("constant", _REAL),
        ("is_half", _INTEGER),
        ("unit", _INTEGER),
    ]


class MatrixProduct(Structure):
    """Bytes of kernels in memory by an image's, each less its zero point.

    A kernel's `depth` bytes are `weight_step` apart, kernels `kernel_step`. Sums by `scale`, within
    `low` and `high`, get `zero_point`.
    """

    _fields_ = [
        ("kernels", _POINTER),
        ("kernel_step", _INTEGER),
        ("weight_step", _INTEGER),
        ("source", Planes),
        ("target", Planes),
        ("depth", _INTEGER),
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("kernel_zero_point", _INTEGER),
        ("input_zero_point", _INTEGER),
        ("zero_point", _INTEGER),
        ("scale", _REAL),
        ("low", _REAL),
        ("high", _REAL),
    ]


class CodedStream(Structure):
    """A compressed stream of coefficients, of which `wanted` values are decoded.

    `lengths` and `runs` are bytes, a symbol each; without runs `run_count` is 0. `end` is set to
    the bit after the last that was read. With `is_wide` values have 16 bits, the lower byte first.
    """

    _fields_ = [
        ("bytes", _POINTER),
        ("size", _INTEGER),
        ("bits", _INTEGER),
        ("lengths", ctypes.c_char_p),
        ("runs", ctypes.c_char_p),
        ("run_count", _INTEGER),
        ("average", _INTEGER),
        ("is_wide", _INTEGER),
        ("values", _POINTER),
        ("wanted", _INTEGER),
        ("end", _INTEGER),
    ]


class CoreValues(Structure):
    """One core's values, and how they become kernels.

    `kernels` of each superblock; `channels` of each kernel, superblock by superblock; `weights` of
    a kernel, of which `block` lie side by side; `zero_points` of each channel, which bytes of
    `target` count from. With `is_wide` it has weights of 16 bits, the values as they are.
    """

    _fields_ = [
        ("superblocks", _INTEGER),
        ("kernels", _POINTER),
        ("channels", _POINTER),
        ("weights", _INTEGER),
        ("block", _INTEGER),
        ("has_zero_points", _INTEGER),
        ("is_wide", _INTEGER),
        ("zero_points", _POINTER),
        ("values", _POINTER),
        ("target", _POINTER),
    ]


STRUCTURES = (
    Planes,
    StreamTable,
    StreamOperand,
    StreamNode,
    StreamProgram,
    StreamInput,
    StreamQueue,
    Stream,
    ValueTable,
    Convolution,
    ConvolutionPart,
    ConvolutionParts,
    Places,
    Move,
    HalfWindows,
    HalfProducts,
    Lines,
    RowFactors,
    ByteProducts,
    WindowSums,
    LayerRows,
    SoftmaxRows,
    MatrixProduct,
    CodedStream,
    CoreValues,
)
ENUMERATIONS = {
    "addition": Addition,
    "unit": Unit,
    "origin": Origin,
    "form_of_values": Form,
    "table_form": TableForm,
}

POINTERS = {
    "planes.base": "uint8_t *",
    "convolution.weights": "const uint8_t *",
    "convolution.weight_zero_points": "const int16_t *",
    "convolution.taps": "const int32_t *",
    "convolution.bias": "const int32_t *",
    "convolution.quads_bias": "const int32_t *",
    "convolution.scale": "const double *",
    "convolution.negative": "const double *",
    "convolution.operands": "const float *",
    "convolution_part.convolution": "const struct convolution *",
    "convolution_parts.parts": "const struct convolution_part *",
    "convolution.table": "const struct value_table *",
    "value_table.values": "const double *",
    "convolution.program": "const struct stream_program *",
    "stream_table.values": "const float *",
    "stream_node.table": "const struct stream_table *",
    "stream_program.nodes": "const struct stream_node *",
    "stream_queue.held": "const float *",
    "stream_queue.written": "float *",
    "stream_queue.sums": "float *",
    "stream.program": "const struct stream_program *",
    "move.source": "const uint8_t *",
    "move.target": "uint8_t *",
    "places.blocks": "const int32_t *",
    "places.inside": "const int32_t *",
    "move.table": "const uint8_t *",
    "coded_stream.bytes": "const uint8_t *",
    "coded_stream.lengths": "const uint8_t *",
    "coded_stream.runs": "const uint8_t *",
    "coded_stream.values": "int16_t *",
    "core_values.kernels": "const int32_t *",
    "core_values.channels": "const int32_t *",
    "core_values.zero_points": "int32_t *",
    "core_values.values": "const int16_t *",
    "half_windows.source": "const uint8_t *",
    "half_windows.target": "uint8_t *",
    "half_products.source": "const uint8_t *",
    "half_products.weights": "const uint16_t *",
    "half_products.bias": "const float *",
    "half_products.target": "uint8_t *",
    "lines.first": "uint8_t *",
    "row_factors.factors": "const uint8_t *",
    "row_factors.constants": "const uint8_t *",
    "layer_rows.scales": "const float *",
    "layer_rows.bias": "const float *",
    "softmax_rows.powers": "const float *",
    "matrix_product.kernels": "const uint8_t *",
}
"""What addresses in a structure point to."""
