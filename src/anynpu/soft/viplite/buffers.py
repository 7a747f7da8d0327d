"""vip_buffer: create, map, flush and destroy buffers.

A buffer's bytes are a tensor's elements without padding, the innermost dimension first. In strict
mode the device sees what the program wrote only after VIP_BUFFER_OPER_TYPE_FLUSH, and the program
what the device wrote only after INVALIDATE.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tensor import DType
from ...viplite.abi import (
    ALIGNMENT,
    MAX_DIMS,
    BufferCreateParams,
    BufferFormat,
    BufferOperation,
    MemoryType,
    QuantizeFormat,
    Status,
)
from ...viplite.formats import DTYPES, size_of, stored_dtype, stored_shape
from ..device_memory import DeviceMemory, by_physical_address
from ..handles import Table
from .driver import needs_driver, table
from .failure import Failure, invalid, require

_LARGEST = 2**32 - 1
"""Sizes in the API are 32 bits wide."""


class Buffer:
    """A piece of memory that holds a tensor; `size` counts the tensor's bytes."""

    def __init__(self, memory: DeviceMemory, size: int) -> None:
        self.memory = memory
        self.size = size

    @property
    def is_closed(self) -> bool:
        return self.memory.closed

    def view(self, dtype: DType, shape: tuple[int, ...]) -> NDArray[Any]:
        """The device's copy as an array, which keeps the memory if the buffer is destroyed."""
        size, stored, stored_as = _layout(dtype, shape)
        device = self.memory.device
        if device.size < size:
            raise Failure(Status.MISSING_INPUT_OUTPUT, "a buffer was destroyed before the run")
        raw = device[:size]
        array: NDArray[Any] = raw.view(stored).reshape(stored_as)
        return array

    def close(self) -> None:
        self.memory.close()


@cache
def _layout(dtype: DType, shape: tuple[int, ...]) -> tuple[int, np.dtype[Any], tuple[int, ...]]:
    """A tensor's bytes, and the dtype and shape of an array over them."""
    return size_of(shape, dtype), stored_dtype(dtype), stored_shape(shape, dtype)


BUFFERS: Table[Buffer] = table(Table, "buffer")


@needs_driver
def vip_create_buffer(create_param: Any, size_of_param: int, buffer: Any) -> None:
    """Memory for a tensor; `size_of_param` 0 stands for the structure's size."""
    size = _prepare(create_param, buffer)
    if size_of_param not in (0, ctypes.sizeof(BufferCreateParams)):
        raise invalid(
            f"size_of_param is {size_of_param}; the structure has "
            f"{ctypes.sizeof(BufferCreateParams)} bytes"
        )
    buffer[0] = BUFFERS.add(Buffer(_allocate(size), size))


@needs_driver
def vip_create_buffer_cache(create_param: Any, size_of_param: int, buffer: Any) -> None:
    """Memory that the processor caches, which the soft NPU's always is."""
    vip_create_buffer(create_param, size_of_param, buffer)


@needs_driver
def vip_create_buffer_from_handle(
    create_param: Any, handle_logical: int | None, handle_size: int, buffer: Any
) -> None:
    """The program's own memory; it stays the program's and must outlive the buffer."""
    size = _prepare(create_param, buffer)
    require(handle_logical, "handle_logical")
    assert handle_logical is not None, "it was required"
    _check_aligned(handle_logical, "address")
    _check_foreign(handle_size, size)
    memory = DeviceMemory.from_address(handle_logical, handle_size, 0)
    buffer[0] = BUFFERS.add(Buffer(memory, size))


@needs_driver
def vip_create_buffer_from_fd(create_param: Any, fd: int, memory_size: int, buffer: Any) -> None:
    """Memory behind a descriptor, which stays the program's to close."""
    size = _prepare(create_param, buffer)
    _check_foreign(memory_size, size)
    try:
        memory = DeviceMemory.from_descriptor(fd, memory_size, 0)
    except (OSError, ValueError, OverflowError) as error:
        raise Failure(
            Status.FAILURE, f"descriptor {fd} can't be imported with {memory_size} bytes: {error}"
        ) from error
    buffer[0] = BUFFERS.add(Buffer(memory, size))


