"""Fill `rknn_tensor_attr` from a program's ports: the general, the native and the NHWC view.

Sizes with strides are those that the vendor's runtime answers for compiled files: a feature map
takes whole channel blocks of whole groups of pixels, whichever layout is asked for.
"""

from __future__ import annotations

import ctypes
import math

from ...rknn.abi import (
    MAX_NAME_LEN,
    QuantizationType,
    TensorAttr,
    TensorFormat,
    TensorType,
)
from ...soc import Family, Soc
from ...tensor import DType, Layout
from ..engines import Port

PACKED_CHANNELS = (1, 3, 4)
"""Channel counts whose native input layout is NHWC; others are NC1HWC2."""

_GROUP_BYTES = 64
"""The runtime converts this many bytes of a channel block at a time."""
_SURFACE_PIXELS = 4
"""Surfaces, one channel block of all pixels, begin at multiples of this many pixels."""


def is_feature(port: Port) -> bool:
    """Whether the NPU holds a tensor as a feature map, in channel blocks."""
    if port.native is not None:
        return port.native.layout is Layout.NC1HWC2
    return len(port.shape) == 4 and (port.dtype is DType.FLOAT16 or port.quantization is not None)


def native_input_format(port: Port) -> TensorFormat:
    """The layout in which the NPU reads an input."""
    if port.native is not None:
        return TensorFormat[port.native.layout.name]
    if len(port.shape) != 4:
        return TensorFormat.UNDEFINED
    if not is_feature(port):
        return TensorFormat.NCHW
    is_packed = port.shape[1] in PACKED_CHANNELS
    return TensorFormat.NHWC if is_packed else TensorFormat.NC1HWC2


def native_input_shape(port: Port, soc: Soc) -> tuple[int, ...]:
    """An input's sizes in its native layout, rows not padded."""
    if port.native is not None:
        return port.native.shape
    fmt = native_input_format(port)
    if fmt is TensorFormat.NHWC:
        n, c, h, w = port.shape
        return n, h, w, c
    return blocked_shape(port, soc) if fmt is TensorFormat.NC1HWC2 else port.shape


def input_width_stride(port: Port, soc: Soc) -> int:
    """Pixels from one row of a four-dimensional input to the next.

    Rows are padded where the NPU reads packed pixels; four float16 channels are a whole channel
    block on RK3566 and RK3568, and aren't.
    """
    _, channels, _, width = port.shape
    is_packed = native_input_format(port) is TensorFormat.NHWC
    if is_packed and channels != soc.channel_block(port.dtype):
        return soc.width_stride(width, port.dtype)
    return width


