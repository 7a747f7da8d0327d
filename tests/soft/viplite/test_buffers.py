"""vip_buffer: every way to make one, what is refused, strict caches."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anynpu.rknn import abi as rknn_abi
from anynpu.rknn import library as rknn_library
from anynpu.viplite.abi import BufferOperation, MemoryType, Status
from anynpu.viplite.library import VipliteLibrary

from ... import capi, models
from .client import OK, bytes_of, make_buffer, parameters, plain, prepared, relu

INVALID = Status.INVALID_ARGUMENTS
Maker = Callable[..., Any]


@pytest.mark.parametrize("maker", ["vip_create_buffer", "vip_create_buffer_cache"])
def test_memory_is_zeroed_and_not_padded(vip: VipliteLibrary, maker: str) -> None:
    buffer = ctypes.c_void_p()
    params = plain(13)
    params.num_of_dims, params.sizes[1] = 2, 3
    create = getattr(vip, maker)
    assert create(ctypes.byref(params), ctypes.sizeof(params), ctypes.byref(buffer)) == OK
    assert vip.vip_get_buffer_size(buffer) == 39
    assert not bytes_of(vip, buffer.value or 0).any()
    assert vip.vip_map_buffer(buffer) == vip.vip_map_buffer(buffer)
    assert vip.vip_unmap_buffer(buffer) == OK
    assert vip.vip_destroy_buffer(buffer) == OK
    assert vip.vip_destroy_buffer(buffer) == INVALID
    assert vip.vip_unmap_buffer(buffer) == INVALID


@pytest.mark.parametrize(
    ("data_format", "size"),
    [(0, 40), (1, 20), (2, 10), (3, 10), (4, 20), (5, 20), (6, 10), (7, 20), (8, 40), (9, 40),
     (10, 80), (11, 80), (12, 80), (13, 5), (14, 5), (16, 10)],
)  # fmt: skip
def test_every_format_has_its_size(vip: VipliteLibrary, data_format: int, size: int) -> None:
    assert vip.vip_get_buffer_size(make_buffer(vip, plain(10, data_format))) == size


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"num_of_dims": 0}, INVALID),
        ({"num_of_dims": 7}, INVALID),
        ({"num_of_dims": 2}, INVALID),  # the second size is 0
        ({"data_format": 15}, INVALID),
        ({"data_format": -1}, INVALID),
        ({"quant_format": 3}, INVALID),
        ({"memory_type": 4}, INVALID),
        ({"memory_type": MemoryType.SECURE}, Status.NOT_SUPPORTED),
        ({"memory_type": MemoryType.DMA_BUF}, OK),
    ],
)
def test_parameters_are_checked(vip: VipliteLibrary, change: dict[str, int], code: int) -> None:
    params, buffer = plain(10), ctypes.c_void_p(0xDEAD)
    for field, value in change.items():
        setattr(params, field, value)
    assert vip.vip_create_buffer(ctypes.byref(params), 0, ctypes.byref(buffer)) == code
    assert (buffer.value is None) == (code != OK)


def test_misuse_of_creation(vip: VipliteLibrary) -> None:
    params, buffer = plain(10), ctypes.c_void_p()
    size = ctypes.sizeof(params)
    assert vip.vip_create_buffer(None, 0, ctypes.byref(buffer)) == INVALID
    assert vip.vip_create_buffer(ctypes.byref(params), 0, None) == INVALID
    assert vip.vip_create_buffer(ctypes.byref(params), size - 1, ctypes.byref(buffer)) == INVALID


def test_more_memory_than_there_is(vip: VipliteLibrary) -> None:
    params, buffer = plain(2**32 - 1, 0), ctypes.c_void_p()
    code = vip.vip_create_buffer(ctypes.byref(params), 0, ctypes.byref(buffer))
    assert code == Status.OUT_OF_MEMORY
    params.num_of_dims = 6
    params.sizes = (2**32 - 1,) * 6
    code = vip.vip_create_buffer(ctypes.byref(params), 0, ctypes.byref(buffer))
    assert code == Status.OUT_OF_MEMORY


def aligned(size: int) -> tuple[np.ndarray, int]:
    """Bytes at an address that is a multiple of 64; (what keeps them, address)."""
    memory = np.zeros(size + 64, np.uint8)
    return memory, -(-memory.ctypes.data // 64) * 64


def test_the_program_s_own_memory(vip: VipliteLibrary) -> None:
    memory, address = aligned(128)
    buffer = ctypes.c_void_p()
    create = vip.vip_create_buffer_from_handle
    assert create(ctypes.byref(plain(100)), address, 128, ctypes.byref(buffer)) == OK
    assert vip.vip_map_buffer(buffer) == address
    assert vip.vip_get_buffer_size(buffer) == 100
    assert vip.vip_destroy_buffer(buffer) == OK
    assert not memory.any()


@pytest.mark.parametrize(("offset", "size"), [(1, 128), (32, 128), (0, 100), (0, 64), (0, 0)])
def test_the_program_s_memory_must_be_aligned_and_large_enough(
    vip: VipliteLibrary, offset: int, size: int
) -> None:
    _memory, address = aligned(256)
    buffer = ctypes.c_void_p()
    create = vip.vip_create_buffer_from_handle
    code = create(ctypes.byref(plain(100)), address + offset, size, ctypes.byref(buffer))
    assert code == INVALID
    assert create(ctypes.byref(plain(100)), None, 128, ctypes.byref(buffer)) == INVALID


def test_memory_behind_a_descriptor(vip: VipliteLibrary) -> None:
    fd = os.memfd_create("test")
    try:
        os.write(fd, bytes(range(128)))
        buffer = ctypes.c_void_p()
        create = vip.vip_create_buffer_from_fd
        assert create(ctypes.byref(plain(100)), fd, 128, ctypes.byref(buffer)) == OK
        assert bytes_of(vip, buffer.value or 0)[:3].tolist() == [0, 1, 2]
        bytes_of(vip, buffer.value or 0)[0] = 99
        assert os.pread(fd, 1, 0) == b"c"
        for size, wanted in ((100, INVALID), (64, INVALID), (192, Status.FAILURE)):
            assert create(ctypes.byref(plain(100)), fd, size, ctypes.byref(buffer)) == wanted
        assert vip.vip_destroy_buffer(buffer) == INVALID  # a failure leaves NULL
    finally:
        os.close(fd)
    for bad in (fd, 2**32 - 1, 2**31):
        code = create(ctypes.byref(plain(100)), bad, 128, ctypes.byref(buffer))
        assert code == Status.FAILURE


def test_memory_by_its_physical_address(vip: VipliteLibrary) -> None:
    """RKNN's soft NPU tells its memory's physical addresses; VIPLite takes them."""
    npu = rknn_library.load("soft")
    with capi.opened(npu, models.add_one()) as context:
        memory = npu.rknn_create_mem(context, 4096)
        assert isinstance(memory, ctypes._Pointer)
        found: rknn_abi.TensorMem = memory.contents
        start, create = found.phys_addr, vip.vip_create_buffer_from_physical

        def make(addresses: list[int], sizes: list[int]) -> tuple[int, int | None]:
            buffer, count = ctypes.c_void_p(), len(addresses)
            table, lengths = (
                (ctypes.c_uint64 * count)(*addresses),
                (ctypes.c_uint32 * count)(*sizes),
            )
            code = create(ctypes.byref(plain(100)), table, lengths, count, ctypes.byref(buffer))
            return code, buffer.value

        code, buffer = make([start + 64, start + 128], [64, 64])
        assert code == OK
        assert vip.vip_map_buffer(buffer) == found.virt_addr + 64
        assert make([start], [64])[0] == INVALID
        assert make([start + 32], [128])[0] == INVALID
        assert make([start, start + 1024], [64, 64])[0] == Status.NOT_SUPPORTED
        assert make([start + 4096 - 64], [128])[0] == Status.FAILURE
        assert make([], [])[0] == INVALID
        assert npu.rknn_destroy_mem(context, memory) == capi.SUCC
        assert make([start], [128])[0] == Status.FAILURE


def test_misuse_of_physical_tables(vip: VipliteLibrary) -> None:
    buffer, params = ctypes.c_void_p(), plain(100)
    create, sizes = vip.vip_create_buffer_from_physical, (ctypes.c_uint32 * 1)(128)
    table = (ctypes.c_uint64 * 1)(64)
    assert create(ctypes.byref(params), None, sizes, 1, ctypes.byref(buffer)) == INVALID
    assert create(ctypes.byref(params), table, None, 1, ctypes.byref(buffer)) == INVALID


def test_an_operation_that_is_none(vip: VipliteLibrary) -> None:
    buffer = make_buffer(vip, plain(10))
    assert vip.vip_flush_buffer(buffer, BufferOperation.NONE) == INVALID
    assert vip.vip_flush_buffer(buffer, 3) == INVALID
    assert vip.vip_flush_buffer(0, BufferOperation.FLUSH) == INVALID


def test_strict_caches(vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
    with prepared(vip, relu()) as network:
        source = make_buffer(vip, parameters(vip, network, "input"))
        target = make_buffer(vip, parameters(vip, network, "output"))
        assert vip.vip_set_input(network, 0, source) == OK
        assert vip.vip_set_output(network, 0, target) == OK
        bytes_of(vip, source)[:] = 200
        assert vip.vip_run_network(network) == OK
        assert set(bytes_of(vip, target)) == {0xA5}
        assert vip.vip_flush_buffer(target, BufferOperation.INVALIDATE) == OK
        assert set(bytes_of(vip, target)) == {125}  # relu of the zeros that the device saw
        assert vip.vip_flush_buffer(source, BufferOperation.FLUSH) == OK
        assert vip.vip_run_network(network) == OK
        assert vip.vip_flush_buffer(target, BufferOperation.INVALIDATE) == OK
        assert set(bytes_of(vip, target)) == {200}