@needs_driver
def vip_create_buffer_from_physical(
    create_param: Any, physical_table: Any, size_table: Any, physical_num: int, buffer: Any
) -> None:
    """Memory by its physical addresses, which must be of other memory of the soft NPU.

    The blocks must lie one after the other: the soft NPU gathers nothing.
    """
    size = _prepare(create_param, buffer)
    require(physical_table, "physical_table")
    require(size_table, "size_table")
    if physical_num < 1:
        raise invalid("physical_num is 0")
    start, total = physical_table[0], size_table[0]
    _check_aligned(start, "first physical address")
    for number in range(1, physical_num):
        if physical_table[number] != start + total:
            raise Failure(
                Status.NOT_SUPPORTED,
                f"block {number} at {physical_table[number]:#x} doesn't follow the one before",
            )
        total += size_table[number]
    if total < size:
        raise invalid(f"the blocks have {total} bytes; the tensor takes {size}")
    base = by_physical_address(start, total)
    if base is None:
        raise Failure(
            Status.FAILURE, f"physical address {start:#x} is not mapped in this simulation"
        )
    address = base.address + start - base.physical
    memory = DeviceMemory.from_address(address, total, start, base)
    buffer[0] = BUFFERS.add(Buffer(memory, size))


@needs_driver
def vip_destroy_buffer(buffer: int | None) -> None:
    """Free a buffer; a network that it is bound to loses it."""
    BUFFERS.remove(buffer).close()


@needs_driver
def vip_map_buffer(buffer: int | None) -> int:
    """Where the program finds the buffer's first byte; the same for the buffer's life."""
    return BUFFERS.find(buffer).memory.address


@needs_driver
def vip_unmap_buffer(buffer: int | None) -> None:
    """Nothing to undo: a buffer stays mapped."""
    BUFFERS.find(buffer)


@needs_driver
def vip_get_buffer_size(buffer: int | None) -> int:
    """The tensor's bytes."""
    return BUFFERS.find(buffer).size


@needs_driver
def vip_flush_buffer(buffer: int | None, type: int) -> None:
    """Bring the processor's and the device's view of the memory together."""
    memory = BUFFERS.find(buffer).memory
    if type == BufferOperation.FLUSH:
        memory.flush()
    elif type == BufferOperation.INVALIDATE:
        memory.invalidate()
    else:
        raise invalid(f"there is no buffer operation {type}")


def _prepare(create_param: Any, buffer: Any) -> int:
    """The bytes that the tensor takes; the handle is NULL until the buffer is there."""
    require(buffer, "buffer")
    buffer[0] = None
    require(create_param, "create_param")
    given = create_param.contents
    if not 0 < given.num_of_dims <= MAX_DIMS:
        raise invalid(f"num_of_dims is {given.num_of_dims}, not 1 to {MAX_DIMS}")
    sizes = given.sizes[: given.num_of_dims]
    for value, known, what in (
        (given.data_format, BufferFormat, "data_format"),
        (given.quant_format, QuantizeFormat, "quant_format"),
        (given.memory_type, MemoryType, "memory_type"),
    ):
        if value not in set(known):
            raise invalid(f"{what} {value} is unknown")
    if given.memory_type == MemoryType.SECURE:
        raise Failure(Status.NOT_SUPPORTED, "the soft NPU has no secure memory")
    size = size_of(tuple(reversed(sizes)), DTYPES[BufferFormat(given.data_format)])
    if size == 0:
        raise invalid(f"the sizes {sizes} hold no element")
    if size > _LARGEST:
        raise Failure(Status.OUT_OF_MEMORY, f"a tensor of sizes {sizes} takes {size} bytes")
    return size


def _allocate(size: int) -> DeviceMemory:
    try:
        return DeviceMemory.allocate(size)
    except (OSError, ValueError, OverflowError, MemoryError) as error:
        raise Failure(Status.OUT_OF_MEMORY, f"{size} bytes can't be allocated: {error}") from error


def _check_foreign(given: int, needed: int) -> None:
    _check_aligned(given, "size")
    if given < needed:
        raise invalid(f"the memory has {given} bytes; the tensor takes {needed}")


def _check_aligned(value: int, what: str) -> None:
    if value % ALIGNMENT:
        raise invalid(f"the {what} {value:#x} isn't a multiple of {ALIGNMENT} bytes")
