"""`OrtValue`: an array of the host's, or a tensor in memory of the device's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..backends import DeviceBuffer
from ..errors import OptionError, TensorError
from ..native.memory import array_at
from ..tensor import DType, Layout

if TYPE_CHECKING:
    from .inference_session import InferenceSession

IoKind = Literal["input", "output"]
CPU = "cpu"
_ELEMENT_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 12: "uint32",
}  # fmt: skip
"""ONNX's numbers."""
_ELEMENT_NUMBERS = {name: number for number, name in _ELEMENT_TYPES.items()}


class OrtValue:
    """A tensor: on the host an array that it shares, on the device memory that both sides see.

    Made by `ortvalue_from_numpy`, `ortvalue_from_shape_and_type` and `ortvalue_from_dmabuf`. The
    array of `numpy`, and what `np.asarray` and `from_dlpack` make of the value, share its memory
    and keep it alive. One thread at a time.
    """

    def __init__(
        self,
        array: NDArray[Any],
        buffer: DeviceBuffer | None = None,
        device_type: str = CPU,
        *,
        kind: str | None = None,
        index: int | None = None,
    ) -> None:
        self._array = array
        self._device_type = device_type
        self.buffer = buffer
        self.place = (kind, index)

    # ---------------------------------------------------------------------------------- making

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: NDArray[Any],
        device_type: str = CPU,
        device_id: int = 0,
        *,
        name: str | None = None,
        session: InferenceSession | None = None,
        io_kind: IoKind | None = None,
        layout: str = "onnx",
        sync: bool = True,
    ) -> OrtValue:
        """A value from an array: on the host it shares the array, on the device it has a copy.

        For the device, `session`, `name` and `io_kind` say which tensor it is for, and `layout` is
        ``"onnx"`` for an array in the model's own order or ``"native"`` for one as the memory has
        it. `sync` makes the copy visible to the device at once.
        """
        array = np.asarray(numpy_obj)
        if device_type == CPU:
            return OrtValue(array)
        dtype = DType.from_numpy(array.dtype)
        value = _on_device(device_type, name, session, io_kind, dtype, "default")
        value._fill(array, layout)
        if sync:
            value.sync_to_device()
        return value

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int] | None,
        element_type: DTypeLike | int | None,
        device_type: str = CPU,
        device_id: int = 0,
        *,
        name: str | None = None,
        session: InferenceSession | None = None,
        io_kind: IoKind | None = None,
        layout: str = "native",
        mem_flags: str | int = "cacheable",
    ) -> OrtValue:
        """A value of zeros. For the device, None is the tensor's own shape and dtype."""
        dtype = None if element_type is None else numpy_dtype(element_type)
        if device_type == CPU:
            return OrtValue(np.zeros(tuple(shape or ()), dtype or np.float32))
        kind = None if dtype is None else DType.from_numpy(dtype)
        value = _on_device(device_type, name, session, io_kind, kind, mem_flags)
        value._check_shape(shape)
        return value

    @staticmethod
    def ortvalue_from_dmabuf(
        fd: int,
        shape: Sequence[int] | None,
        element_type: DTypeLike | int | None,
        *,
        size: int,
        session: InferenceSession,
        name: str,
        io_kind: IoKind,
        offset: int = 0,
        virt_addr: int | None = None,
        layout: str = "native",
    ) -> OrtValue:
        """A value in memory that a descriptor names, such as a DMA buffer of a camera's.

        The descriptor stays the caller's. `virt_addr` isn't needed: the memory is mapped anew.
        """
        kind = None if element_type is None else DType.from_numpy(numpy_dtype(element_type))
        index = session.index_of(io_kind, name)
        buffer = session.network.import_buffer(io_kind, index, kind, fd, size, offset)
        value = OrtValue(buffer.array, buffer, session.device_type, kind=io_kind, index=index)
        value._check_shape(shape)
        return value

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """A value on the host that shares the memory of another library's tensor, by DLPack.

        DLPack has bytes for bools: `is_bool_tensor` says that these are some.
        """
        array = np.from_dlpack(data)
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    # ---------------------------------------------------------------------------------- reading

    def numpy(self) -> NDArray[Any]:
        """The values as an array that shares the memory."""
        return self._array

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False and dtype is not None and np.dtype(dtype) != self._array.dtype:
            raise ValueError(f"{self._array.dtype} can't be seen as {np.dtype(dtype)} uncopied")
        array = self._array if dtype is None else self._array.astype(dtype, copy=False)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def shape(self) -> list[int]:
        """The shape, in the order in which the memory has it."""
        return list(self._array.shape)

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return _ELEMENT_NUMBERS[self._array.dtype.name]

    def data_type(self) -> str:
        """The type in ONNX Runtime's words, such as ``tensor(float)``."""
        name = self._array.dtype.name
        return f"tensor({'float' if name == 'float32' else name})"

    def data_ptr(self) -> int:
        """The address of the first element in this process."""
        return int(self._array.ctypes.data)

    def device_name(self) -> str:
        """Where it is: ``cpu`` or the backend's name for its device, such as ``rknpu2``."""
        return self._device_type

    device_type = device_name

    def device_id(self) -> int:
        """Always 0."""
        return 0

    def is_tensor(self) -> bool:
        """Always True."""
        return True

    def is_sparse_tensor(self) -> bool:
        """Always False."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Always False."""
        return False

    def tensor_size_in_bytes(self) -> int:
        """What the elements take."""
        return int(self._array.nbytes)

    def has_value(self) -> bool:
        """Always True."""
        return True

    def memory_info(self) -> dict[str, Any]:
        """Where the memory is; on the device with its descriptor, sizes and strides."""
        info: dict[str, Any] = {"device_type": self._device_type, "device_id": 0}
        if self.buffer is None:
            return info | {"size": self._array.nbytes, "virt_addr": self.data_ptr()}
        return info | self.buffer.describe()

    # ---------------------------------------------------------------------------------- writing

    def update_inplace(self, np_arr: NDArray[Any]) -> None:
        """Copy an array of the same dtype and shape here; the device sees it."""
        array = np.asarray(np_arr)
        if array.dtype != self._array.dtype or array.shape != self._array.shape:
            raise TensorError(
                f"the value is {self._array.dtype} {self._array.shape}; found {array.dtype} "
                f"{array.shape}"
            )
        np.copyto(self._array, array)
        self.sync_to_device()

    def sync_to_device(self) -> None:
        """What was written here is for the device."""
        if self.buffer is not None:
            self.buffer.to_device()

    def sync_from_device(self) -> None:
        """What the device wrote is for here."""
        if self.buffer is not None:
            self.buffer.from_device()

    def _fill(self, array: NDArray[Any], layout: str) -> None:
        info = self.buffer.info if self.buffer is not None else None
        if layout == "onnx" and info is not None and info.layout is Layout.NHWC:
            array = array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
        if array.shape != self._array.shape:
            raise TensorError(
                f"the memory has the shape {self._array.shape}; found {array.shape}: give an array "
                f"of that shape, layout='native' for one in the memory's own order"
            )
        np.copyto(self._array, array)

    def _check_shape(self, shape: Sequence[int] | None) -> None:
        if shape is not None and tuple(shape) != self._array.shape:
            raise TensorError(
                f"the memory has the shape {self._array.shape}; asked for {tuple(shape)}: pass "
                f"None for the tensor's own"
            )


