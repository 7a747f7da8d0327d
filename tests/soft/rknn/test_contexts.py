"""Contexts that share: duplicates, weights, on-chip memory, parts of files; the flags of init."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import InitFlag as Flag
from anynpu.rknn.abi import Query
from anynpu.rknn.library import RknnLibrary
from anynpu.soft.device import device_for
from anynpu.soft.device_memory import STRICT_VARIABLE
from anynpu.soft.engines.onnx.weights import remove_weights

from ... import models
from ...capi import SUCC, attribute, get_output, infer, init, opened, query, set_input

SHAPE = (1, 3, 16, 16)
VALUES = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
LIKE = np.empty((1, 8, 16, 16), np.float32)


def init_with(npu: RknnLibrary, model: bytes, flags: int, **extend: int) -> tuple[int, int]:
    """(code, context) of rknn_init from memory with an extend structure."""
    context, options = abi.Handle(), abi.InitExtend(**extend)
    code = npu.rknn_init(ctypes.byref(context), model, len(model), flags, ctypes.byref(options))
    return code, context.value


def duplicate(npu: RknnLibrary, context: int) -> tuple[int, int]:
    source, result = abi.Handle(context), abi.Handle()
    return npu.rknn_dup_context(ctypes.byref(source), ctypes.byref(result)), result.value


def memory_size(npu: RknnLibrary, context: int) -> abi.MemSize:
    info = abi.MemSize()
    assert query(npu, context, Query.MEM_SIZE, info) == SUCC
    return info


def test_a_duplicate_has_its_own_state_and_outlives_its_source(npu: RknnLibrary) -> None:
    _, first = init(npu, models.convolution())
    code, second = duplicate(npu, first)
    assert code == SUCC
    assert second not in (0, first)
    expected = infer(npu, first, VALUES, LIKE)
    assert npu.rknn_run(second, None) == SUCC
    nothing = get_output(npu, second, LIKE)
    np.testing.assert_array_equal(infer(npu, second, VALUES * 0, LIKE), nothing)
    np.testing.assert_array_equal(infer(npu, first, VALUES, LIKE), expected)
    assert npu.rknn_destroy(first) == SUCC
    np.testing.assert_array_equal(infer(npu, second, VALUES, LIKE), expected)
    code, third = duplicate(npu, second)
    assert code == SUCC
    assert npu.rknn_destroy(second) == SUCC
    assert npu.rknn_destroy(third) == SUCC
    assert duplicate(npu, third)[0] == Code.CTX_INVALID


def test_duplicates_need_pointers(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        handle = abi.Handle(context)
        assert npu.rknn_dup_context(None, ctypes.byref(handle)) == Code.CTX_INVALID
        assert npu.rknn_dup_context(ctypes.byref(handle), None) == Code.CTX_INVALID


def without_weights(data: bytes) -> bytes:
    model = onnx.load_from_string(data)
    remove_weights(model)
    smaller: bytes = model.SerializeToString()
    assert len(smaller) < len(data)
    return smaller


def test_a_model_without_weights_takes_another_context_s(npu: RknnLibrary) -> None:
    whole = models.convolution(channels=4, filters=16)
    values = np.random.default_rng(1).normal(0, 1, (1, 4, 16, 16)).astype(np.float32)
    like = np.empty((1, 16, 16, 16), np.float32)
    stripped = without_weights(whole)
    with opened(npu, whole) as donor:
        expected = infer(npu, donor, values, like)
        code, context = init_with(npu, stripped, Flag.SHARE_WEIGHT_MEM, ctx=donor)
        assert code == SUCC
        np.testing.assert_array_equal(infer(npu, context, values, like), expected)
    np.testing.assert_array_equal(infer(npu, context, values, like), expected)
    assert npu.rknn_destroy(context) == SUCC


def test_shared_weights_may_serve_another_resolution(npu: RknnLibrary) -> None:
    large = models.convolution(channels=4, size=16, filters=16)
    small = without_weights(models.convolution(channels=4, size=8, filters=16))
    values = np.ones((1, 4, 8, 8), np.float32)
    like = np.empty((1, 16, 8, 8), np.float32)
    with opened(npu, large) as donor, opened(npu, models.convolution(4, 8, 16)) as reference:
        code, context = init_with(npu, small, Flag.SHARE_WEIGHT_MEM, ctx=donor)
        assert code == SUCC
        np.testing.assert_array_equal(
            infer(npu, context, values, like), infer(npu, reference, values, like)
        )
        assert npu.rknn_destroy(context) == SUCC


def test_weights_that_cannot_be_shared(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    stripped = without_weights(models.convolution(channels=4, filters=16))
    assert init(npu, stripped)[0] == Code.MODEL_INVALID
    assert "RKNN_FLAG_SHARE_WEIGHT_MEM" in capfd.readouterr().err
    with opened(npu, models.add_one()) as other:
        assert init_with(npu, stripped, Flag.SHARE_WEIGHT_MEM, ctx=other)[0] == Code.MODEL_INVALID
    assert init_with(npu, stripped, Flag.SHARE_WEIGHT_MEM, ctx=0)[0] == Code.PARAM_INVALID
    assert init_with(npu, stripped, Flag.SHARE_WEIGHT_MEM, ctx=99999)[0] == Code.CTX_INVALID
    assert init(npu, stripped, Flag.SHARE_WEIGHT_MEM)[0] == Code.PARAM_INVALID


def test_a_context_for_information_only(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, models.convolution(), Flag.COLLECT_MODEL_INFO_ONLY) as context:
        assert attribute(npu, context, Query.INPUT_ATTR).n_elems == 768
        assert memory_size(npu, context).total_weight_size > 0
        assert set_input(npu, context, VALUES) == SUCC
        assert npu.rknn_run(context, None) == Code.FAIL
        assert (
            "rknn_run is denied if set RKNN_FLAG_COLLECT_MODEL_INFO_ONLY" in capfd.readouterr().err
        )
        attr = attribute(npu, context, Query.INPUT_ATTR)
        memory = npu.rknn_create_mem(context, attr.size)
        assert npu.rknn_set_io_mem(context, memory, ctypes.byref(attr)) == Code.CTX_INVALID


def test_a_model_inside_a_larger_file(npu: RknnLibrary, tmp_path: Path) -> None:
    model = models.convolution()
    file = tmp_path / "many.bin"
    file.write_bytes(b"x" * 1000 + model + b"y" * 500)

    def load(offset: int, size: int) -> tuple[int, int]:
        context = abi.Handle()
        options = abi.InitExtend(real_model_offset=offset, real_model_size=size)
        path = str(file).encode()
        code = npu.rknn_init(ctypes.byref(context), path, 0, 0, ctypes.byref(options))
        return code, context.value

    code, context = load(1000, len(model))
    assert code == SUCC
    infer(npu, context, VALUES, LIKE)
    assert npu.rknn_destroy(context) == SUCC
    assert load(1000, len(model) + 501)[0] == Code.MODEL_INVALID
    assert load(10**9, 0)[0] == Code.MODEL_INVALID
    assert load(-1, 0)[0] == Code.PARAM_INVALID
    assert load(0, 0)[0] == Code.MODEL_INVALID


def test_flags_that_are_hints(npu: RknnLibrary) -> None:
    for flag in (
        Flag.PRIOR_MEDIUM,
        Flag.PRIOR_LOW,
        Flag.ASYNC_MASK,
        Flag.EXECUTE_FALLBACK_PRIOR_DEVICE_GPU,
        Flag.DISABLE_PROC_HIGH_PRIORITY,
        Flag.MODEL_BUFFER_ZERO_COPY,
    ):
        with opened(npu, models.convolution(), flag) as context:
            infer(npu, context, VALUES, LIKE)


def test_nothing_waits_for_fences(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    for flag in (Flag.FENCE_IN_OUTSIDE, Flag.FENCE_OUT_OUTSIDE):
        with opened(npu, models.convolution(), flag) as context:
            infer(npu, context, VALUES, LIKE)
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    for flag in (Flag.FENCE_IN_OUTSIDE, Flag.FENCE_OUT_OUTSIDE):
        assert init(npu, models.add_one(), flag)[0] == Code.PARAM_INVALID


def test_on_chip_memory_has_a_budget(npu: RknnLibrary) -> None:
    model = models.deep(size=64)
    with opened(npu, model) as plain:
        before = memory_size(npu, plain)
        assert before.total_sram_size == 956 * 1024
        assert before.free_sram_size == before.total_sram_size
        with opened(npu, model, Flag.ENABLE_SRAM) as first:
            taken = before.free_sram_size - memory_size(npu, first).free_sram_size
            assert taken == before.total_internal_size > 0
            shares = Flag.ENABLE_SRAM | Flag.SHARE_SRAM
            code, second = init_with(npu, model, shares, ctx=first)
            assert code == SUCC
            assert before.free_sram_size - memory_size(npu, first).free_sram_size == taken
            assert npu.rknn_destroy(second) == SUCC
            contexts = [init(npu, model, Flag.ENABLE_SRAM)[1] for _ in range(20)]
            assert memory_size(npu, first).free_sram_size == 0
            for context in contexts:
                assert npu.rknn_destroy(context) == SUCC
        assert memory_size(npu, plain).free_sram_size == before.free_sram_size
        assert init_with(npu, model, Flag.SHARE_SRAM, ctx=plain)[0] == Code.PARAM_INVALID
        assert init_with(npu, model, shares, ctx=0)[0] == Code.PARAM_INVALID


def test_chips_without_on_chip_memory(npu: RknnLibrary) -> None:
    model = models.deep(size=64, metadata={"anynpu.soc": "rk3566"})
    with opened(npu, model, Flag.ENABLE_SRAM) as context:
        size = memory_size(npu, context)
        assert (size.total_sram_size, size.free_sram_size) == (0, 0)


def test_priorities_order_the_requests_that_wait(npu: RknnLibrary) -> None:
    """One core, which is held: of three runs that wait, the one of high priority stands first."""
    model = models.add_one(metadata={"anynpu.soc": "rk3566"})
    flags = {"low": Flag.PRIOR_LOW, "medium": Flag.PRIOR_MEDIUM, "high": Flag.PRIOR_HIGH}
    codes: list[int] = []
    device = device_for("rk3566")
    with contextlib.ExitStack() as stack:
        contexts = [stack.enter_context(opened(npu, model, flag)) for flag in flags.values()]
        with device.occupy(1, 0):
            threads = []
            for count, context in enumerate(contexts, 1):
                assert set_input(npu, context, np.zeros((1, 3, 4, 5), np.float32)) == SUCC
                run = threading.Thread(target=lambda c=context: codes.append(npu.rknn_run(c, None)))
                run.start()
                threads.append(run)
                while len(device._waiting) < count:
                    assert run.is_alive()
                    time.sleep(0.001)
            assert [waiting.priority for waiting in device._waiting] == [0, 1, 2]
        for thread in threads:
            thread.join()
    assert codes == [SUCC] * 3


def test_memory_sizes(npu: RknnLibrary) -> None:
    with opened(npu, models.convolution(channels=4, size=16, filters=16)) as context:
        size = memory_size(npu, context)
    assert size.total_weight_size == 16 * 4 * 9 * 2  # float16
    assert size.total_internal_size == 0  # one layer: nothing in between
    edges = (4 * 256 + 16 * 256) * 2
    assert size.total_dma_allocated_size == size.total_weight_size + edges


def test_memory_allocated_outside(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(npu, models.deep(), Flag.MEM_ALLOC_OUTSIDE) as context:
        size = memory_size(npu, context)
        assert size.total_dma_allocated_size == 0
        values = np.zeros((1, 3, 16, 16), np.float32)
        assert set_input(npu, context, values) == Code.MALLOC_FAIL
        assert "a board would answer this with SIGSEGV" in capfd.readouterr().err
        assert npu.rknn_run(context, None) == Code.FAIL
        small = npu.rknn_create_mem(context, 1)
        weights = npu.rknn_create_mem(context, size.total_weight_size)
        internal = npu.rknn_create_mem(context, size.total_internal_size)
        assert npu.rknn_set_weight_mem(context, small) == Code.PARAM_INVALID
        assert npu.rknn_set_internal_mem(context, small) == Code.PARAM_INVALID
        assert npu.rknn_set_weight_mem(context, weights) == SUCC
        assert npu.rknn_run(context, None) == Code.FAIL
        assert npu.rknn_set_internal_mem(context, internal) == SUCC
        assert set_input(npu, context, values) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        assert npu.rknn_destroy_mem(context, internal) == SUCC
        assert npu.rknn_run(context, None) == Code.FAIL
        for call in (npu.rknn_set_weight_mem, npu.rknn_set_internal_mem):
            assert call(context, None) == Code.PARAM_INVALID
    with opened(npu, models.deep(), Flag.INTERNAL_ALLOC_OUTSIDE) as context:
        weights = npu.rknn_create_mem(context, size.total_weight_size)
        assert npu.rknn_set_weight_mem(context, weights) == Code.PARAM_INVALID
        assert "Must set RKNN_FLAG_MEM_ALLOC_OUTSIDE flag" in capfd.readouterr().err


def test_internal_memory_that_models_share(npu: RknnLibrary) -> None:
    """The vendor's way to save memory: contexts that take turns use one buffer."""
    flags = Flag.INTERNAL_ALLOC_OUTSIDE
    values = np.ones((1, 3, 16, 16), np.float32)
    like = np.empty((1, 4, 16, 16), np.float32)
    with opened(npu, models.deep(), flags) as first, opened(npu, models.deep(), flags) as second:
        size = memory_size(npu, first).total_internal_size
        assert size > 0
        memory = npu.rknn_create_mem(first, size)
        results = []
        for context in (first, second, first):
            assert npu.rknn_set_internal_mem(context, memory) == SUCC
            results.append(infer(npu, context, values, like))
        assert npu.rknn_destroy_mem(first, memory) == SUCC
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()
