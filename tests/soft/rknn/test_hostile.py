"""What no client may do to the process: damaged models, senseless calls, leaks."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary, load
from anynpu.soft.rknn import IMPLEMENTED

from ... import models
from ...capi import SUCC, infer, init, opened
from ...fuzz.calls import no_faults_of_ours
from ...fuzz.rknn_calls import KNOWN_CODES, RknnCalls, valid
from ...test_endurance import MEGABYTE, growth


def try_model(data: bytes) -> None:
    """Loading and running must end in a code, whatever the bytes."""
    npu = load("soft")
    code, context = init(npu, data)
    assert code in KNOWN_CODES
    if code != SUCC:
        assert context == 0
        return
    assert npu.rknn_run(context, None) in KNOWN_CODES
    assert npu.rknn_destroy(context) == SUCC


@settings(max_examples=150, deadline=None)
@given(data=st.binary(min_size=1, max_size=300))
def test_random_bytes(data: bytes) -> None:
    try_model(data)
    try_model(b"RKNN" + data)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_truncated_models(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(valid()))
    try_model(model[: data.draw(st.integers(1, len(model) - 1))])


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_mutated_models(data: st.DataObject) -> None:
    model = bytearray(data.draw(st.sampled_from(valid())))
    for _ in range(data.draw(st.integers(1, 4))):
        model[data.draw(st.integers(0, len(model) - 1))] = data.draw(st.integers(0, 255))
    try_model(bytes(model))


def test_the_fuzzer_calls_every_function() -> None:
    source = inspect.getsource(RknnCalls)
    for name in IMPLEMENTED:
        assert f"self.npu.{name}" in source, name


@pytest.mark.parametrize("seed", range(4))
def test_random_calls(npu: RknnLibrary, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
    with no_faults_of_ours():
        RknnCalls(npu, seed).go(2500)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 110))
def test_very_many_random_calls(npu: RknnLibrary, seed: int) -> None:
    with no_faults_of_ours():
        RknnCalls(npu, seed).go(100_000)


def resources() -> tuple[int, int]:
    """(resident bytes, open descriptors) of this process."""
    gc.collect()
    process = psutil.Process()
    return process.memory_info().rss, len(os.listdir("/proc/self/fd"))


def test_a_thousand_contexts_leave_nothing_behind() -> None:
    npu = load("soft")
    model = models.convolution(size=32, filters=32)
    values = np.zeros((1, 3, 32, 32), np.float32)
    like = np.zeros((1, 32, 32, 32), np.float32)

    def use() -> None:
        with opened(npu, model) as context:
            infer(npu, context, values, like)

    for _ in range(200):
        use()
    memory, descriptors = resources()
    for _ in range(1000):
        use()
    more_memory, more_descriptors = resources()
    assert more_descriptors == descriptors
    assert more_memory - memory < 8 * 2**20


def test_outputs_that_are_never_released_go_with_their_context() -> None:
    npu = load("soft")
    values = np.zeros((1, 3, 100, 100), np.float32)

    def use() -> None:
        with opened(npu, models.add_one(values.shape)) as context:
            infer(npu, context, values, values)
            for _ in range(20):
                output = abi.Output(want_float=1)
                assert npu.rknn_outputs_get(context, 1, ctypes.byref(output), None) == SUCC

    for _ in range(20):
        use()
    memory, _ = resources()
    for _ in range(100):
        use()
    assert resources()[0] - memory < 16 * 2**20  # 240 MB were lent


def test_many_runs_without_a_collection() -> None:
    npu = load("soft")
    values = np.zeros((1, 3, 64, 64), np.float32)
    with opened(npu, models.add_one(values.shape)) as context:
        gc.collect()
        gc.disable()
        try:
            assert growth(lambda: infer(npu, context, values, values), 5000) < 4 * MEGABYTE
        finally:
            gc.enable()
