"""`anynpu.rknn.context`: the whole API as Python objects."""

from __future__ import annotations

import gc
import os
import weakref

import numpy as np
import pytest

import anynpu
from anynpu.rknn.abi import CoreMask, InitFlag, MemoryFlag, MemoryOrigin, Query, SyncMode
from anynpu.rknn.abi import TensorFormat as Fmt
from anynpu.rknn.abi import TensorType as Type
from anynpu.rknn.context import Context, Memory

from .. import models

SHAPE = (1, 3, 4, 5)
VALUES = np.arange(60, dtype=np.float32).reshape(SHAPE)


def run(context: Context, values: np.ndarray) -> np.ndarray:
    """The general API: float32 in, float32 out, in the model's order."""
    pixels = np.ascontiguousarray(values.transpose(0, 2, 3, 1))
    context.set_inputs([pixels], [Fmt.NHWC])
    context.run()
    result = np.empty(context.outputs[0].shape, np.float32)
    context.get_outputs([result], as_float=True)
    return result


def test_queries() -> None:
    with Context(models.add_one(metadata={"anynpu.custom_string": "RGB"})) as context:
        assert context.inputs[0].shape == (1, 4, 5, 3)
        assert context.outputs[0].shape == SHAPE
        assert context.native_inputs()[0].layout is anynpu.Layout.NHWC
        assert context.native_outputs()[0].layout is anynpu.Layout.NC1HWC2
        assert context.nhwc_inputs()[0].layout is anynpu.Layout.NHWC
        assert context.nhwc_outputs()[0].shape == (1, 4, 5, 3)
        for current in (context.current_inputs, context.current_native_outputs):
            with pytest.raises(anynpu.CallError, match="RKNN_QUERY_CURRENT"):
                current()
        assert context.dynamic_shapes() == ()
        assert context.sdk_version()[0].startswith("2.3.2")
        assert context.custom_string() == "RGB"
        assert context.memory_size().dma_allocated > 0
        assert context.run_duration() == 0
        run(context, VALUES)
        assert context.run_duration() > 0


def test_the_table_of_layers() -> None:
    with Context(models.deep(), flags=InitFlag.COLLECT_PERF_MASK) as context:
        run(context, np.zeros((1, 3, 16, 16), np.float32))
        assert "InputOperator" in context.perf_detail()


def test_duplicates_and_cores() -> None:
    with Context(models.add_one()) as context:
        context.set_core_mask(CoreMask.CORE_0_1_2)
        context.set_batch_core_num(2)
        copy = context.dup()
        assert copy.handle != context.handle
    np.testing.assert_array_equal(run(copy, VALUES), VALUES + 1)
    copy.close()
    with (
        Context(models.add_one(metadata={"anynpu.soc": "rk3566"})) as context,
        pytest.raises(anynpu.DeviceError, match="RKNN_ERR_TARGET_PLATFORM_UNMATCH"),
    ):
        context.set_core_mask(CoreMask.CORE_0)


def test_runs_with_a_timeout_and_without_waiting() -> None:
    slow = models.repeated_convolution(size=256, filters=32, layers=12)
    with Context(slow) as context:
        context.set_inputs([np.zeros((1, 256, 256, 3), np.float32)], [Fmt.NHWC])
        with pytest.raises(anynpu.CallTimeoutError):
            context.run(timeout_ms=1)
        context.run(non_block=True)
        with pytest.raises(anynpu.CallError, match="rknn_wait"):
            context.wait()
        context.get_outputs([np.empty(context.outputs[0].shape, np.float32)], as_float=True)


def test_shared_weights_and_parts_of_files(tmp_path: os.PathLike[str]) -> None:
    model = models.add_one()
    file = os.path.join(tmp_path, "many.bin")
    with open(file, "wb") as target:
        target.write(bytes(100) + model + bytes(7))
    with Context(file, offset=100, size=len(model)) as context:
        np.testing.assert_array_equal(run(context, VALUES), VALUES + 1)
        flags = InitFlag.SHARE_WEIGHT_MEM
        with Context(model, flags=flags, share_with=context) as other:
            np.testing.assert_array_equal(run(other, VALUES), VALUES + 1)


def test_dynamic_shapes() -> None:
    with Context(models.dynamic(((8, 8), (12, 16)))) as context:
        assert context.dynamic_shapes() == (((1, 8, 8, 3), (1, 12, 16, 3)),)
        context.set_input_shapes([(1, 12, 16, 3)])
        assert context.current_inputs()[0].shape == (1, 12, 16, 3)
        assert run(context, np.zeros((1, 3, 12, 16), np.float32)).shape == (1, 8, 12, 16)
        with pytest.raises(anynpu.TensorError, match=r"not in the model's list:\n.*8, 8"):
            context.set_input_shapes([(1, 9, 9, 3)])


def bind(context: Context, query: Query, size: int) -> Memory:
    """Memory for a tensor as float32, inputs NHWC with rows of eight pixels, outputs NCHW."""
    attr = context.attribute(query, 0)
    attr.type = Type.FLOAT32
    memory = context.create_memory(max(size, 2 * attr.size_with_stride))
    context.set_io_memory(memory, attr)
    return memory


