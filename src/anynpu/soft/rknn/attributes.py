"""Fill `rknn_tensor_attr` from a program's ports, by the rules of the general API."""

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
from ...tensor import DType
from ..engines import Port


def general_input(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_INPUT_ATTR: images as NHWC whatever the model's own order, with a row stride."""
    if len(port.shape) != 4:
        _fill(attr, port, port.shape, TensorFormat.UNDEFINED)
        return
    n, c, h, w = port.shape
    _fill(attr, port, (n, h, w, c), TensorFormat.NHWC)
    attr.w_stride = soc.width_stride(w, port.dtype)
    attr.size_with_stride = port.dtype.size_of(n * h * attr.w_stride * c)


def general_output(attr: TensorAttr, port: Port, soc: Soc) -> None:
    """RKNN_QUERY_OUTPUT_ATTR: images as NCHW; size_with_stride holds any layout of them."""
    if len(port.shape) != 4:
        _fill(attr, port, port.shape, TensorFormat.UNDEFINED)
        return
    _fill(attr, port, port.shape, TensorFormat.NCHW)
    n, c, h, w = port.shape
    c2 = soc.channel_block(port.dtype)
    blocked = n * math.ceil(c / c2) * c2 * h * w
    rows = n * c * h * soc.width_stride(w, port.dtype)
    attr.size_with_stride = port.dtype.size_of(max(blocked, rows))


def _fill(attr: TensorAttr, port: Port, shape: tuple[int, ...], fmt: TensorFormat) -> None:
    quantization = port.quantization
    attr.n_dims = len(shape)
    attr.dims[:] = shape + (0,) * (MAX_DIMS - len(shape))
    attr.name = port.name.encode()[: MAX_NAME_LEN - 1]
    attr.n_elems = port.elements
    attr.size = attr.size_with_stride = port.dtype.size_of(port.elements)
    attr.fmt = fmt
    attr.type = TensorType[port.dtype.name]
    affine = quantization is not None or port.dtype is DType.FLOAT16
    attr.qnt_type = QuantizationType.AFFINE_ASYMMETRIC if affine else QuantizationType.NONE
    attr.fl = 0
    attr.zp = quantization.zero_point if quantization else 0
    attr.scale = quantization.scale if quantization else 1.0
    attr.w_stride = attr.pass_through = attr.h_stride = 0
