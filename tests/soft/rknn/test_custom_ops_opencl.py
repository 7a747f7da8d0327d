"""Custom operators of the GPU target: OpenCL kernels, here on PoCL or on what the machine has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary
from anynpu.soft.rknn import custom_ops_opencl

from ... import models
from ...capi import SUCC, infer, opened
from .custom_operators import CustomOperator, register

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed (anynpu[opencl])")

SOURCE = b"""
#ifndef FACTOR
#define FACTOR 2
#endif
__kernel void scale(__global const float* x, __global float* y, int offset) {
  int i = get_global_id(0);
  y[i] = FACTOR * x[i] + offset;
}
__kernel void zero(__global const float* x, __global float* y, int offset) {
  y[get_global_id(0)] = 0;
}
"""
X = np.random.default_rng(0).integers(-9, 9, (1, 3, 4, 5)).astype(np.float32)


def launch(context: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """What a C program does with the handles: buffers on the tensors' memory, run, wait."""
    gpu = context.contents.gpu_ctx
    runtime = cl.Context.from_int_ptr(gpu.cl_context)
    queue = cl.CommandQueue.from_int_ptr(gpu.cl_command_queue)
    kernel = cl.Kernel.from_int_ptr(gpu.cl_kernel)
    flags = cl.mem_flags.USE_HOST_PTR
    source, target = (cl.Buffer(runtime, flags, hostbuf=a) for a in (inputs[0], outputs[0]))
    kernel.set_args(source, target, np.int32(1))
    cl.enqueue_nd_range_kernel(queue, kernel, (inputs[0].size,), None)
    mapped, _ = cl.enqueue_map_buffer(
        queue, target, cl.map_flags.READ, 0, outputs[0].shape, outputs[0].dtype
    )
    queue.finish()
    del mapped


def gpu_operator(**fields: Any) -> CustomOperator:
    given = {"cl_kernel_name": b"scale", "cl_kernel_source": SOURCE, "cl_source_size": len(SOURCE)}
    return CustomOperator("cstScale", launch, target=abi.TargetType.GPU, **{**given, **fields})


@pytest.mark.parametrize(
    ("fields", "factor"), [({}, 2), ({"cl_build_options": b"-D FACTOR=5 -cl-std=CL1.2"}, 5)]
)
def test_a_kernel_from_text(npu: RknnLibrary, fields: dict[str, Any], factor: int) -> None:
    operator = gpu_operator(**fields)
    with opened(npu, models.custom()) as context:
        assert register(npu, context, operator) == SUCC
        for values in (X, X + 3):
            expected = np.maximum(np.maximum(values, 0) * factor + 1, 0)
            np.testing.assert_array_equal(infer(npu, context, values, values), expected)


def test_a_kernel_from_a_file(npu: RknnLibrary, tmp_path: Path) -> None:
    file = tmp_path / "kernels.cl"
    file.write_bytes(SOURCE)
    operator = gpu_operator(cl_kernel_source=str(file).encode(), cl_source_size=0)
    with opened(npu, models.custom()) as context:
        assert register(npu, context, operator) == SUCC
        np.testing.assert_array_equal(infer(npu, context, X, X), np.maximum(X, 0) * 2 + 1)


def test_a_text_that_does_not_end_with_a_zero(npu: RknnLibrary) -> None:
    text = np.frombuffer(SOURCE + b"this is no OpenCL", np.uint8).copy()
    operator = gpu_operator()
    at = abi.CustomOp.cl_kernel_source.offset
    raw = np.frombuffer(memoryview(operator.structure).cast("B"), np.uint8)
    raw[at : at + 8].view(np.uint64)[0] = text.ctypes.data
    with opened(npu, models.custom()) as context:
        assert register(npu, context, operator) == SUCC
        np.testing.assert_array_equal(infer(npu, context, X, X), np.maximum(X, 0) * 2 + 1)


def test_the_handles_are_there_from_init_to_destroy(npu: RknnLibrary) -> None:
    seen: list[tuple[int, ...]] = []

    def look(context: Any, *_: Any) -> int:
        gpu = context.contents.gpu_ctx
        assert context.contents.target == abi.TargetType.GPU
        kernel = cl.Kernel.from_int_ptr(gpu.cl_kernel)
        assert kernel.function_name == "scale"
        seen.append((gpu.cl_context, gpu.cl_command_queue, gpu.cl_kernel))
        return 0

    structure = gpu_operator().structure
    operator = CustomOperator(
        "cstScale", launch, init=look, prepare=look, destroy=look, target=abi.TargetType.GPU,
        cl_kernel_name=b"scale", cl_kernel_source=SOURCE, cl_source_size=structure.cl_source_size,
    )  # fmt: skip
    with opened(npu, models.custom()) as context:
        assert register(npu, context, operator) == SUCC
        infer(npu, context, X, X)
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_operators_of_the_cpu_have_no_handles(npu: RknnLibrary) -> None:
    def look(context: Any, *_: Any) -> int:
        gpu = context.contents.gpu_ctx
        return 0 if not (gpu.cl_context or gpu.cl_command_queue or gpu.cl_kernel) else 1

    operator = CustomOperator("cstScale", lambda *_: 0, init=look)
    with opened(npu, models.custom()) as context:
        assert register(npu, context, operator) == SUCC


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cl_kernel_source": b"kernel void", "cl_source_size": 11}, "can't be built"),
        ({"cl_kernel_name": b"missing"}, "kernel 'missing' can't be made"),
        ({"cl_build_options": b"--no-such-option"}, "can't be built"),
    ],
)
def test_kernels_that_cannot_be_had(
    npu: RknnLibrary, fields: dict[str, Any], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, models.custom()) as context:
        assert register(npu, context, gpu_operator(**fields)) == abi.ErrorCode.FAIL
        assert message in capfd.readouterr().err
        assert register(npu, context, gpu_operator()) == SUCC


def test_kernels_see_whole_numbers_as_real_ones(npu: RknnLibrary) -> None:
    values = np.arange(6).reshape(2, 3)
    operator = gpu_operator()
    with opened(npu, models.custom(shape=(2, 3), kind=TensorProto.INT64)) as context:
        assert register(npu, context, operator) == SUCC
        found = infer(npu, context, values, np.empty((2, 3), np.float32))
        np.testing.assert_array_equal(found, values * 2 + 1)
    assert [tensor.attr.type for tensor in operator.tensors] == [abi.TensorType.FLOAT32] * 2


def test_without_opencl(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    caches: tuple[Callable[[], None], ...] = (
        custom_ops_opencl._pyopencl.cache_clear,
        custom_ops_opencl._context.cache_clear,
        custom_ops_opencl._program.cache_clear,
    )
    for clear in caches:
        clear()
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with opened(npu, models.custom()) as context:
        assert register(npu, context, gpu_operator()) == abi.ErrorCode.FAIL
    assert "pip install 'anynpu[opencl]'" in capfd.readouterr().err


def test_many_contexts_at_once(npu: RknnLibrary) -> None:
    """Each node has a kernel of its own, whose arguments nobody else sets."""

    def work(seed: int) -> None:
        values = np.random.default_rng(seed).integers(0, 9, X.shape).astype(np.float32)
        with opened(npu, models.custom()) as context:
            assert register(npu, context, gpu_operator()) == SUCC
            for _ in range(10):
                np.testing.assert_array_equal(infer(npu, context, values, values), values * 2 + 1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
