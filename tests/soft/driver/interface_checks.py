"""Checks of the kernel interface from within a process that has the driver's library.

python -m tests.soft.driver.interface_checks NAME
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import random
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from .kernel import (
    CLOSE,
    CREATE,
    DESTROY,
    DRM,
    FLINK,
    FROM_FD,
    HEAP,
    MAP,
    MISC,
    OPEN_NAME,
    SUBMIT,
    SYNC,
    TO_FD,
    UNIQUE,
    VERSION,
    Device,
    Memory,
    RequestError,
    request,
)


@contextmanager
def fails(*numbers: int) -> Iterator[None]:
    """The block must fail with one of these errors."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is looked at
        yield
    assert caught.value.errno in numbers, caught.value


def version() -> None:
    """DRM says who the driver is; the NPU says which hardware and which driver."""
    device = Device()
    texts = [ctypes.create_string_buffer(32) for _ in range(3)]
    addresses = [ctypes.addressof(text) for text in texts]
    layout = "<3i4xQQQQQQ"
    data = struct.pack(layout, 0, 0, 0, *(v for a in addresses for v in (32, a)))
    answer = struct.unpack(layout, request(device.descriptor, DRM, VERSION, data))
    assert answer[:3] == (0, 9, 2)
    assert texts[0].value == b"rknpu"
    assert answer[3] == len("rknpu")
    assert device.drm(UNIQUE, "<QQ", 0, 0)[0] == 0
    assert (device.action(0), device.action(1)) == (0x46495245, 902)
    with fails(errno.EINVAL):
        device.action(99)


def memory() -> None:
    """Objects have whole pages, zeros, addresses below 4 GB that don't overlap."""
    device = Device()
    sizes = (1, 4095, 4096, 4097, 1 << 20)
    found = [device.create(size) for size in sizes]
    assert [m.size for m in found] == [4096, 4096, 4096, 8192, 1 << 20]
    assert not any(m.data.any() for m in found)
    ranges = sorted((m.address, m.address + m.size) for m in found)
    assert ranges[-1][1] <= 1 << 32
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
    found[0].data[:] = 7
    again = device.map(device.npu(MAP, "<IIQ", found[0].handle, 0, 0)[2], 4096)
    assert (again == 7).all()
    with fails(errno.EINVAL):
        device.map(found[0].handle << 12, 8192)
    with fails(errno.EINVAL):
        device.create(0)
    with fails(errno.ENOMEM):
        device.create(1 << 33)
    assert device.create(1, handle=found[3].handle).name == found[3].name
    device.npu(SYNC, "<IIQQQ", 1, 0, found[0].name, 0, 4096)
    place = found[-1].address
    for one in found:
        device.destroy(one)
    assert device.create(1 << 20).address != 0
    with fails(errno.EINVAL):
        device.destroy(found[1])
    with fails(errno.EINVAL):
        device.npu(SYNC, "<IIQQQ", 1, 0, found[1].name, 0, 4096)
    assert place


def addresses_are_used_again() -> None:
    """Programs may make and drop memory for as long as they want."""
    device = Device()
    first = device.create(1 << 24).address
    for _ in range(1000):
        one = device.create(1 << 24)
        assert first - one.address == 1 << 24
        device.destroy(one)


def sharing() -> None:
    """Objects go out as descriptors and come in as such, with the same bytes."""
    device, other = Device(), Device("/dev/dri/renderD129")
    one = device.create(8192)
    descriptor = device.drm(TO_FD, "<IIi", one.handle, 0, 0)[2]
    with mmap.mmap(descriptor, 8192) as view:
        view[5] = 9
    assert one.data[5] == 9
    assert other.drm(FROM_FD, "<IIi", 0, 0, descriptor)[0] == one.handle
    name = device.drm(FLINK, "<IIQ", one.handle, 0, 0)[1]
    assert device.drm(OPEN_NAME, "<IIQ", name, 0, 0)[2] == 8192
    for _ in range(3):
        device.drm(CLOSE, "<II", one.handle, 0)
    with fails(errno.EINVAL):
        device.drm(CLOSE, "<II", one.handle, 0)
    with fails(errno.ENOENT):
        device.drm(TO_FD, "<IIi", one.handle, 0, 0)
    own = os.memfd_create("own")
    os.ftruncate(own, 5000)
    handle = device.drm(FROM_FD, "<IIi", 0, 0, own)[0]
    assert device.npu(CREATE, "<IIQQQQiI", handle, 0, 1, 0, 0, 0, 0, 0)[2] == 8192
    with fails(errno.EBADF):
        device.drm(FROM_FD, "<IIi", 0, 0, 9999)
    with fails(errno.EINVAL):
        device.drm(FROM_FD, "<IIi", 0, 0, os.open("/dev/null", os.O_RDWR))


def misuse() -> None:
    """What no driver knows, wrong addresses, structures of other lengths: an error, no crash."""
    device = Device()
    with fails(errno.EINVAL):
        device.npu(30, "<IIQ", 0, 0, 0)
    with fails(errno.EINVAL):
        device.drm(0x30, "<II", 0, 0)
    with fails(errno.ENOTTY):
        request(device.descriptor, ord("x"), 1, b"\0" * 8)
    for number, size in ((SUBMIT, 104), (CREATE, 48), (MAP, 16), (DESTROY, 16), (SYNC, 32)):
        for address in (0, 8, 0xFFFF_FFFF_FFFF_F000):
            with fails(errno.EFAULT):
                request(device.descriptor, DRM, 0x40 + number, b"\0" * size, at=address)
    # A runtime of another version has shorter structures.
    assert device.npu(CREATE, "<IIQQQQ", 0, 0, 4096, 0, 0, 0)[4]
    with fails(errno.EINVAL):
        device.submit(Memory(0, 0, 12345, 0, np.zeros(1, np.uint8)), [(0, 1)])
    tasks = device.create(4096)
    device.submit(tasks, [(0, 1)], job_range=(0, 1))
    with fails(errno.EINVAL):
        device.submit(tasks, [(0, 1)], job_range=(0, 1000))


