"""As which element types tensors are exchanged with a runtime's general API.

The API's types say more than a runtime converts. librknnrt 1.5.2 returns 0 for what it doesn't
convert, writes a line to its log, and leaves the values of an earlier call in place; what newer
versions do is not known. Here are the types of which it was seen that they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..tensor import DType, Layout, TensorInfo

_FLOAT32, _BYTE, _BOOL = np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.bool_)
_REAL = (_FLOAT32, np.dtype(np.float16), _BYTE)
_WHOLE = (np.dtype(np.int64), np.dtype(np.int32), _BYTE)
_GIVEN_WHOLE = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT64)
_MOST_PICTURE_CHANNELS = 4


@dataclass(frozen=True)
class InputTypes:
    """As which NumPy dtypes a feed's arrays are given, and whether its pictures are bytes."""

    dtypes: tuple[np.dtype[np.generic], ...]
    has_bytes: bool


def is_picture(info: TensorInfo) -> bool:
    """Whether the NPU itself may normalise an input: an image of 1 to 4 channels.

    A context that was once given such an input as uint8 takes no float32 for it any more, so each
    kind has a context of its own.
    """
    is_image = info.layout is Layout.NHWC and len(info.shape) == 4
    return is_image and info.shape[3] <= _MOST_PICTURE_CHANNELS and info.is_real


def input_types(infos: Sequence[TensorInfo], given: Sequence[np.dtype[np.generic]]) -> InputTypes:
    """How inputs, as the runtime describes them, are given from arrays of some dtypes."""
    pairs = list(zip(infos, given, strict=True))
    pictures = [dtype for info, dtype in pairs if is_picture(info)]
    has_bytes = bool(pictures) and all(dtype == _BYTE for dtype in pictures)
    return InputTypes(
        tuple(
            _FLOAT32 if is_picture(info) and dtype == _BYTE and not has_bytes
            else input_type(info, dtype)
            for info, dtype in pairs
        ),
        has_bytes,
    )  # fmt: skip


def input_type(info: TensorInfo, dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """As which dtype a runtime takes an array of `dtype` for an input; its own where it may.

    bool is given as bytes of 0 and 1.
    """
    if not info.is_real:
        as_bytes = _BYTE if dtype == _BOOL else dtype
        return as_bytes if as_bytes in _WHOLE else _FLOAT32
    if limits(info) is not None:
        return _FLOAT32
    return dtype if dtype in _REAL else _FLOAT32


def limits(info: TensorInfo) -> tuple[float, float] | None:
    """Between which real values those of an input have to be; None where the runtime saturates.

    It does for images. The float32 values of other quantised inputs wrap round.
    """
    if info.quantization is None or info.layout is Layout.NHWC:
        return None
    bounds = np.iinfo(info.dtype.numpy.name)
    low, high = ((int(b) - info.zero_point) * info.scale for b in (bounds.min, bounds.max))
    return low, high


def gives_whole_numbers(info: TensorInfo, version: str) -> bool:
    """Whether `rknn_outputs_get` gives an output in its own dtype, as whole numbers.

    `version` is the library's: 1.5.2 gives int32 as float32 only.
    """
    if info.is_real or info.dtype.numpy_name is None:
        return False
    return info.dtype in _GIVEN_WHOLE or not version.startswith("1.")
