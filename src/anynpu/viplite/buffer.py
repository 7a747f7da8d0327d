"""`Buffer`: memory that the program and the NPU both see, as NumPy arrays that share it."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import CallError, InUseError, TensorError
from ..lifetime import Closeable
from ..native.memory import address_of
from ..shared_arrays import SharedArrays
from ..tensor import TensorInfo
from . import abi
from .formats import FORMATS, size_of, stored_dtype, stored_shape
from .library import VipliteLibrary, load
from .runtime import Handle, runtime_of

LibraryLike = str | os.PathLike[str] | VipliteLibrary | None


class Buffer(Closeable):
    """One `vip_buffer`, made by a class method here or by a network for one of its tensors.

    `info` says what tensor it is for. Arrays from `array` share the memory and keep it alive:
    `close` raises `InUseError` as long as there is one. A network keeps the buffers that are set
    for it. Without `close` the buffer goes with its last reference. Any thread may use it, one at
    a time. Failed calls raise `CallError`.
    """

    def __init__(self, handle: _BufferHandle, info: TensorInfo, memory: object = None) -> None:
        self.info = info
        self._handle = handle
        self._memory = memory
        self._arrays = SharedArrays()
        self._finalizer = weakref.finalize(self, handle.close)
        # When the interpreter ends, threads may still write to arrays: the memory goes with it.
        self._finalizer.atexit = False

    # ---------------------------------------------------------------------------------- making

    @classmethod
    def allocate(
        cls, info: TensorInfo, *, cached: bool = False, library: LibraryLike = None
    ) -> Buffer:
        """New memory for a tensor: `vip_create_buffer` (section 2.3.9).

        With `cached` the processor's cache holds it, `vip_create_buffer_cache` (2.4.2.4), which
        is quicker to read here; both need `flush` and `invalidate`.
        """
        call = "vip_create_buffer_cache" if cached else "vip_create_buffer"
        params = buffer_params(info)
        size = ctypes.sizeof(params)
        return cls(_create(library, call, ctypes.byref(params), size), info)

    @classmethod
    def from_array(
        cls, info: TensorInfo, memory: NDArray[Any], *, library: LibraryLike = None
    ) -> Buffer:
        """The memory of an array of the caller's: `vip_create_buffer_from_handle` (2.4.2.1).

        It is contiguous, begins at a multiple of 64 bytes and is as many long: `aligned_memory`
        makes such. The buffer keeps the array. Raises `TensorError` for other memory; a board
        whose NPU has no MMU refuses the call.
        """
        _check_array(info, memory)
        params = buffer_params(info, abi.MemoryType.HOST)
        call = "vip_create_buffer_from_handle"
        address = address_of(memory)
        handle = _create(library, call, ctypes.byref(params), address, memory.nbytes)
        return cls(handle, info, memory)

    @classmethod
    def from_fd(
        cls, info: TensorInfo, fd: int, size: int, *, library: LibraryLike = None
    ) -> Buffer:
        """The memory of a DMA buffer: `vip_create_buffer_from_fd` (2.4.2.3).

        `size` is a multiple of 64 bytes. The descriptor stays the caller's.
        """
        _check_size(info, size)
        params = buffer_params(info, abi.MemoryType.DMA_BUF)
        call = "vip_create_buffer_from_fd"
        return cls(_create(library, call, ctypes.byref(params), fd, size), info)

    @classmethod
    def from_physical(
        cls,
        info: TensorInfo,
        blocks: Sequence[tuple[int, int]],
        *,
        library: LibraryLike = None,
    ) -> Buffer:
        """Memory by its (physical address, size) blocks: `vip_create_buffer_from_physical`.

        The first block begins at a multiple of 64 bytes (section 2.4.2.2).
        """
        if not blocks or blocks[0][0] % abi.ALIGNMENT:
            raise TensorError(
                f"{info}: the first block of physical memory begins at a multiple of "
                f"{abi.ALIGNMENT} bytes; found {[hex(address) for address, _ in blocks]}"
            )
        _check_size(info, sum(size for _, size in blocks), alignment=1)
        params = buffer_params(info)
        addresses = (ctypes.c_uint64 * len(blocks))(*(address for address, _ in blocks))
        sizes = (ctypes.c_uint32 * len(blocks))(*(size for _, size in blocks))
        call = "vip_create_buffer_from_physical"
        handle = _create(library, call, ctypes.byref(params), addresses, sizes, len(blocks))
        return cls(handle, info)

    # ----------------------------------------------------------------------------------- using

    @property
    def handle(self) -> Handle:
        """The handle of C's."""
        return self._handle

    @property
    def size(self) -> int:
        """Bytes: `vip_get_buffer_size`."""
        return int(self._handle.library.vip_get_buffer_size(self._handle.value))

    @property
    def address(self) -> int:
        """Where the first byte is in this process: `vip_map_buffer`, once."""
        return self._handle.map()

    def array(
        self, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None
    ) -> NDArray[Any]:
        """An array that shares the memory from its first byte: no copy, writable.

        Without arguments it has the tensor's shape and dtype, bytes of two elements where they
        have 4 bits, uint16 for bfloat16. Raises `TensorError` for a shape that the memory is too
        small for.
        """
        info = self.info
        if shape is None and dtype is None:
            shape = stored_shape(info.shape, info.dtype)
        kind = stored_dtype(info.dtype) if dtype is None else dtype
        return self._arrays.array(self, self.address, self.size, shape, kind)

    def flush(self) -> None:
        """What was written here is for the device: before a run that reads it."""
        self._operate(abi.BufferOperation.FLUSH)

    def invalidate(self) -> None:
        """What the device wrote is for here: after a run, before it is read."""
        self._operate(abi.BufferOperation.INVALIDATE)

    def _operate(self, operation: abi.BufferOperation) -> None:
        code = self._handle.library.vip_flush_buffer(self._handle.value, int(operation))
        if code:
            self._handle.library.check("vip_flush_buffer", code, f"{operation.symbol}, {self.info}")

    def close(self) -> None:
        """Free it: `vip_destroy_buffer`, once no network has it; twice does nothing.

        Memory of the caller's stays theirs. Raises `InUseError` while an array still shares it.
        """
        if self._finalizer.alive and self._arrays.are_alive:
            raise InUseError("an array still shares this memory; delete the array first")
        self._finalizer()


