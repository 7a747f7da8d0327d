"""Buffers: memory that both sides see."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import anynpu
from anynpu import DType, Layout, TensorInfo
from anynpu.native.memory import address_of
from anynpu.rknn.context import Context
from anynpu.soft import faults
from anynpu.viplite.buffer import Buffer, aligned_memory, buffer_params
from anynpu.viplite.library import VipliteLibrary
from anynpu.viplite.network import Network
from anynpu.viplite.runtime import runtime_of

from .. import models
from ..soft.viplite.client import relu

SHAPE = (1, 3, 4, 5)
VALUES = np.arange(60, dtype=np.uint8).reshape(SHAPE) + 100


@pytest.fixture
def network(vip: VipliteLibrary) -> Iterator[Network]:
    with Network(relu(), library=vip) as network:
        network.prepare()
        yield network


def computes(network: Network, source: Buffer, target: Buffer) -> None:
    network.set_input(0, source)
    network.set_output(0, target)
    source.array()[...] = VALUES
    source.flush()
    network.run()
    target.invalidate()
    np.testing.assert_array_equal(target.array(), np.maximum(VALUES, 125))


@pytest.mark.parametrize("cached", [False, True])
def test_new_memory(network: Network, cached: bool) -> None:
    source = Buffer.allocate(network.inputs[0], cached=cached, library=network.library)
    target = Buffer.allocate(network.outputs[0], cached=cached, library=network.library)
    assert source.size == 60
    assert source.address == source.array().ctypes.data
    assert source.array().shape == SHAPE
    assert source.array(dtype=np.uint8).shape == (60,)
    assert source.array((5, 2), np.int16).shape == (5, 2)
    with pytest.raises(anynpu.TensorError, match="takes 61 bytes; the memory has 60"):
        source.array((61,), np.uint8)
    computes(network, source, target)


def test_memory_of_the_caller_s(network: Network) -> None:
    memory, results = aligned_memory(60), aligned_memory(60)
    assert memory.size == 64
    assert address_of(memory) % 64 == 0
    source = Buffer.from_array(network.inputs[0], memory, library=network.library)
    target = Buffer.from_array(network.outputs[0], results, library=network.library)
    computes(network, source, target)
    np.testing.assert_array_equal(memory[:60], VALUES.ravel())
    np.testing.assert_array_equal(results[:60], np.maximum(VALUES, 125).ravel())
    owner = weakref.ref(memory.base)
    del memory
    gc.collect()
    assert owner() is not None
    network.new_input(0)
    source.close()
    del source
    gc.collect()
    assert owner() is None


def test_memory_that_does_not_fit(network: Network) -> None:
    info = network.inputs[0]
    whole = aligned_memory(256)
    cases = {
        "at a multiple of 64 bytes.*at 0x": whole[1:65],
        "multiples of 64; found 96": whole[:96],
        "takes 60 bytes of memory in multiples of 64; found 0": whole[:0],
        "contiguous": whole[::2],
    }
    for message, memory in cases.items():
        with pytest.raises(anynpu.TensorError, match=message):
            Buffer.from_array(info, memory, library=network.library)
    fixed = aligned_memory(64)
    fixed.flags.writeable = False
    with pytest.raises(anynpu.TensorError, match="writable"):
        Buffer.from_array(info, fixed, library=network.library)


def test_memory_behind_a_descriptor(network: Network) -> None:
    descriptor = os.memfd_create("buffer")
    os.ftruncate(descriptor, 4096)
    source = Buffer.from_fd(network.inputs[0], descriptor, 64, library=network.library)
    target = Buffer.allocate(network.outputs[0], library=network.library)
    computes(network, source, target)
    assert os.pread(descriptor, 60, 0) == VALUES.tobytes()
    with pytest.raises(anynpu.TensorError, match="found 60"):
        Buffer.from_fd(network.inputs[0], descriptor, 60, library=network.library)
    os.close(descriptor)
    with pytest.raises(anynpu.CallError, match="vip_create_buffer_from_fd returned VIP_ERROR_FAIL"):
        Buffer.from_fd(network.inputs[0], 9999, 64, library=network.library)


def test_memory_by_its_physical_address(network: Network) -> None:
    """Rockchip's API tells physical addresses; the soft NPU's memory is one for both."""
    with Context(models.add_one(), library="soft") as context:
        memory = context.create_memory(4096)
        blocks = [(memory.physical_address, 64), (memory.physical_address + 64, 64)]
        source = Buffer.from_physical(network.inputs[0], blocks, library=network.library)
        assert source.address == memory.address
        target = Buffer.allocate(network.outputs[0], library=network.library)
        computes(network, source, target)
        np.testing.assert_array_equal(memory.array()[:60], VALUES.ravel())
        network.new_input(0)
        source.close()
        for wrong in ([], [(memory.physical_address + 1, 64)], [(memory.physical_address, 32)]):
            with pytest.raises(anynpu.TensorError):
                Buffer.from_physical(network.inputs[0], wrong, library=network.library)


def test_arrays_keep_the_memory(network: Network) -> None:
    buffer = Buffer.allocate(network.inputs[0], library=network.library)
    array = buffer.array()
    with pytest.raises(anynpu.InUseError, match="array still shares"):
        buffer.close()
    users = runtime_of(network.library).users
    del buffer
    gc.collect()
    array[...] = 7
    assert array.sum() == 420
    assert runtime_of(network.library).users == users
    del array
    gc.collect()
    assert runtime_of(network.library).users == users - 1


def test_closing_twice_and_use_after(network: Network) -> None:
    buffer = Buffer.allocate(network.inputs[0], library=network.library)
    buffer.array()
    buffer.close()
    buffer.close()
    for use in (buffer.flush, buffer.invalidate, lambda: buffer.size, buffer.array):
        with pytest.raises(anynpu.ClosedError):
            use()


def test_buffers_of_another_library(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOC", "t527")
    other = Buffer.allocate(network.inputs[0], library="soft")
    with pytest.raises(anynpu.StateError, match="give both the same library"):
        network.set_input(0, other)


def test_memory_that_cannot_be_mapped(vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "vip_map_buffer=FAILURE")
    faults.reset()
    with Network(relu(), library=vip) as network:
        buffer = Buffer.allocate(network.inputs[0], library=vip)
        with pytest.raises(anynpu.CallError, match="vip_map_buffer returned NULL"):
            buffer.array()
        buffer.flush()


def test_a_buffer_that_cannot_be_made(vip: VipliteLibrary) -> None:
    before = runtime_of(vip).users
    shape = (2**20, 2**15)
    info = TensorInfo(0, "huge", shape, DType.UINT8, Layout.UNDEFINED, None, 2**35, 2**35)
    with pytest.raises(anynpu.OutOfMemoryError, match="vip_create_buffer"):
        Buffer.allocate(info, library=vip)
    assert runtime_of(vip).users == before


def test_parameters_say_what_the_tensor_is(network: Network) -> None:
    params = buffer_params(network.inputs[0])
    assert list(params.sizes) == [5, 4, 3, 1, 0, 0]
    assert (params.num_of_dims, params.data_format, params.quant_format) == (4, 2, 2)
    assert (params.quant_data.affine.scale, params.quant_data.affine.zeroPoint) == (0.5, 125)
    fixed = anynpu.Quantization.fixed_point(-3)
    info = TensorInfo(0, "t", (2, 7), DType.INT16, Layout.UNDEFINED, fixed, 28, 28)
    params = buffer_params(info)
    assert list(params.sizes[:2]) == [7, 2]
    assert (params.data_format, params.quant_format) == (5, 1)
    assert params.quant_data.dfp.fixed_point_pos == -3
