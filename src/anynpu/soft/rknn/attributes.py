"""Fill `rknn_tensor_attr` from a program's ports: the general, the native and the NHWC view."""

from __future__ import annotations

import math

from ...rknn.abi import (
    MAX_DIMS,
    MAX_NAME_LEN,
    QuantizationType,
    TensorAttr,
    TensorFormat,
    TensorType,
)
from ...soc import Soc
from ...tensor import DType, Layout
from ..engines import Port

_PACKED_CHANNELS = (1, 3, 4)
"""Channel counts whose native input layout is NHWC; others are NC1HWC2."""


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
    is_packed = port.shape[1] in _PACKED_CHANNELS
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


def general_input(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_INPUT_ATTR: images as NHWC whatever the model's own order, with a row stride."""
    if len(port.shape) == 4:
        _fill_nhwc_input(attr, port, soc)
    else:
        _fill(attr, port, port.shape, TensorFormat.UNDEFINED)


def general_output(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_OUTPUT_ATTR: images as NCHW; size_with_stride holds any layout of them."""
    if len(port.shape) != 4:
        _fill(attr, port, port.shape, TensorFormat.UNDEFINED)
        return
    _fill(attr, port, port.shape, TensorFormat.NCHW)
    n, c, h, w = port.shape
    c2 = soc.channel_block(port.dtype)
    blocked = n * math.ceil(c / c2) * c2 * h * w
    if port.native is not None:
        blocked = max(blocked, math.prod(port.native.shape))
    rows = n * c * h * soc.width_stride(w, port.dtype)
    attr.size_with_stride = port.dtype.size_of(max(blocked, rows))


def model_order(attr: TensorAttr, port: Port) -> None:
    """What a custom operator gets: the model's own order, images NCHW, nothing padded."""
    is_image = len(port.shape) == 4
    _fill(attr, port, port.shape, TensorFormat.NCHW if is_image else TensorFormat.UNDEFINED)


def native_input(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_NATIVE_INPUT_ATTR: as the NPU reads the input."""
    fmt = native_input_format(port)
    if fmt is TensorFormat.NHWC:
        _fill_nhwc_input(attr, port, soc)
        return
    _fill(attr, port, native_input_shape(port, soc), fmt)
    if fmt is TensorFormat.NC1HWC2:
        attr.w_stride = port.shape[3]


def native_output(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_NATIVE_OUTPUT_ATTR: as the NPU writes the output."""
    if port.native is not None:
        _fill(attr, port, port.native.shape, TensorFormat[port.native.layout.name])
    elif is_feature(port):
        _fill(attr, port, blocked_shape(port, soc), TensorFormat.NC1HWC2)
    else:
        is_image = len(port.shape) == 4
        _fill(attr, port, port.shape, TensorFormat.NCHW if is_image else TensorFormat.UNDEFINED)


def nhwc_input(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR: NHWC for any number of channels."""
    general_input(attr, port, soc)


def nhwc_output(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR."""
    if len(port.shape) != 4:
        _fill(attr, port, port.shape, TensorFormat.UNDEFINED)
        return
    n, c, h, w = port.shape
    _fill(attr, port, (n, h, w, c), TensorFormat.NHWC)


def blocked_shape(port: Port, soc: Soc) -> tuple[int, ...]:
    """The sizes of a feature map in channel blocks: (N, C1, H, W, C2)."""
    if port.native is not None and port.native.layout is Layout.NC1HWC2:
        return port.native.shape
    n, c, h, w = port.shape
    return n, soc.channel_blocks(c, port.dtype), h, w, soc.channel_block(port.dtype)


def _fill_nhwc_input(attr: TensorAttr, port: Port, soc: Soc) -> None:
    n, c, h, w = port.shape
    _fill(attr, port, (n, h, w, c), TensorFormat.NHWC)
    attr.w_stride = soc.width_stride(w, port.dtype)
    attr.size_with_stride = port.dtype.size_of(n * h * attr.w_stride * c)


def _fill(attr: TensorAttr, port: Port, shape: tuple[int, ...], fmt: TensorFormat) -> None:
    quantization = port.quantization
    elements = math.prod(shape)
    attr.n_dims = len(shape)
    attr.dims[:] = shape + (0,) * (MAX_DIMS - len(shape))
    attr.name = port.name.encode()[: MAX_NAME_LEN - 1]
    attr.n_elems = elements
    attr.size = attr.size_with_stride = port.dtype.size_of(elements)
    attr.fmt = fmt
    attr.type = TensorType[port.dtype.name]
    affine = quantization is not None or port.dtype is DType.FLOAT16
    attr.qnt_type = QuantizationType.AFFINE_ASYMMETRIC if affine else QuantizationType.NONE
    attr.fl = 0
    attr.zp = quantization.zero_point if quantization else 0
    attr.scale = quantization.scale if quantization else 1.0
    attr.w_stride = attr.pass_through = attr.h_stride = 0
