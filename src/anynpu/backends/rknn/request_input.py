"""One input of a request by the general API: from an array to what its runtime takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import feeds
from ...native import kernels
from ...native.arrangements import Arrangement, Kind
from ...native.memory import address_of
from ...rknn import abi, host_types
from ...tensor import TensorInfo

_TYPES = {dtype.numpy: abi.TensorType[dtype.name] for dtype in feeds.FEEDABLE}
_NOTHING: NDArray[Any] = np.empty(0)
_BOOL = np.dtype(np.bool_)


class RequestInput:
    """It fills an `rknn_input` and says in an arrangement what is done when the request runs.

    `info` is the runtime's description, `shown` the session's. Images go to the runtime as pixels,
    since it refuses planes: where they come as planes, the worker makes pixels of them. Values that
    the runtime would let wrap round are limited by the worker too. Arrays of our own are kept for
    the next request, by what they are for.
    """

    def __init__(
        self, struct: abi.Input, arrangement: Arrangement, info: TensorInfo, shown: TensorInfo
    ) -> None:
        self._struct, self._arrangement = struct, arrangement
        self._info = info
        self._is_turned = shown.layout is not info.layout
        self._limits = host_types.limits(info)
        self._dtype: np.dtype[Any] = _NOTHING.dtype
        self._own: dict[str, NDArray[Any]] = {}
        self._source = self._target = self._passed = _NOTHING
        struct.fmt = abi.TensorFormat[info.layout.name]

    def give_as(self, dtype: np.dtype[Any]) -> None:
        """Say as which dtype the runtime gets the arrays from now on."""
        self._dtype = dtype
        self._struct.type = _TYPES[dtype]

    def fill(self, array: NDArray[Any], *, copy: bool) -> None:
        """Take an array of the session's shape; without `copy` it stays as it is till the end."""
        if array.dtype != self._dtype:
            array, copy = self._typed(array, copy)
        self._arrangement.kind = Kind.AS_IT_IS
        if self._is_turned:
            pixels: NDArray[Any] = array.transpose(0, 2, 3, 1)
            if pixels.flags.c_contiguous:
                self._pass(self._held(pixels, copy))
            else:
                self._interleave(array, pixels, copy)
        elif self._limits is not None:
            self._limit(array, self._limits, copy)
        else:
            self._pass(self._held(array, copy))

    def clear(self) -> None:
        """Let go of others' arrays."""
        self._source = _NOTHING
        if self._passed is not self._own.get("arranged"):
            self._passed = _NOTHING

    def __str__(self) -> str:
        shape = "x".join(map(str, self._passed.shape))
        fmt = abi.TensorFormat(self._struct.fmt).name
        return f"input {self._info}; given {self._passed.dtype} {shape} as {fmt}"

    def _typed(self, array: NDArray[Any], copy: bool) -> tuple[NDArray[Any], bool]:
        """(the array as the dtype that the runtime takes, whether it still has to be copied)."""
        if array.dtype == _BOOL and self._dtype.itemsize == 1:
            return array.view(self._dtype), copy
        typed = self._own_array("typed", array.shape)
        kernels.convert(array, typed)
        return typed, False

    def _interleave(self, planes: NDArray[Any], pixels: NDArray[Any], copy: bool) -> None:
        own = self._own_array("arranged", pixels.shape)
        if planes.flags.c_contiguous:
            self._source = self._held(planes, copy)
            self._arrangement.interleave(self._source, None if own is self._target else own)
            self._target = own
        else:
            kernels.copy_channels_last(pixels, own)
        self._pass(own)

    def _limit(self, values: NDArray[Any], limits: tuple[float, float], copy: bool) -> None:
        self._source = source = self._held(values, copy)
        own = self._own_array("arranged", values.shape)
        self._arrangement.limit(source, own, *limits)
        self._pass(own)

    def _held(self, array: NDArray[Any], copy: bool) -> NDArray[Any]:
        """The array, or a contiguous copy that is ours."""
        if array.flags.c_contiguous and not copy:
            return array
        own = self._own_array("held", array.shape)
        kernels.copy(array, own)
        return own

    def _own_array(self, use: str, shape: tuple[int, ...]) -> NDArray[Any]:
        own = self._own.get(use)
        if own is None or own.shape != shape or own.dtype != self._dtype:
            own = self._own[use] = np.empty(shape, self._dtype)
        return own

    def _pass(self, array: NDArray[Any]) -> None:
        if array is not self._passed:
            # An interrupt may come between any two lines: what is half done isn't taken for done.
            self._passed = _NOTHING
            self._struct.buf = address_of(array)
            self._struct.size = array.nbytes
            self._passed = array
