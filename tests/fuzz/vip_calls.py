"""Calls of the VIPLite C API without sense, as `rknn_calls` has them."""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from anynpu.soft.device_memory import strict
from anynpu.viplite import abi
from anynpu.viplite.abi import Status
from anynpu.viplite.library import VipliteLibrary

from .. import models
from ..soft.test_nbg import SOFT
from ..soft.viplite.client import OK, network_file, plain, relu
from .compiled_files import FOLDER

KNOWN_CODES = set(Status)
_COMPILED = ("minimum.a733", "minimum.t527", "residual.t527")


@cache
def valid() -> tuple[bytes, ...]:
    """Sound files of all kinds."""
    soft = (relu(), relu("t527"), network_file(models.two_inputs()), SOFT)
    return (*soft, *((FOLDER / "nbg" / f"{name}.nb").read_bytes() for name in _COMPILED))


class VipCalls:
    """Calls with random arguments: pointers are NULL or to memory that is large enough."""

    def __init__(self, vip: VipliteLibrary, seed: int) -> None:
        self.vip = vip
        self.random = random.Random(seed)
        self.networks: list[int] = []
        self.buffers: list[int] = []
        self.groups: list[int] = []
        self.memory = np.zeros(1 << 16, np.uint8)
        self.address = -(-self.memory.ctypes.data // 64) * 64
        self.descriptor = os.memfd_create("fuzz")
        os.ftruncate(self.descriptor, 8192)

    # ------------------------------------------------------------------------------ arguments

    def number(self) -> int:
        return self.random.choice([0, 1, 2, 3, 5, 7, 16, 64, 100, 2**31 - 1, 2**32 - 1])

    def property(self) -> int:
        ordinary = self.random.randrange(12)
        return self.random.choice([ordinary, ordinary, 64 + ordinary, 1024, -1, 2**31 - 1])

    def handle(self, living: list[int]) -> int | None:
        made_up = [None, 7, 2**64 - 1, self.random.getrandbits(64)]
        others = self.networks[-1:] + self.buffers[-1:] + self.groups[-1:]
        return self.random.choice(3 * living[-4:] + others + made_up)

    def pointer(self) -> int | None:
        if self.random.random() < 0.1:
            return None
        self.memory[:64] = self.random.choice([0, 0, 1, 255])
        # A value may be read as text: it ends.
        self.memory[4096] = 0
        return self.memory.ctypes.data

    def setting(self) -> int | None:
        """A property's value: a pointer, or a buffer itself."""
        return self.random.choice([self.pointer(), self.handle(self.buffers)])

    def params(self) -> Any:
        given_params = plain(self.random.choice([60, 60, 60, 6, 240, 0, self.number()]))
        given_params.num_of_dims = self.random.choice([1, 1, 1, 1, self.number()])
        given_params.data_format = self.random.choice([2, 2, 1, 5, self.number() & 31])
        given_params.quant_format = self.random.choice([0, 0, 1, 2, 3])
        given_params.memory_type = self.random.choice([0, 0, 0, 1, 2, 3, 4])
        size = given_params.sizes[0]
        # Memory that is had is touched at once in strict mode.
        if size > 2**20 and given_params.num_of_dims == 1:
            given_params.sizes[0] = 2**20 if strict() else 2**28
        return self.random.choice([*3 * [ctypes.byref(given_params)], None])

    def keep(self, code: int, handle: ctypes.c_void_p, living: list[int]) -> int:
        if code == OK:
            assert handle.value
            living.append(handle.value)
        return code

    def out(self, handle: ctypes.c_void_p) -> Any:
        return self.random.choice([*5 * [ctypes.byref(handle)], None])

    # ---------------------------------------------------------------------------------- calls

    def create_network(self) -> int:
        model = self.random.choice(valid())
        if self.random.random() < 0.2:
            model = model[: self.random.randrange(1, len(model))]
        network = ctypes.c_void_p()
        kind = self.random.choice([2, 2, 2, 4, 0, -1])
        return self.keep(
            self.vip.vip_create_network(model, len(model), kind, self.out(network)),
            network,
            self.networks,
        )

    def dup_network(self) -> int:
        model, network = self.random.choice(valid()), ctypes.c_void_p()
        kind = self.random.choice([0, 1, 2, 0x200, 0x201, 0x400, 0x800, 0x802, 0x300, -1])
        data = self.random.choice([model, None])
        handle = self.handle(self.networks)
        calls = (
            lambda: self.vip.vip_dup_network(data, len(model), kind, handle, self.out(network)),
            lambda: self.vip.vip_weak_dup_network(handle, self.out(network)),
        )
        return self.keep(self.random.choice(calls)(), network, self.networks)

    def destroy_network(self) -> int:
        handle = self.handle(self.networks)
        if handle in self.networks:
            if len(self.networks) < 4:
                return OK
            self.networks.remove(handle)
        return self.vip.vip_destroy_network(handle)

    def network_call(self) -> int:
        calls = (
            self.vip.vip_prepare_network,
            self.vip.vip_prepare_network,
            self.vip.vip_finish_network,
            self.vip.vip_wait_network,
            self.vip.vip_cancel_network,
        )
        return self.random.choice(calls)(self.handle(self.networks))

    def run(self) -> int:
        calls = (self.vip.vip_run_network, self.vip.vip_trigger_network)
        return self.random.choice(calls)(self.handle(self.networks))

    def query(self) -> int:
        handle, what = self.handle(self.networks), self.property()
        calls = (
            lambda: self.vip.vip_query_network(handle, what, self.pointer()),
            lambda: self.vip.vip_query_input(handle, self.number(), what, self.pointer()),
            lambda: self.vip.vip_query_output(handle, self.number(), what, self.pointer()),
            lambda: self.vip.vip_query_hardware(
                what % 4, self.random.choice([4, self.number()]), self.pointer()
            ),
        )
        return self.random.choice(calls)()

    def make_ready(self) -> int:
        """What an honest client does, so that runs succeed, too."""
        for action in (abi.PowerProperty.ON, abi.PowerProperty.START):
            assert self.vip.vip_power_management(0, action, None) == OK
        network = self.random.choice(self.networks or [0])
        self.vip.vip_prepare_network(network)
        buffer = ctypes.c_void_p()
        code = self.vip.vip_create_buffer(ctypes.byref(plain(240)), 0, ctypes.byref(buffer))
        assert code == OK
        self.keep(code, buffer, self.buffers)
        for index in range(2):
            self.vip.vip_set_input(network, index, buffer)
            self.vip.vip_set_output(network, index, buffer)
        code = self.vip.vip_run_network(network)
        if self.groups and code == OK:
            group = self.random.choice(self.groups)
            self.vip.vip_add_network(group, network)
            self.vip.vip_run_group(group, 1)
        return code

    def set_network(self) -> int:
        what = self.property()
        buffer_itself = what in (abi.NetworkProperty.SET_MEMORY_POOL, 69)
        value = self.setting() if buffer_itself else self.pointer()
        return self.vip.vip_set_network(self.handle(self.networks), what, value)

    def set_ppu_param(self) -> int:
        param = self.random.choice([ctypes.byref(abi.PpuParam()), None])
        return self.vip.vip_set_ppu_param(self.handle(self.networks), param, self.number())

    def bind(self) -> int:
        calls = (self.vip.vip_set_input, self.vip.vip_set_output)
        index = self.random.choice([0, 0, 0, 1, self.number()])
        return self.random.choice(calls)(
            self.handle(self.networks), index, self.handle(self.buffers)
        )

    def create_buffer(self) -> int:
        buffer = ctypes.c_void_p()
        out, size = self.out(buffer), self.random.choice([0, 0, 48, self.number()])
        table = self.random.choice([None, (ctypes.c_uint64 * 2)(0x1000_0000, 64)])
        lengths = self.random.choice([None, (ctypes.c_uint32 * 2)(128, 64)])
        makers: list[Callable[[], int]] = [
            lambda: self.vip.vip_create_buffer(self.params(), size, out),
            lambda: self.vip.vip_create_buffer_cache(self.params(), size, out),
            lambda: self.vip.vip_create_buffer_from_handle(
                self.params(),
                self.random.choice([self.address, self.address, self.address + 1, None]),
                self.random.choice([64, 128, 4096, 100, 0]),
                out,
            ),
            lambda: self.vip.vip_create_buffer_from_fd(
                self.params(),
                self.random.choice([self.descriptor, self.descriptor, 99999, 2**32 - 1]),
                self.random.choice([64, 8192, 8256, 100]),
                out,
            ),
            lambda: self.vip.vip_create_buffer_from_physical(
                self.params(), table, lengths, self.random.choice([0, 1, 2]), out
            ),
        ]
        return self.keep(self.random.choice(makers)(), buffer, self.buffers)

    def destroy_buffer(self) -> int:
        handle = self.handle(self.buffers)
        code = self.vip.vip_destroy_buffer(handle)
        if code == OK:
            assert handle is not None
            self.buffers.remove(handle)
        return code

    def use_buffer(self) -> int:
        handle = self.handle(self.buffers)
        address, size = self.vip.vip_map_buffer(handle), self.vip.vip_get_buffer_size(handle)
        assert bool(address) == bool(size)
        if address:
            ctypes.memset(address, 1, min(size, 64))
        calls: list[Callable[[], int]] = [
            lambda: self.vip.vip_unmap_buffer(handle),
            lambda: self.vip.vip_flush_buffer(handle, self.random.choice([0, 1, 2, 3, -1])),
        ]
        return self.random.choice(calls)()

    def create_group(self) -> int:
        group = ctypes.c_void_p()
        count = self.random.choice([1, 2, 3, self.number()])
        return self.keep(self.vip.vip_create_group(count, self.out(group)), group, self.groups)

    def destroy_group(self) -> int:
        handle = self.handle(self.groups)
        code = self.vip.vip_destroy_group(handle)
        if code == OK:
            assert handle is not None
            self.groups.remove(handle)
        return code

    def use_group(self) -> int:
        handle, count = self.handle(self.groups), self.random.choice([1, 2, self.number()])
        what = self.property()
        calls: list[Callable[[], int]] = [
            lambda: self.vip.vip_add_network(handle, self.handle(self.networks)),
            lambda: self.vip.vip_add_network(handle, self.handle(self.networks)),
            lambda: self.vip.vip_run_group(handle, count),
            lambda: self.vip.vip_trigger_group(handle, count),
            lambda: self.vip.vip_wait_group(handle),
            lambda: self.vip.vip_set_group(handle, what, self.pointer()),
            lambda: self.vip.vip_query_group(handle, what, self.pointer()),
        ]
        return self.random.choice(calls)()

    def power(self) -> int:
        action = self.random.choice([4, 16, 4, 16, 1, 2, 8, self.number() & 31])
        return self.vip.vip_power_management(self.number() & 1, action, self.pointer())

    def driver(self) -> int:
        assert self.vip.vip_get_version() == 0x00020003
        assert self.vip.vip_init() == OK
        assert self.vip.vip_set_log_path(self.random.choice([None, b"", b"/none"])) in KNOWN_CODES
        return self.vip.vip_destroy()

    def go(self, steps: int) -> None:
        rare = [
            self.create_network, self.destroy_network, self.dup_network, self.create_group,
            self.destroy_group, self.power, self.driver,
        ]  # fmt: skip
        common = [
            self.network_call, self.run, self.query, self.set_network, self.set_ppu_param,
            self.bind, self.make_ready, self.create_buffer, self.destroy_buffer, self.use_buffer,
            self.use_group,
        ]  # fmt: skip
        for _ in range(3):
            self.create_network()
        for _ in range(steps):
            code = self.random.choice(rare + 3 * common)()
            assert code in KNOWN_CODES, code
        for network in self.networks:
            assert self.vip.vip_destroy_network(network) == OK
        for buffer in self.buffers:
            assert self.vip.vip_destroy_buffer(buffer) == OK
        for group in self.groups:
            assert self.vip.vip_destroy_group(group) == OK
        os.close(self.descriptor)