def numpy_dtype(element_type: DTypeLike | int) -> np.dtype[Any]:
    """A NumPy dtype from one, or from ONNX's number."""
    if isinstance(element_type, int):
        if element_type not in _ELEMENT_TYPES:
            raise OptionError(f"element type {element_type} isn't one that NumPy has")
        return np.dtype(_ELEMENT_TYPES[element_type])
    return np.dtype(element_type)


def array_over(address: int, dtype: np.dtype[Any], shape: Sequence[int] | None) -> NDArray[Any]:
    """An array over memory that the caller vouches for; `OptionError` without a shape."""
    if shape is None:
        raise OptionError(f"buffer_ptr {address:#x} is memory of a size not known: give its shape")
    return array_at(address, dtype, math.prod(shape)).reshape(tuple(shape))


def _on_device(
    device_type: str,
    name: str | None,
    session: InferenceSession | None,
    io_kind: IoKind | None,
    dtype: DType | None,
    flags: str | int,
) -> OrtValue:
    if session is None or name is None or io_kind is None:
        raise OptionError(
            f"memory on {device_type!r} is for one tensor: session, name and io_kind say which; "
            f"found session={session!r}, name={name!r}, io_kind={io_kind!r}"
        )
    if device_type != session.device_type:
        raise OptionError(f"the session's device is {session.device_type!r}, not {device_type!r}")
    index = session.index_of(io_kind, name)
    buffer = session.network.allocate(io_kind, index, dtype, flags)
    return OrtValue(buffer.array, buffer, device_type, kind=io_kind, index=index)
