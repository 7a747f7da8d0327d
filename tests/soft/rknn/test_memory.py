"""rknn_create_mem and its kin, rknn_destroy_mem, rknn_mem_sync."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import MemoryFlag as Flags
from anynpu.rknn.abi import SyncMode as Sync
from anynpu.rknn.library import RknnLibrary

from ... import models
from ...capi import SUCC, init, opened


def bytes_of(mem: object) -> np.ndarray:
    """The buffer of a memory as the program sees it."""
    contents = mem.contents  # type: ignore[attr-defined]
    buffer = (ctypes.c_uint8 * contents.size).from_address(contents.virt_addr)
    return np.frombuffer(memoryview(buffer), np.uint8)


def test_memory_is_zeroed_writable_and_described(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        mem = npu.rknn_create_mem(context, 1000)
        contents = mem.contents  # type: ignore[attr-defined]
        assert contents.size == 1000
        assert contents.flags == abi.MemoryOrigin.ALLOC_INSIDE
        assert contents.offset == 0
        assert contents.fd > 2
        assert contents.phys_addr > 0
        data = bytes_of(mem)
        assert not data.any()
        data[:] = 7
        assert npu.rknn_destroy_mem(context, mem) == SUCC


@pytest.mark.parametrize(
    "flags", [Flags.FLAGS_DEFAULT, Flags.CACHEABLE, Flags.NON_CACHEABLE, Flags.TRY_ALLOC_SRAM]
)
def test_kinds_of_memory(npu: RknnLibrary, flags: Flags) -> None:
    with opened(npu, models.add_one()) as context:
        mem = npu.rknn_create_mem2(context, 5000, flags)
        bytes_of(mem)[:] = 1
        assert npu.rknn_destroy_mem(context, mem) == SUCC


@pytest.mark.parametrize("size", [2**21 - 1, 2**21, 2**22 + 4097, 2**28 + 1])
def test_large_memory(npu: RknnLibrary, size: int) -> None:
    """It has the size that was asked for, and the descriptor its bytes."""
    mem = npu.rknn_create_mem2(0, size, Flags.ALLOC_NO_CONTEXT)
    contents = mem.contents  # type: ignore[attr-defined]
    data = bytes_of(mem)
    assert contents.size == data.size == size
    is_aligned = contents.virt_addr % 2**21 == 0
    assert is_aligned or not 2**21 <= size <= 2**28
    assert os.fstat(contents.fd).st_size == -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    assert not data[:: mmap.PAGESIZE].any()
    assert not data[-1]
    data[-1], data[0] = 7, 3
    assert os.pread(contents.fd, 1, size - 1) == b"\7"
    assert os.pread(contents.fd, 1, 0) == b"\3"
    assert npu.rknn_destroy_mem(0, mem) == SUCC


def test_large_memory_goes_when_it_is_destroyed(npu: RknnLibrary) -> None:
    def mapped() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * mmap.PAGESIZE

    def cycle() -> None:
        mem = npu.rknn_create_mem2(0, 2**23, Flags.ALLOC_NO_CONTEXT)
        bytes_of(mem)[:] = 1
        assert npu.rknn_destroy_mem(0, mem) == SUCC

    cycle()
    before = mapped()
    for _ in range(20):
        cycle()
    assert mapped() - before < 2**23


def test_memory_without_a_context(npu: RknnLibrary) -> None:
    mem = npu.rknn_create_mem2(0, 100, Flags.ALLOC_NO_CONTEXT)
    bytes_of(mem)[:] = 1
    assert npu.rknn_destroy_mem(0, mem) == SUCC


def test_another_process_sees_the_data(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        mem = npu.rknn_create_mem(context, 4096)
        data = bytes_of(mem)
        data[:3] = (1, 2, 3)
        fd = mem.contents.fd  # type: ignore[attr-defined]
        program = f"import mmap; m = mmap.mmap({fd}, 4096); print(m[0], m[1], m[2]); m[10] = 99"
        result = subprocess.run(
            [sys.executable, "-c", program],
            pass_fds=[fd],
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout == "1 2 3\n"
        assert data[10] == 99
        assert npu.rknn_destroy_mem(context, mem) == SUCC


def test_memory_from_a_descriptor(npu: RknnLibrary) -> None:
    fd = os.memfd_create("test")
    os.ftruncate(fd, 8192)
    mapping = mmap.mmap(fd, 8192)
    mapping[5000] = 42
    start = np.frombuffer(mapping, np.uint8).ctypes.data
    with opened(npu, models.add_one()) as context:
        mem = npu.rknn_create_mem_from_fd(context, fd, start, 3000, 4096)
        contents = mem.contents  # type: ignore[attr-defined]
        assert (contents.virt_addr, contents.fd) == (start, fd)
        assert (contents.offset, contents.size) == (4096, 3000)
        assert contents.flags == abi.MemoryOrigin.FROM_FD
        assert npu.rknn_destroy_mem(context, mem) == SUCC
        # The structure has what the caller knows: no address, and no physical one.
        mem = npu.rknn_create_mem_from_fd(context, fd, None, 3000, 4096)
        contents = mem.contents  # type: ignore[attr-defined]
        assert (contents.virt_addr, contents.phys_addr) == (None, 2**64 - 1)
        assert npu.rknn_destroy_mem(context, mem) == SUCC
    assert os.fstat(fd).st_size == 8192  # the caller's descriptor is still open
    os.close(fd)


def test_descriptors_that_are_no_memory(npu: RknnLibrary) -> None:
    fd = os.memfd_create("test")
    os.ftruncate(fd, 4096)
    read, write = os.pipe()
    with opened(npu, models.add_one()) as context:
        for bad, size, offset in (
            (-1, 10, 0), (12345, 10, 0), (read, 10, 0), (fd, 0, 0), (fd, 4097, 0),
            (fd, 1, 4096), (fd, 10, -1),
        ):  # fmt: skip
            assert not npu.rknn_create_mem_from_fd(context, bad, None, size, offset)
    for descriptor in (fd, read, write):
        os.close(descriptor)


def test_memory_by_its_physical_address(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        whole = npu.rknn_create_mem(context, 1000)
        physical = whole.contents.phys_addr  # type: ignore[attr-defined]
        part = npu.rknn_create_mem_from_phys(context, physical + 100, None, 50)
        contents = part.contents  # type: ignore[attr-defined]
        assert contents.virt_addr is None, "the structure has what the caller knows"
        assert npu.rknn_destroy_mem(context, part) == SUCC
        inside = whole.contents.virt_addr + 100  # type: ignore[attr-defined]
        part = npu.rknn_create_mem_from_phys(context, physical + 100, inside, 50)
        contents = part.contents  # type: ignore[attr-defined]
        assert contents.flags == abi.MemoryOrigin.FROM_PHYS
        assert (contents.phys_addr, contents.size, contents.fd) == (physical + 100, 50, -1)
        bytes_of(part)[:] = 9
        assert bytes_of(whole)[100:150].all()
        assert npu.rknn_destroy_mem(context, whole) == SUCC
        assert bytes_of(part).all()  # what it lies in is kept
        assert npu.rknn_destroy_mem(context, part) == SUCC
        mine = np.zeros(64, np.uint8)
        mapped = npu.rknn_create_mem_from_phys(context, 0x1234, mine.ctypes.data, 64)
        bytes_of(mapped)[:] = 3
        assert mine.all()
        assert npu.rknn_destroy_mem(context, mapped) == SUCC
        assert not npu.rknn_create_mem_from_phys(context, 0x1234, None, 64)
        assert not npu.rknn_create_mem_from_phys(context, 0, None, 64)
        assert not npu.rknn_create_mem_from_phys(context, physical, None, 0)


def test_media_blocks_are_refused(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(npu, models.add_one()) as context:
        assert not npu.rknn_create_mem_from_mb_blk(context, None, 0)
    assert "not supported" in capfd.readouterr().err


def test_sizes_that_cannot_be_had(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(npu, models.add_one()) as context:
        assert not npu.rknn_create_mem(context, 0)
        assert not npu.rknn_create_mem2(context, 0, 0)
        assert not npu.rknn_create_mem2(context, 2**32, 0)
        assert not npu.rknn_create_mem2(context, 2**63, 0)
    assert "failed to malloc npu memory, size: 4294967296, flags: 0x0" in capfd.readouterr().err


def test_a_foreign_context(npu: RknnLibrary) -> None:
    assert not npu.rknn_create_mem(12345678, 10)
    assert not npu.rknn_create_mem2(12345678, 10, 0)
    assert not npu.rknn_create_mem_from_fd(12345678, 0, None, 10, 0)


def test_destroying_twice(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        mem = npu.rknn_create_mem(context, 100)
        assert npu.rknn_destroy_mem(context, mem) == SUCC
        assert npu.rknn_destroy_mem(context, mem) == Code.PARAM_INVALID
        assert npu.rknn_mem_sync(context, mem, Sync.TO_DEVICE) == Code.PARAM_INVALID
        assert npu.rknn_destroy_mem(context, None) == Code.PARAM_INVALID
        made_up = abi.TensorMem()
        assert npu.rknn_destroy_mem(context, ctypes.byref(made_up)) == Code.PARAM_INVALID


def test_a_copy_of_the_structure_is_as_good(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        mem = npu.rknn_create_mem(context, 100)
        copy = abi.TensorMem.from_buffer_copy(mem.contents)  # type: ignore[attr-defined]
        assert npu.rknn_mem_sync(context, ctypes.byref(copy), Sync.TO_DEVICE) == SUCC
        assert npu.rknn_destroy_mem(context, ctypes.byref(copy)) == SUCC
        assert npu.rknn_destroy_mem(context, mem) == Code.PARAM_INVALID


def test_a_context_frees_its_memory(npu: RknnLibrary) -> None:
    _, context = init(npu, models.add_one())
    mems = [npu.rknn_create_mem(context, 100) for _ in range(10)]
    descriptors = [mem.contents.fd for mem in mems]  # type: ignore[attr-defined]
    assert npu.rknn_destroy(context) == SUCC
    for mem, fd in zip(mems, descriptors, strict=True):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        assert npu.rknn_destroy_mem(context, mem) == Code.CTX_INVALID


def test_synchronising(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        mem = npu.rknn_create_mem(context, 100)
        for mode in Sync:
            assert npu.rknn_mem_sync(context, mem, mode) == SUCC
        for number in (0, 4, -1):
            assert npu.rknn_mem_sync(context, mem, number) == Code.PARAM_INVALID
        assert npu.rknn_mem_sync(context, None, Sync.TO_DEVICE) == Code.PARAM_INVALID
        assert npu.rknn_destroy_mem(context, mem) == SUCC


def test_no_descriptor_leaks(npu: RknnLibrary) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with opened(npu, models.add_one()) as context:
        before = descriptors()
        for flags in (Flags.FLAGS_DEFAULT, Flags.ALLOC_NO_CONTEXT):
            for _ in range(5000):
                mem = npu.rknn_create_mem2(context, 64, flags)
                assert npu.rknn_destroy_mem(context, mem) == SUCC
        assert descriptors() == before


def test_eight_threads_on_one_context(npu: RknnLibrary) -> None:
    failures: list[str] = []

    def work(number: int) -> None:
        for _ in range(200):
            mem = npu.rknn_create_mem(context, 512)
            data = bytes_of(mem)
            data[:] = number
            if not (data == number).all():
                failures.append("mixed")
            del data
            if npu.rknn_destroy_mem(context, mem) != SUCC:
                failures.append("destroy")

    with opened(npu, models.add_one()) as context:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
