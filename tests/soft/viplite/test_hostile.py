"""What no client may do to the process: damaged networks, senseless calls, leaks."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anynpu.soft.viplite import IMPLEMENTED
from anynpu.viplite import abi
from anynpu.viplite.library import VipliteLibrary, load

from ... import models
from ...fuzz.vip_calls import KNOWN_CODES, VipCalls, valid
from ...test_endurance import MEGABYTE, growth
from .client import (
    OK,
    bind_all,
    create,
    infer,
    make_buffer,
    network_file,
    plain,
    prepared,
    relu,
)


def try_network(vip: VipliteLibrary, data: bytes) -> None:
    """Loading and running must end in a code, whatever the bytes."""
    code, network = create(vip, data)
    assert code in KNOWN_CODES
    if code != OK:
        assert network is None
        return
    if vip.vip_prepare_network(network) == OK:
        bind_all(vip, network)
        assert vip.vip_run_network(network) in KNOWN_CODES
    assert vip.vip_destroy_network(network) == OK


@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_damaged_networks(data: st.DataObject) -> None:
    vip = load("soft")
    assert vip.vip_init() == OK
    network = bytearray(data.draw(st.sampled_from(valid())))
    # The ONNX file inside is damaged less often than the tables in front of it.
    end = data.draw(st.sampled_from([100, 700, 1500, len(network)]))
    for _ in range(data.draw(st.integers(1, 4))):
        network[data.draw(st.integers(0, min(end, len(network)) - 1))] = data.draw(
            st.integers(0, 255)
        )
    length = data.draw(st.sampled_from([None, None, None, end, len(network) - 1]))
    try_network(vip, bytes(network[:length]))
    assert vip.vip_destroy() == OK


def test_the_fuzzer_calls_every_function() -> None:
    source = inspect.getsource(VipCalls)
    for name in IMPLEMENTED:
        if name.startswith("vip_"):
            assert f"self.vip.{name}" in source, name


@pytest.mark.parametrize("seed", range(4))
def test_random_calls(
    vip: VipliteLibrary,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if seed % 2:
        monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
    VipCalls(vip, seed).go(2500)
    assert "internal error" not in capfd.readouterr().err


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 105))
def test_very_many_random_calls(
    vip: VipliteLibrary, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    for part in range(10):
        VipCalls(vip, 10 * seed + part).go(10_000)
        assert "internal error" not in capfd.readouterr().err


class Crowd:
    """Threads that use the same networks, buffers and groups, and destroy them under each other."""

    def __init__(self, vip: VipliteLibrary) -> None:
        self.vip = vip
        self.networks = [self.network() for _ in range(4)]
        self.buffers = [make_buffer(vip, plain(60)) for _ in range(6)]
        self.group = ctypes.c_void_p()
        assert vip.vip_create_group(3, ctypes.byref(self.group)) == OK

    def network(self) -> int:
        _, network = create(self.vip, relu())
        milliseconds = ctypes.c_uint32(random.choice([0, 1, 5000]))
        address = ctypes.addressof(milliseconds)
        self.vip.vip_set_network(network, abi.NetworkProperty.SET_TIME_OUT, address)
        assert self.vip.vip_prepare_network(network) == OK
        made: int = network
        return made

    def replace(self, chosen: random.Random) -> int:
        if chosen.random() < 0.5:
            index = chosen.randrange(len(self.buffers))
            code = self.vip.vip_destroy_buffer(self.buffers[index])
            self.buffers[index] = make_buffer(self.vip, plain(60))
        else:
            index = chosen.randrange(len(self.networks))
            code = self.vip.vip_destroy_network(self.networks[index])
            self.networks[index] = self.network()
        return code

    def step(self, chosen: random.Random) -> int:
        vip, group = self.vip, self.group
        network, buffer = chosen.choice(self.networks), chosen.choice(self.buffers)
        calls: list[Callable[[], int]] = [
            lambda: vip.vip_run_network(network),
            lambda: vip.vip_trigger_network(network),
            lambda: vip.vip_wait_network(network),
            lambda: vip.vip_cancel_network(network),
            lambda: vip.vip_set_input(network, 0, buffer),
            lambda: vip.vip_set_output(network, 0, buffer),
            lambda: vip.vip_add_network(group, network),
            lambda: vip.vip_run_group(group, chosen.randint(1, 3)),
            lambda: vip.vip_trigger_group(group, 1),
            lambda: vip.vip_wait_group(group),
            lambda: self.replace(chosen),
        ]
        weights = [2, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1]
        (call,) = chosen.choices(calls, weights)
        return call()

    def work(self, seed: int, steps: int) -> set[int]:
        chosen = random.Random(seed)
        return {self.step(chosen) for _ in range(steps)}


@pytest.mark.parametrize("steps", [150, pytest.param(5000, marks=pytest.mark.nightly)])
def test_threads_that_destroy_what_others_use(
    vip: VipliteLibrary, capfd: pytest.CaptureFixture[str], steps: int
) -> None:
    crowd = Crowd(vip)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda seed: crowd.work(seed, steps), range(8)))
    assert set().union(*found) <= KNOWN_CODES
    assert OK in set().union(*found)
    assert "internal error" not in capfd.readouterr().err


def resources() -> tuple[int, int]:
    """(resident bytes, open descriptors) of this process."""
    gc.collect()
    process = psutil.Process()
    return process.memory_info().rss, len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.nightly)])
def test_many_networks_leave_nothing_behind(count: int) -> None:
    vip = load("soft")
    assert vip.vip_init() == OK
    model = network_file(models.convolution(size=32, filters=32))
    values = np.zeros((1, 3, 32, 32), np.float16)

    def use() -> None:
        with prepared(vip, model) as network:
            infer(vip, network, values)

    for _ in range(count // 4):
        use()
    memory, descriptors = resources()
    for _ in range(count):
        use()
    more_memory, more_descriptors = resources()
    assert more_descriptors == descriptors
    assert more_memory - memory < 8 * 2**20
    assert vip.vip_destroy() == OK


@pytest.mark.parametrize("runs", [1000, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_many_runs_without_a_collection(runs: int) -> None:
    vip = load("soft")
    assert vip.vip_init() == OK
    values = np.zeros((1, 3, 64, 64), np.uint8)
    with prepared(vip, relu(shape=values.shape)) as network:
        gc.collect()
        gc.disable()
        try:
            grown = growth(lambda: infer(vip, network, values), runs)
        finally:
            gc.enable()
    assert vip.vip_destroy() == OK
    assert grown < 4 * MEGABYTE


def test_what_is_left_alive_goes_with_the_driver() -> None:
    vip = load("soft")

    def use() -> None:
        assert vip.vip_init() == OK
        _, network = create(vip, relu(shape=(1, 3, 100, 100)))
        assert vip.vip_prepare_network(network) == OK
        bind_all(vip, network)
        assert vip.vip_run_network(network) == OK
        assert vip.vip_destroy() == OK

    for _ in range(20):
        use()
    memory, descriptors = resources()
    for _ in range(100):
        use()
    more_memory, more_descriptors = resources()
    assert more_descriptors == descriptors
    assert more_memory - memory < 4 * 2**20
