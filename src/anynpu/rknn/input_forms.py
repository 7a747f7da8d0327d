"""In which form the values of inputs lie in memory for the zero-copy API, and how they get there.

A runtime converts uint8 and float32 for itself; that of RV1103 and RV1106 normalises pictures of
bytes and nothing else. Other values are normalised, quantised and packed here, and passed through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TensorError
from ..native import kernels
from ..tensor import DType, Layout, TensorInfo
from . import host_types
from .normalization import Normalization

_FLOAT32, _FLOAT16, _BYTE = np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.uint8)


@dataclass(frozen=True)
class InputForm:
    """`dtype` is the elements' in memory. `is_native`: they lie there as the NPU reads them."""

    dtype: DType
    is_native: bool = False


@dataclass(frozen=True)
class InputForms:
    """The form of each input, and whether pictures are bytes, which takes a context of its own."""

    forms: tuple[InputForm, ...]
    has_bytes: bool


def input_forms(
    infos: Sequence[TensorInfo], given: Sequence[np.dtype[Any]], *, converts: bool
) -> InputForms:
    """The forms for arrays of some dtypes; `infos` have images as NHWC.

    `converts` says that the runtime converts real values; that of RV1103 and RV1106 does not.
    """
    types = host_types.input_types(infos, given)
    forms = [
        _form(info, dtype, converts=converts)
        for info, dtype in zip(infos, types.dtypes, strict=True)
    ]
    return InputForms(tuple(forms), types.has_bytes)


def _form(info: TensorInfo, dtype: np.dtype[Any], *, converts: bool) -> InputForm:
    if not converts and info.is_real:
        is_bytes = host_types.is_picture(info) and dtype == _BYTE
        return InputForm(DType.UINT8) if is_bytes else InputForm(info.dtype, is_native=True)
    if not converts and not info.is_real:
        return InputForm(info.dtype)
    found = DType.from_numpy(_FLOAT32 if dtype == _FLOAT16 else dtype)
    assert found is not None, "runtimes are given no other types"
    return InputForm(found)


def store(
    array: NDArray[Any],
    info: TensorInfo,
    form: InputForm,
    target: NDArray[Any],
    normalization: Normalization | None,
) -> None:
    """Write values, images (N, H, W, C), to memory of a form, without the pixels that pad rows.

    `target` is (N, C1, H, W, C2) for native images of more channels than a picture's. Where a
    picture is quantised here, `normalization` is what is done to its values before. Raises
    `TensorError` where that would be needed and is None.
    """
    if form.is_native and info.layout is Layout.NHWC:
        if host_types.is_picture(info):
            array = _normalized(array, info, normalization)
        _store_native_image(array, info, target)
    elif form.is_native:
        _store_own(array, info, target)
    elif info.layout is Layout.NHWC:
        kernels.copy_channels_last(array, target)
    elif (limits := host_types.limits(info)) is not None and form.dtype is DType.FLOAT32:
        low, high = map(np.float32, limits)
        np.clip(array, low, high, out=target, casting="unsafe")
    else:
        kernels.convert(array, target)


def _normalized(
    pixels: NDArray[Any], info: TensorInfo, normalization: Normalization | None
) -> NDArray[Any]:
    if normalization is None:
        raise TensorError(
            f"input {info.name!r} takes pictures of uint8 here, found {pixels.dtype}: this chip's "
            f"runtime normalises bytes only, and the file doesn't tell mean and deviation"
        )
    return pixels if normalization.is_identity else normalization.apply(pixels)


def _store_native_image(pixels: NDArray[Any], info: TensorInfo, target: NDArray[Any]) -> None:
    if target.ndim == 4:
        _store_own(pixels, info, target)
        return
    n, h, w, _ = pixels.shape
    if target.shape[0] != n or target.shape[2:4] != (h, w):
        raise TensorError(
            f"input {info.name!r} of {pixels.shape} lies in memory as {target.shape}, an order "
            f"that anynpu doesn't know"
        )
    planes = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), _FLOAT32)
    if info.quantization is None:
        kernels.pack(planes, target)
    else:
        kernels.pack(planes, target, info.scale, info.zero_point)


def _store_own(values: NDArray[Any], info: TensorInfo, target: NDArray[Any]) -> None:
    """In the NPU's own type, in the same order."""
    if info.quantization is None:
        kernels.convert(values, target)
    else:
        kernels.quantize(np.asarray(values, _FLOAT32), info.scale, info.zero_point, target)
