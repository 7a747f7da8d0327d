"""A C client's steps with VIPLite, through a bound library, and small networks for it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from anynpu import soc
from anynpu.soft.build.nbg_file import soft_file
from anynpu.tensor import Quantization
from anynpu.viplite import abi
from anynpu.viplite.abi import BufferProperty, CreateNetworkType, Status
from anynpu.viplite.library import VipliteLibrary

from ... import models

OK = Status.SUCCESS
DTYPES = {0: np.float32, 1: np.float16, 2: np.uint8, 3: np.int8, 5: np.int16, 10: np.int64}


def network_file(
    model: bytes, chip: str = "a733", edges: dict[str, Quantization] | None = None
) -> bytes:
    """A soft `.nb` file round an ONNX model."""
    return soft_file(model, soc.find_vip(chip), edges or {})


@cache
def relu(chip: str = "a733", shape: tuple[int, ...] = (1, 3, 4, 5)) -> bytes:
    """Relu of uint8 with scale 0.5 and zero point 125, in and out."""
    return network_file(models.quantized(shape, dtype=np.uint8, zero_point=125), chip)


@cache
def slow() -> bytes:
    """Many convolutions in float16, which take a second or so."""
    return network_file(models.repeated_convolution(size=256, filters=48, layers=8))


def create(vip: VipliteLibrary, model: bytes) -> tuple[int, Any]:
    """(code, network) of vip_create_network from memory."""
    network = ctypes.c_void_p(0xDEAD)
    code = vip.vip_create_network(
        model, len(model), CreateNetworkType.MEMORY, ctypes.byref(network)
    )
    return code, network.value


@contextmanager
def prepared(vip: VipliteLibrary, model: bytes) -> Iterator[int]:
    """A prepared network that lives for the block."""
    code, network = create(vip, model)
    assert code == OK
    assert vip.vip_prepare_network(network) == OK
    try:
        yield network
    finally:
        assert vip.vip_destroy_network(network) == OK


def answer(call: Any, *arguments: Any, kind: Any = ctypes.c_uint32) -> Any:
    """What a query answers, which must succeed."""
    value = kind()
    assert call(*arguments, ctypes.addressof(value)) == OK
    return value if isinstance(value, ctypes.Structure) else value.value


def parameters(vip: VipliteLibrary, network: int, side: str, index: int = 0) -> Any:
    """The create parameters for a tensor, queried as clients do."""
    query = getattr(vip, f"vip_query_{side}")

    def ask(what: BufferProperty, kind: Any) -> Any:
        return answer(query, network, index, what, kind=kind)

    params = abi.BufferCreateParams()
    params.num_of_dims = ask(BufferProperty.NUM_OF_DIMENSION, ctypes.c_uint32)
    sizes = (ctypes.c_uint32 * 6)()
    assert query(network, index, BufferProperty.SIZES_OF_DIMENSION, ctypes.addressof(sizes)) == OK
    params.sizes = sizes
    params.data_format = ask(BufferProperty.DATA_FORMAT, ctypes.c_int32)
    params.quant_format = ask(BufferProperty.QUANT_FORMAT, ctypes.c_int32)
    if params.quant_format == 1:
        params.quant_data.dfp.fixed_point_pos = ask(BufferProperty.FIXED_POINT_POS, ctypes.c_int32)
    elif params.quant_format == 2:
        params.quant_data.affine.scale = ask(BufferProperty.TF_SCALE, ctypes.c_float)
        params.quant_data.affine.zeroPoint = ask(BufferProperty.TF_ZERO_POINT, ctypes.c_int32)
    return params


def plain(count: int, data_format: int = 2) -> Any:
    """The create parameters of a vector."""
    params = abi.BufferCreateParams(num_of_dims=1, data_format=data_format)
    params.sizes[0] = count
    return params


def make_buffer(vip: VipliteLibrary, params: Any) -> int:
    """A buffer, which must be had."""
    buffer = ctypes.c_void_p()
    assert vip.vip_create_buffer(ctypes.byref(params), 0, ctypes.byref(buffer)) == OK
    assert buffer.value
    return buffer.value


def bytes_of(vip: VipliteLibrary, buffer: int) -> np.ndarray:
    """A buffer's bytes where the program sees them."""
    size, address = vip.vip_get_buffer_size(buffer), vip.vip_map_buffer(buffer)
    assert address
    memory: np.ndarray = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    return memory


def bind_all(vip: VipliteLibrary, network: int) -> tuple[list[int], list[int]]:
    """Buffers for all inputs and all outputs, bound."""
    made: tuple[list[int], list[int]] = ([], [])
    for buffers, side, prop in zip(
        made,
        ("input", "output"),
        (abi.NetworkProperty.INPUT_COUNT, abi.NetworkProperty.OUTPUT_COUNT),
        strict=True,
    ):
        for index in range(answer(vip.vip_query_network, network, prop)):
            buffers.append(make_buffer(vip, parameters(vip, network, side, index)))
            assert getattr(vip, f"vip_set_{side}")(network, index, buffers[-1]) == OK
    return made


def infer(vip: VipliteLibrary, network: int, *values: np.ndarray) -> list[np.ndarray]:
    """Run raw inputs through a prepared network; returns the raw outputs, flat."""
    inputs, outputs = bind_all(vip, network)
    for buffer, value in zip(inputs, values, strict=True):
        bytes_of(vip, buffer)[:] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        assert vip.vip_flush_buffer(buffer, abi.BufferOperation.FLUSH) == OK
    assert vip.vip_run_network(network) == OK
    found = []
    for index, buffer in enumerate(outputs):
        assert vip.vip_flush_buffer(buffer, abi.BufferOperation.INVALIDATE) == OK
        dtype = DTYPES[parameters(vip, network, "output", index).data_format]
        found.append(bytes_of(vip, buffer).copy().view(dtype))
    for buffer in (*inputs, *outputs):
        assert vip.vip_destroy_buffer(buffer) == OK
    return found


def make_group(vip: VipliteLibrary, count: int) -> int:
    """A group for some networks, which must be had."""
    group = ctypes.c_void_p()
    assert vip.vip_create_group(count, ctypes.byref(group)) == OK
    assert group.value
    return group.value


def ready(vip: VipliteLibrary, model: bytes) -> tuple[int, int, int]:
    """(network, input buffer, output buffer), prepared and bound."""
    _, network = create(vip, model)
    assert vip.vip_prepare_network(network) == OK
    (source,), (target,) = bind_all(vip, network)
    return network, source, target
