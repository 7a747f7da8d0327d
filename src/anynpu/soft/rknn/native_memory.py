"""An input's memory as the device holds it: bytes in native order, rows padded.

The soft NPU keeps inputs as arrays in the model's order; this is for what comes as it is to go.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import nc1hwc2_to_nchw, nchw_to_nc1hwc2
from ...native import kernels
from ...rknn.abi import ErrorCode, TensorFormat
from ...soc import Soc
from ...tensor import DType
from ..engines import Port
from .attributes import input_width_stride, native_input_format, native_input_shape
from .failure import Failure
from .input_conversion import store_image

Bytes = NDArray[np.uint8]
_MOST_PIXEL_CHANNELS = 4
_PAGE = 4096


def converts_pixels(port: Port) -> bool:
    """Whether the NPU normalises and quantises uint8 pictures for an input by itself."""
    is_packed = native_input_format(port) is TensorFormat.NHWC
    return port.dtype is DType.INT8 and is_packed and not port.is_read_by_cpu


REFUSES_PIXELS = "pass_through mode only support channel 1, 2, 3, 4, in NHWC layout"
"""What the runtime says to that."""


def refuses_pixels(port: Port, fmt: int) -> bool:
    """Whether bytes that are passed through can't be NHWC, as the runtime sees it.

    It asks for the channels of what has other than four dimensions.
    """
    channels = port.shape[1] if len(port.shape) > 1 else 0
    is_image = len(port.shape) == 4
    return fmt == TensorFormat.NHWC and not is_image and not 0 < channels <= _MOST_PIXEL_CHANNELS


def memory_shape(port: Port, soc: Soc) -> tuple[int, ...]:
    """The sizes of an input's memory, with the pixels that pad rows."""
    shape = native_input_shape(port, soc)
    if native_input_format(port) is not TensorFormat.NHWC:
        return shape
    n, h, _, c = shape
    return n, h, input_width_stride(port, soc), c


def size(port: Port, soc: Soc) -> int:
    """Bytes of an input's memory."""
    return port.dtype.size_of(math.prod(memory_shape(port, soc)))


def room(port: Port, soc: Soc) -> int:
    """The bytes that a board allocates for it: whole pages."""
    return -(-size(port, soc) // _PAGE) * _PAGE


def store(raw: Bytes, port: Port, soc: Soc, target: NDArray[Any]) -> None:
    """Take over the first bytes of an input's memory; what follows them stays."""
    shape = memory_shape(port, soc)
    whole = raw
    if raw.size < size(port, soc):
        whole = _bytes_of(target, port, soc)
        whole[: raw.size] = raw
    values = whole.view(port.dtype.numpy).reshape(shape)
    _unpack(values, port, target)


def store_pixels(raw: Bytes, port: Port, soc: Soc, target: NDArray[Any]) -> None:
    """The same for a picture of bytes, which the NPU converts.

    INPUT_INVALID where not all pixels are given: what was there before isn't kept.
    """
    n, h, row, c = memory_shape(port, soc)
    if raw.size < n * h * row * c:
        raise Failure(
            ErrorCode.INPUT_INVALID,
            f"input {port.name!r} has {n * h * row * c} bytes on the device, {raw.size} are "
            "given; a board would keep the pixels after them",
        )
    pixels = raw.reshape(n, h, row, c)[:, :, : port.shape[3]]
    store_image(pixels, port, target)


def _bytes_of(held: NDArray[Any], port: Port, soc: Soc) -> Bytes:
    """What an input's memory holds now."""
    shape = memory_shape(port, soc)
    values = np.zeros(shape, port.dtype.numpy)
    if len(shape) == 5:
        nchw_to_nc1hwc2(held, shape[4], shape[1], out=values)
    elif native_input_format(port) is TensorFormat.NHWC:
        kernels.convert(held.transpose(0, 2, 3, 1), values[:, :, : port.shape[3]])
    else:
        kernels.convert(held, values)
    raw: Bytes = values.reshape(-1).view(np.uint8)
    return raw


def _unpack(values: NDArray[Any], port: Port, target: NDArray[Any]) -> None:
    if values.ndim == 5:
        nc1hwc2_to_nchw(values, port.shape[1], target)
    elif native_input_format(port) is TensorFormat.NHWC:
        kernels.convert(values[:, :, : port.shape[3]].transpose(0, 3, 1, 2), target)
    else:
        kernels.convert(values, target)
