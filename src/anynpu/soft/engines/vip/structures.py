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

QUAD = 4
"""Bytes that are multiplied and added together, where a processor can."""

LANES = 16
"""Channels that are computed together where each has a kernel of its own."""

NOWHERE = -(1 << 31)
"""A value's place in a block that stands for none."""

CONSTANTS = {
    "KERNELS": KERNELS,
    "PIXELS": PIXELS,
    "QUAD": QUAD,
    "LANES": LANES,
    "NOWHERE": NOWHERE,
}


class Addition(IntEnum):
    """What becomes of a second operand: sums of 10 or of 16 significant bits, a product."""

    NOTHING = 0
    SHORT_SUM = 1
    LONG_SUM = 2
    PRODUCT = 3


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


class Convolution(Structure):
    """Sums of products, and what makes bytes of them.

    `border` is less 128; `flip` is what bytes are changed by first. The `final` image is the
    result's; `out` is before a maximum of `pool_size`, 0 for none. `weights` of a dense kernel are
    quads of channels' bytes less 128, which count from the kernel's `weight_zero_points`; those of
    a depthwise one are as native/vip_depthwise.h says. `quads_bias` is the bias where quads are
    multiplied by bytes without a sign. `taps` say where each pair of a dense kernel is in the
    packed image. `negative` is NULL where negative sums are scaled as others. `fits_float` says
    that sums scaled in float32 give the same bytes, `least` to `most`. `operands` are what each
    byte of the second operand adds or multiplies. There are a bias and scales for whole `LANES` of
    channels. A unit of work is `rows` of the final image for `kernel_blocks` blocks of `KERNELS`
    kernels, or as many depthwise ones.
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
        ("fits_float", _INTEGER),
        ("least", _INTEGER),
        ("most", _INTEGER),
        ("addition", _INTEGER),
        ("operands", _POINTER),
        ("constant", _REAL),
        ("zero_point", _INTEGER),
        ("output_flip", _INTEGER),
        ("shuffles_depth", _INTEGER),
        ("rows", _INTEGER),
        ("row_blocks", _INTEGER),
        ("kernel_blocks", _INTEGER),
        ("packed_rows", _INTEGER),
        ("packed_width", _INTEGER),
    ]


class Places(Structure):
    """A byte of a space for each value: value i's is `blocks[i / size] + inside[i % size]`.

    There is none where `inside` is NOWHERE.
    """

    _fields_ = [("blocks", _POINTER), ("inside", _POINTER), ("size", _INTEGER)]


class Move(Structure):
    """Bytes from places to places, through a table of 256 if there is one.

    A source's place that is none gives `border`. `item` bytes lie at each place, 1 with a table;
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
    a kernel, of which `block` lie side by side; `zero_points` of each channel. With `is_wide`
    values are weights as they are.
    """

    _fields_ = [
        ("superblocks", _INTEGER),
        ("kernels", _POINTER),
        ("channels", _POINTER),
        ("weights", _INTEGER),
        ("block", _INTEGER),
        ("has_zero_points", _INTEGER),
        ("is_signed", _INTEGER),
        ("is_wide", _INTEGER),
        ("zero_points", _POINTER),
        ("values", _POINTER),
        ("target", _POINTER),
    ]


STRUCTURES = (Planes, Convolution, Places, Move, CodedStream, CoreValues)
ENUMERATIONS = {"addition": Addition}

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
    "core_values.target": "int16_t *",
}
"""What addresses in a structure point to."""