def general_input(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_INPUT_ATTR: images as NHWC whatever the model's own order, with a row stride."""
    if len(port.shape) == 4:
        n, c, h, w = port.shape
        _fill(attr, port, (n, h, w, c), TensorFormat.NHWC)
        attr.w_stride = input_width_stride(port, soc)
    else:
        _fill(attr, port, port.shape, TensorFormat.UNDEFINED)
    attr.size_with_stride = _input_size_with_stride(port, soc)


def general_output(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_OUTPUT_ATTR: images as NCHW; size_with_stride has all channels of whole blocks."""
    if len(port.shape) != 4:
        _fill(attr, port, port.shape, TensorFormat.UNDEFINED)
        return
    _fill(attr, port, port.shape, TensorFormat.NCHW)
    n, c, h, w = port.shape
    channels = _round_up(c, soc.channel_block(port.dtype))
    attr.size_with_stride = port.dtype.size_of(n * channels * h * soc.width_stride(w, port.dtype))


def model_order(attr: TensorAttr, port: Port) -> None:
    """What a custom operator gets: the model's own order, images NCHW, nothing padded."""
    is_image = len(port.shape) == 4
    _fill(attr, port, port.shape, TensorFormat.NCHW if is_image else TensorFormat.UNDEFINED)
    if port.quantization is None:
        attr.qnt_type = QuantizationType.NONE


def native_input(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_NATIVE_INPUT_ATTR: as the NPU reads the input."""
    fmt = native_input_format(port)
    _fill(attr, port, native_input_shape(port, soc), fmt)
    if len(port.shape) != 4:
        return
    attr.w_stride = input_width_stride(port, soc)
    if fmt is TensorFormat.NHWC:
        n, c, h, _ = port.shape
        attr.size_with_stride = port.dtype.size_of(n * h * attr.w_stride * c)


def native_output(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_NATIVE_OUTPUT_ATTR: as the NPU writes the output.

    Where surfaces have pixels to spare, their height is 1 and the width is that of a surface.
    """
    shape = native_output_shape(port, soc)
    if is_feature(port):
        _fill(attr, port, shape, TensorFormat.NC1HWC2)
    elif port.native is not None:
        _fill(attr, port, shape, TensorFormat[port.native.layout.name])
    else:
        is_image = len(port.shape) == 4
        _fill(attr, port, shape, TensorFormat.NCHW if is_image else TensorFormat.UNDEFINED)


def nhwc_input(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR: NHWC for 1, 3 and 4 channels, else as the NPU reads it.

    That is measured where the runtime is librknnrt. RV1103 and RV1106 have another one, of which
    nothing but the RKNN C API reference is known: images are NHWC.
    """
    if soc.family is Family.RV1106:
        general_input(attr, port, soc)
    else:
        native_input(attr, port, soc)


def nhwc_output(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR.

    Chips whose channel blocks have 8 bytes write whole ones.
    """
    if len(port.shape) != 4:
        _fill(attr, port, port.shape, TensorFormat.UNDEFINED)
    else:
        n, _, h, w = port.shape
        _fill(attr, port, (n, h, w, nhwc_output_channels(port, soc)), TensorFormat.NHWC)
    attr.size_with_stride = _round_up(attr.size, soc.channel_block(port.dtype))


def nhwc_output_channels(port: Port, soc: Soc) -> int:
    """Channels of a pixel in the NHWC form of a four-dimensional output."""
    channels = port.shape[1]
    if not soc.has_small_blocks or not is_feature(port):
        return channels
    return _round_up(channels, soc.channel_block(port.dtype))


def blocked_shape(port: Port, soc: Soc) -> tuple[int, ...]:
    """The sizes of a feature map in channel blocks, pixels not padded: (N, C1, H, W, C2)."""
    if port.native is not None and port.native.layout is Layout.NC1HWC2:
        return port.native.shape
    n, c, h, w = port.shape
    return n, soc.channel_blocks(c, port.dtype), h, w, soc.channel_block(port.dtype)


def native_output_shape(port: Port, soc: Soc) -> tuple[int, ...]:
    """The sizes of an output as the NPU writes it.

    (N, C1, H, W, C2) for a feature map, or (N, C1, 1, S, C2) where S pixels hold the H * W.
    """
    if not is_feature(port):
        return port.native.shape if port.native is not None else port.shape
    n, c1, h, w, c2 = blocked_shape(port, soc)
    pixels = surface_pixels(h * w)
    return (n, c1, h, w, c2) if pixels == h * w else (n, c1, 1, pixels, c2)


def whole_blocks(port: Port, soc: Soc) -> tuple[int, int]:
    """How many channels of a feature map fill blocks, and how many pixels groups of 64 bytes."""
    block, group = soc.channel_block(port.dtype), _GROUP_BYTES // soc.atom_bytes
    pixels = math.prod(port.shape[2:4])
    return port.shape[1] // block * block, pixels // group * group


def surface_pixels(pixels: int) -> int:
    """Pixels from one surface of a feature map to the next."""
    return _round_up(pixels, _SURFACE_PIXELS) if pixels > 1 else 1


def _input_size_with_stride(port: Port, soc: Soc) -> int:
    """Bytes of an input with the pixels that pad rows.

    The vendor's runtime 1.5.2 answers more for other than 1, 3 and 4 channels, whole channel blocks
    of whole groups of pixels; 2.3.0 and 2.3.2 don't, as public logs show.
    """
    if len(port.shape) != 4 or port.shape[1] not in PACKED_CHANNELS:
        return port.dtype.size_of(port.elements)
    n, c, h, w = port.shape
    return port.dtype.size_of(n * h * soc.width_stride(w, port.dtype) * c)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _fill(attr: TensorAttr, port: Port, shape: tuple[int, ...], fmt: TensorFormat) -> None:
    """What all views have in common. Dimensions beyond n_dims stay what they are, as on a board."""
    quantization = port.quantization
    elements = math.prod(shape)
    attr.n_dims = len(shape)
    attr.dims[: len(shape)] = shape
    # Assigning a shorter text leaves what is after its end; a board clears that.
    ctypes.memset(ctypes.addressof(attr) + TensorAttr.name.offset, 0, MAX_NAME_LEN)
    attr.name = port.name.encode()[: MAX_NAME_LEN - 1]
    attr.n_elems = elements
    attr.size = attr.size_with_stride = port.dtype.size_of(elements)
    attr.fmt = fmt
    attr.type = TensorType[port.dtype.name]
    # What is never quantised has a scale of 1, as librknnrt 1.5.2 says; of a type that may be,
    # nothing else tells that the numbers are themselves.
    is_itself = quantization is None and port.dtype.is_quantizable
    attr.qnt_type = QuantizationType.NONE if is_itself else QuantizationType.AFFINE_ASYMMETRIC
    attr.fl = 0
    attr.zp = quantization.zero_point if quantization else 0
    attr.scale = quantization.scale if quantization else 1.0
    attr.w_stride = attr.h_stride = 0