def test_zero_copy() -> None:
    with Context(models.add_one()) as context:
        source = bind(context, Query.INPUT_ATTR, 240)
        target = bind(context, Query.OUTPUT_ATTR, 240)
        source.array((1, 4, 8, 3), np.float32)[:, :, :5] = VALUES.transpose(0, 2, 3, 1)
        context.run()
        np.testing.assert_array_equal(target.array(SHAPE, np.float32), VALUES + 1)
        target.sync(SyncMode.FROM_DEVICE)


def test_kinds_of_memory() -> None:
    fd = os.memfd_create("test")
    os.ftruncate(fd, 4096)
    with Context(models.add_one()) as context:
        plain = context.create_memory(100)
        uncached = context.create_memory(100, MemoryFlag.NON_CACHEABLE)
        mapped = context.memory_from_fd(fd, 50, offset=10)
        part = context.memory_from_physical(plain.physical_address + 10, 20, plain.address + 10)
        nowhere = context.memory_from_physical(plain.physical_address + 10, 20)
        with pytest.raises(anynpu.StateError, match="pass it"):
            nowhere.array()
        assert [m.size for m in (plain, uncached, mapped, part)] == [100, 100, 50, 20]
        assert (mapped.fd, mapped.offset, part.fd) == (fd, 10, -1)
        os.pwrite(fd, b"hello", 10)
        assert mapped.array()[:5].tobytes() == b"hello"
        plain.array()[10:30] = 7
        assert (part.array() == 7).all()
        assert plain.pointer.contents.flags == MemoryOrigin.ALLOC_INSIDE
        with pytest.raises(anynpu.OutOfMemoryError, match="rknn_create_mem"):
            context.create_memory(0)
        with pytest.raises(anynpu.TensorError, match="the memory has 100"):
            plain.array((101,))
    os.close(fd)


def test_an_array_keeps_its_memory_alive() -> None:
    with Context(models.add_one()) as context:
        memory = context.create_memory(64)
        fd = memory.fd
        view = memory.array((4, 4), np.float32)[1:, ::2]
        reference = weakref.ref(memory)
        with pytest.raises(anynpu.InUseError, match="still shares"):
            memory.close()
        assert isinstance(anynpu.InUseError(), BufferError)
        del memory
        assert reference() is not None
        view[...] = 5
    # The context is closed, the memory is not.
    assert (view == 5).all()
    os.fstat(fd)
    del view
    assert reference() is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_closing_memory() -> None:
    with Context(models.add_one()) as context:
        memory = context.create_memory(64)
        fd = memory.fd
        view = memory.array()
        del view
        memory.close()
        memory.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        with pytest.raises(anynpu.ClosedError):
            memory.array()
        with context.create_memory(64) as other:
            assert other.size == 64
        with pytest.raises(anynpu.ClosedError):
            _ = other.size


def test_everything_goes_without_the_collector() -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        for _ in range(5):
            context = Context(models.add_one())
            source = bind(context, Query.INPUT_ATTR, 240)
            source.array()[:] = 1
            reference = weakref.ref(context)
            del context, source
            assert reference() is None
        assert len(os.listdir("/proc/self/fd")) == descriptors
    finally:
        gc.enable()


def test_bound_memory_is_kept_by_the_context() -> None:
    with Context(models.add_one()) as context:
        bind(context, Query.INPUT_ATTR, 240)  # the only reference is dropped
        bind(context, Query.OUTPUT_ATTR, 240)
        context.run()


def test_memory_for_weights_and_intermediate_tensors() -> None:
    with Context(models.deep(), flags=InitFlag.MEM_ALLOC_OUTSIDE) as context:
        size = context.memory_size()
        context.set_weight_memory(context.create_memory(size.weights))
        context.set_internal_memory(context.create_memory(size.internal))
        run(context, np.zeros((1, 3, 16, 16), np.float32))
        with pytest.raises(anynpu.InvalidArgumentError, match="rknn_set_weight_mem"):
            context.set_weight_memory(context.create_memory(1))


def test_errors_name_the_tensor_and_the_memory() -> None:
    with Context(models.add_one()) as context:
        attr = context.attribute(Query.INPUT_ATTR, 0)
        memory = context.create_memory(8)
        with pytest.raises(anynpu.CallError, match=r"tensor x: FLOAT16.*8 bytes"):
            context.set_io_memory(memory, attr)


def test_use_after_close() -> None:
    context = Context(models.add_one())
    memory = context.create_memory(10)
    context.close()
    context.close()
    for call in (
        context.run,
        context.wait,
        context.dup,
        context.native_inputs,
        lambda: context.create_memory(10),
        lambda: context.set_core_mask(CoreMask.AUTO),
        lambda: memory.sync(SyncMode.TO_DEVICE),
    ):
        with pytest.raises(anynpu.ClosedError):
            call()