class _BufferHandle(Handle):
    """A `vip_buffer`; its mapping ends with it."""

    _mapped = 0

    def map(self) -> int:
        """Where the memory is in this process: `vip_map_buffer`, once."""
        value = self.value
        if not self._mapped:
            self._mapped = self.library.vip_map_buffer(value) or 0
        if not self._mapped:
            raise CallError(
                "vip_map_buffer", 0, "NULL", "the memory can't be seen by the processor"
            )
        return self._mapped

    def before_destroy(self) -> None:
        if self._mapped:
            self.library.vip_unmap_buffer(self._value)


def aligned_memory(size: int) -> NDArray[np.uint8]:
    """Zeroed memory for `Buffer.from_array`: it begins at and is as long as multiples of 64 bytes.

    It is at least `size` bytes long.
    """
    length = -(-size // abi.ALIGNMENT) * abi.ALIGNMENT
    whole = np.zeros(length + abi.ALIGNMENT, np.uint8)
    start = -address_of(whole) % abi.ALIGNMENT
    return whole[start : start + length]


def buffer_params(
    info: TensorInfo, memory_type: abi.MemoryType = abi.MemoryType.DEFAULT
) -> abi.BufferCreateParams:
    """The C structure that describes a buffer for a tensor."""
    params = abi.BufferCreateParams(num_of_dims=len(info.shape), memory_type=memory_type)
    params.sizes[: len(info.shape)] = info.shape[::-1]
    params.data_format = FORMATS[info.dtype]
    quantization = info.quantization
    if quantization is None:
        params.quant_format = abi.QuantizeFormat.NONE
    elif quantization.binary_point is not None:
        params.quant_format = abi.QuantizeFormat.DYNAMIC_FIXED_POINT
        params.quant_data.dfp.fixed_point_pos = quantization.binary_point
    else:
        params.quant_format = abi.QuantizeFormat.TF_ASYMM
        params.quant_data.affine.scale = quantization.scale
        params.quant_data.affine.zeroPoint = quantization.zero_point
    return params


def _create(library: LibraryLike, call: str, *arguments: object) -> _BufferHandle:
    return _BufferHandle(runtime_of(load(library)), call, "vip_destroy_buffer", *arguments)


def _check_array(info: TensorInfo, memory: NDArray[Any]) -> None:
    address = address_of(memory) if memory.size else 0
    if not memory.flags.c_contiguous or not memory.flags.writeable or address % abi.ALIGNMENT:
        raise TensorError(
            f"{info}: a buffer's memory is contiguous, writable and begins at a multiple of "
            f"{abi.ALIGNMENT} bytes; found {memory.dtype} {memory.shape} at {address:#x}: "
            f"aligned_memory makes such"
        )
    _check_size(info, memory.nbytes)


def _check_size(info: TensorInfo, size: int, alignment: int = abi.ALIGNMENT) -> None:
    needed = size_of(info.shape, info.dtype)
    if size < needed or size % alignment:
        multiple = f" in multiples of {alignment}" if alignment > 1 else ""
        raise TensorError(f"{info} takes {needed} bytes of memory{multiple}; found {size}")