def anything() -> None:
    """Random requests end with success or an error."""
    device = Device()
    chance = random.Random(1)
    for _ in range(5000):
        number = chance.choice((*range(0x40, 0x48), 0x00, 0x01, 0x09, 0x0A, 0x0B, 0x2D, 0x2E, 0x77))
        size = chance.choice((0, 4, 8, 12, 16, 32, 40, 48, 64, 104, 200))
        data = chance.randbytes(size)
        if chance.random() < 0.5:
            data = bytes(chance.choice((0, 0, 0, 1, 2)) for _ in range(size))
        with suppress(RequestError):
            request(device.descriptor, DRM, number, data)


def paths() -> None:
    """The board's files are there, this machine's devices are not, and can't be made."""
    compatible = Path("/proc/device-tree/compatible").read_bytes()
    assert compatible.split(b"\0")[1] == b"rockchip,rk3588"
    assert os.uname().machine == "armv9l"
    assert os.stat("/dev/dri/card1").st_rdev == os.makedev(226, 1)
    assert os.access("/dev/dri/card1", os.R_OK)
    assert not os.path.exists("/dev/dri/card0")
    with fails(errno.ENOENT):
        os.open("/dev/rknpu", os.O_RDWR)
    with fails(errno.EPERM):
        os.mknod("/dev/dri/card0")
    with fails(errno.EPERM):
        os.unlink("/dev/dri/card1")
    assert Path(__file__).read_text()
    descriptor = Device().descriptor
    copy = os.dup(descriptor)
    os.close(descriptor)
    assert os.fstat(copy).st_rdev == os.makedev(226, 1)
    assert request(copy, DRM, 0x40, struct.pack("<II", 1, 0))


def small_chip() -> None:
    """RV1106's kernel has a device of its own, and memory from DMA heaps."""
    device = Device("/dev/rknpu", MISC)
    with fails(errno.ENOENT):
        Device()
    heap = os.open("/dev/dma_heap/system", os.O_RDWR)
    answer = struct.unpack("<QIIQ", request(heap, HEAP, 0, struct.pack("<QIIQ", 10000, 0, 0, 0)))
    with mmap.mmap(answer[1], 12288) as view:
        view[0] = 3
        assert request(answer[1], ord("b"), 0, struct.pack("<Q", 5))
        handle, _, size, _, address, *_ = device.npu(
            CREATE, "<IIQQQQiI", answer[1], 0, 10000, 0, 0, 0, 0, 0
        )
        assert size == 12288
        assert address
        assert device.map(device.npu(MAP, "<IIQ", handle, 0, 0)[2], 4096)[0] == 3


def faults() -> None:
    """Calls fail as they were told to: submit@2=ETIMEDOUT,create@3+=ENOMEM."""
    device = Device()
    tasks = device.create(4096)
    device.create(1)
    for _ in range(3):
        with fails(errno.ENOMEM):
            device.create(1)
    device.submit(tasks, [(0, 1)], job_range=(0, 1))
    with fails(errno.ETIMEDOUT):
        device.submit(tasks, [(0, 1)], job_range=(0, 1))
    device.submit(tasks, [(0, 1)], job_range=(0, 1))


def refused_jobs() -> None:
    """With an engine: tasks that no NPU could compute are an error of the job alone."""
    device = Device()
    tasks, commands = device.create(4096), device.create(4096)
    record = tasks.data[:40].view("<u4")
    for address, count in ((0, 4), (commands.address, 10_000), (commands.address, 4)):
        record[2] = 0x1D
        record[6] = count
        record[8] = address
        with fails(errno.EIO):
            device.submit(tasks, [(0, 1)], job_range=(0, 1))
    with fails(errno.EIO):
        device.submit(tasks, [(0, 1)], cores=5)
    with fails(errno.EIO):
        device.submit(tasks, [(0, 1)], flags=0)
    with fails(errno.EIO):
        device.submit(tasks, [(100, 100)], job_range=(0, 1))
    device.submit(tasks, [(0, 0)])
    device.destroy(commands)
    device.submit(tasks, [(0, 0)])


def many_objects() -> None:
    """More objects are dropped between two jobs than one message each would be worth."""
    device = Device()
    tasks = device.create(4096)
    others = [device.create(4096) for _ in range(300)]
    device.submit(tasks, [(0, 0)])
    for one in others:
        device.destroy(one)
    again = device.create(1 << 20)
    again.data[:40].view("<u4")[[2, 6]] = 0x1D, 4
    with fails(errno.EIO):
        device.submit(again, [(0, 1)])
    device.submit(tasks, [(0, 0)])


def memory_stays() -> None:
    """What the engine has mapped can't get shorter, nor grow out of it."""
    device = Device()
    one = device.create(8192)
    descriptor = device.drm(TO_FD, "<IIi", one.handle, 0, 0)[2]
    device.submit(one, [(0, 0)])
    with fails(errno.EPERM):
        os.ftruncate(descriptor, 0)
    own = os.memfd_create("own")
    os.ftruncate(own, 8192)
    device.drm(FROM_FD, "<IIi", 0, 0, own)
    device.submit(one, [(0, 0)])


def forked() -> None:
    """A child has memory and an engine of its own."""
    device = Device()
    tasks = device.create(4096)
    device.submit(tasks, [(0, 0)])
    child = os.fork()
    if child == 0:
        device.submit(device.create(4096), [(0, 0)])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    device.submit(tasks, [(0, 0)])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
