"""Creating, duplicating, preparing and configuring networks; what they say of themselves."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anynpu.soft.formats import nbg
from anynpu.soft.formats.nbg import writer
from anynpu.tensor import Quantization
from anynpu.viplite import abi
from anynpu.viplite.abi import (
    BufferProperty,
    CreateNetworkType,
    DupNetworkType,
    NetworkProperty,
    Status,
)
from anynpu.viplite.library import VipliteLibrary

from ... import models
from .client import (
    OK,
    answer,
    bind_all,
    create,
    infer,
    make_buffer,
    network_file,
    parameters,
    plain,
    prepared,
    relu,
)

INVALID = Status.INVALID_ARGUMENTS
PIXELS = np.arange(100, 160).astype(np.uint8)
RECTIFIED = np.maximum(PIXELS, 125)


def create_from(vip: VipliteLibrary, data: Any, size: int, kind: int) -> tuple[int, Any]:
    network = ctypes.c_void_p(0xDEAD)
    return vip.vip_create_network(data, size, kind, ctypes.byref(network)), network.value


def test_from_memory_which_may_go(vip: VipliteLibrary) -> None:
    for kind in (CreateNetworkType.MEMORY, CreateNetworkType.FLASH):
        memory = ctypes.create_string_buffer(relu(), len(relu()))
        code, network = create_from(vip, memory, len(relu()), kind)
        assert code == OK
        ctypes.memset(memory, 0, len(memory))
        assert vip.vip_prepare_network(network) == OK
        np.testing.assert_array_equal(infer(vip, network, PIXELS)[0], RECTIFIED)


def test_from_a_file_whatever_the_size_given(vip: VipliteLibrary, tmp_path: Path) -> None:
    path = tmp_path / "net.nb"
    path.write_bytes(relu())
    for size in (0, 7):
        code, network = create_from(vip, str(path).encode(), size, CreateNetworkType.FILE)
        assert code == OK
        assert vip.vip_destroy_network(network) == OK


def test_a_file_that_cannot_be_read(vip: VipliteLibrary, tmp_path: Path) -> None:
    for path in (tmp_path / "none.nb", tmp_path):
        code, network = create_from(vip, str(path).encode(), 0, CreateNetworkType.FILE)
        assert (code, network) == (Status.IO, None)


@pytest.mark.parametrize("data", [b"x", relu()[:800], b"VPMN" + bytes(2000), b"RKNN" + bytes(99)])
def test_what_is_no_network(vip: VipliteLibrary, data: bytes) -> None:
    assert create(vip, data) == (Status.INVALID_NETWORK, None)


def test_misuse_of_creation(vip: VipliteLibrary) -> None:
    data, size = relu(), len(relu())
    assert create_from(vip, None, size, CreateNetworkType.MEMORY) == (INVALID, None)
    assert create_from(vip, data, 0, CreateNetworkType.MEMORY) == (INVALID, None)
    for kind in (0, 3, 5, -1):
        assert create_from(vip, data, size, kind) == (INVALID, None)
    assert vip.vip_create_network(data, size, CreateNetworkType.MEMORY, None) == INVALID


def test_a_destroyed_network_is_invalid_for_every_call(vip: VipliteLibrary) -> None:
    _, network = create(vip, relu())
    assert vip.vip_destroy_network(network) == OK
    value = ctypes.create_string_buffer(64)
    for handle in (network, None, 0xDEAD, 2**64 - 1):
        for name in ("destroy", "prepare", "finish", "run", "trigger", "wait", "cancel"):
            assert getattr(vip, f"vip_{name}_network")(handle) == INVALID, name
        assert vip.vip_query_network(handle, 0, value) == INVALID
        assert vip.vip_set_network(handle, 67, value) == INVALID
        assert vip.vip_query_input(handle, 0, 0, value) == INVALID
        assert vip.vip_set_input(handle, 0, 1) == INVALID


def test_networks_one_after_the_other(vip: VipliteLibrary) -> None:
    """A library for T527 crashes when one is destroyed and another created."""
    for _ in range(3):
        with prepared(vip, relu()) as network:
            np.testing.assert_array_equal(infer(vip, network, PIXELS)[0], RECTIFIED)


# --------------------------------------------------------------------------------- what it says


def test_what_a_network_says(vip: VipliteLibrary) -> None:
    _, network = create(vip, network_file(models.deep()))
    ask = vip.vip_query_network
    assert answer(ask, network, NetworkProperty.INPUT_COUNT) == 1
    assert answer(ask, network, NetworkProperty.OUTPUT_COUNT) == 1
    assert answer(ask, network, NetworkProperty.LAYER_COUNT) == 3
    assert answer(ask, network, NetworkProperty.MEMORY_POOL_SIZE) == 2 * 16 * 16 * (16 + 8)
    assert answer(ask, network, NetworkProperty.CORE_COUNT, kind=ctypes.c_uint8) == 1
    name = answer(ask, network, NetworkProperty.NETWORK_NAME, kind=ctypes.c_char * 64)
    assert name == b"test"


def test_what_a_tensor_says(vip: VipliteLibrary) -> None:
    _, network = create(vip, relu())
    params = parameters(vip, network, "input")
    assert (params.num_of_dims, params.sizes[:4]) == (4, [5, 4, 3, 1])
    assert (params.data_format, params.quant_format) == (2, 2)
    assert params.quant_data.affine.scale == 0.5
    assert params.quant_data.affine.zeroPoint == 125
    ask = vip.vip_query_output
    assert answer(ask, network, 0, BufferProperty.NAME, kind=ctypes.c_char * 64) == b"y"
    # Programs ask for everything, whatever the quantisation.
    assert answer(ask, network, 0, BufferProperty.FIXED_POINT_POS, kind=ctypes.c_int32) == 0


def test_a_float_and_a_fixed_point_tensor(vip: VipliteLibrary) -> None:
    file = network_file(models.add_one((2, 3)), edges={"y": Quantization.fixed_point(9)})
    _, network = create(vip, file)
    source, target = (parameters(vip, network, side) for side in ("input", "output"))
    assert (source.data_format, source.quant_format) == (1, 0)
    assert (target.data_format, target.quant_format) == (5, 1)
    assert target.quant_data.dfp.fixed_point_pos == 9
    ask = vip.vip_query_output
    assert answer(ask, network, 0, BufferProperty.TF_SCALE, kind=ctypes.c_float) == 1
    assert answer(ask, network, 0, BufferProperty.TF_ZERO_POINT, kind=ctypes.c_int32) == 0


def test_sizes_fill_no_more_than_the_dimensions(vip: VipliteLibrary) -> None:
    _, network = create(vip, network_file(models.add_one((2, 3))))
    sizes = (ctypes.c_uint32 * 6)(*[77] * 6)
    code = vip.vip_query_input(
        network, 0, BufferProperty.SIZES_OF_DIMENSION, ctypes.addressof(sizes)
    )
    assert code == OK
    assert sizes[:] == [3, 2, 77, 77, 77, 77]


def test_misuse_of_queries(vip: VipliteLibrary) -> None:
    _, network = create(vip, relu())
    value = ctypes.create_string_buffer(64)
    for query in (vip.vip_query_input, vip.vip_query_output):
        assert query(network, 1, BufferProperty.NAME, value) == INVALID
        assert query(network, 2**32 - 1, BufferProperty.NAME, value) == INVALID
        assert query(network, 0, 8, value) == INVALID
        assert query(network, 0, BufferProperty.NAME, None) == INVALID
    assert vip.vip_query_network(network, NetworkProperty.LAYER_COUNT, None) == INVALID
    assert vip.vip_query_network(network, 10, value) == INVALID


@pytest.mark.parametrize(
    "unsupported",
    [
        NetworkProperty.ADDRESS_INFO,
        NetworkProperty.READ_REG_IRQ,
        NetworkProperty.GET_LAYER_DUMP_OUTPUT,
    ],
)
def test_what_is_not_answered(vip: VipliteLibrary, unsupported: NetworkProperty) -> None:
    _, network = create(vip, relu())
    value = ctypes.create_string_buffer(64)
    assert vip.vip_query_network(network, unsupported, value) == Status.NOT_SUPPORTED


# -------------------------------------------------------------------------------- configuring it


def set_word(vip: VipliteLibrary, network: Any, property: int, *words: int) -> int:
    values = (ctypes.c_uint32 * len(words))(*words)
    code: int = vip.vip_set_network(network, property, ctypes.addressof(values))
    return code


@pytest.mark.parametrize(
    ("property", "words", "code"),
    [
        (NetworkProperty.SET_PRIORITY, (255,), OK),
        (NetworkProperty.SET_TIME_OUT, (1000,), OK),
        (NetworkProperty.SET_DEVICE_INDEX, (0,), OK),
        (NetworkProperty.SET_DEVICE_INDEX, (1,), INVALID),
        (NetworkProperty.SET_CORE_INDEX, (0,), OK),
        (NetworkProperty.SET_CORE_INDEX, (1,), INVALID),
        (NetworkProperty.SET_ENABLE_NPD, (1,), OK),
        (NetworkProperty.SET_VIPSRAM_PRELOAD, (1,), OK),
        (NetworkProperty.SET_LAYER_DUMP_ID, (1,), Status.NOT_SUPPORTED),
        (NetworkProperty.CHANGE_PPU_PARAM, (1,), Status.NOT_SUPPORTED),
        (NetworkProperty.LAYER_COUNT, (1,), Status.NOT_SUPPORTED),
        (abi.OPERATION_RANGE, (0, 1), OK),
        (abi.OPERATION_RANGE, (0, 0), OK),
        (abi.OPERATION_RANGE, (1, 0), INVALID),
        (abi.OPERATION_RANGE, (0, 2), INVALID),
        (74, (0,), INVALID),
    ],
)
def test_properties(vip: VipliteLibrary, property: int, words: tuple[int, ...], code: int) -> None:
    _, network = create(vip, relu())
    assert set_word(vip, network, property, *words) == code
    assert vip.vip_set_network(network, NetworkProperty.SET_PRIORITY, None) == INVALID


def test_memory_from_outside(vip: VipliteLibrary) -> None:
    _, network = create(vip, network_file(models.deep()))
    needed = answer(vip.vip_query_network, network, NetworkProperty.MEMORY_POOL_SIZE)
    small, large = make_buffer(vip, plain(needed - 1)), make_buffer(vip, plain(needed))
    assert vip.vip_set_network(network, NetworkProperty.SET_MEMORY_POOL, small) == INVALID
    assert vip.vip_set_network(network, NetworkProperty.SET_MEMORY_POOL, large) == OK
    assert vip.vip_set_network(network, NetworkProperty.SET_COEFF_MEMORY, large) == OK
    assert vip.vip_set_network(network, NetworkProperty.SET_COEFF_MEMORY, 0xDEAD) == INVALID


def test_properties_come_before_preparing(vip: VipliteLibrary) -> None:
    with prepared(vip, relu()) as network:
        assert set_word(vip, network, NetworkProperty.SET_PRIORITY, 1) == Status.FAILURE
        assert vip.vip_finish_network(network) == OK
        assert set_word(vip, network, NetworkProperty.SET_PRIORITY, 1) == OK
        assert vip.vip_prepare_network(network) == OK


def test_shader_operations_are_not_executed(vip: VipliteLibrary) -> None:
    _, network = create(vip, relu())
    param = abi.PpuParam()
    set_param = vip.vip_set_ppu_param
    assert set_param(network, ctypes.byref(param), 0) == Status.NOT_SUPPORTED
    assert set_param(network, None, 0) == INVALID


# ------------------------------------------------------------------------------------- preparing


def test_preparing_twice_and_finishing(vip: VipliteLibrary) -> None:
    _, network = create(vip, relu())
    assert vip.vip_finish_network(network) == Status.NETWORK_NOT_PREPARED
    assert vip.vip_prepare_network(network) == OK
    assert vip.vip_prepare_network(network) == OK
    bind_all(vip, network)
    assert vip.vip_run_network(network) == OK
    assert vip.vip_finish_network(network) == OK
    assert vip.vip_run_network(network) == Status.NETWORK_NOT_PREPARED
    assert vip.vip_prepare_network(network) == OK
    assert vip.vip_run_network(network) == Status.MISSING_INPUT_OUTPUT


def test_a_network_without_what_computes_it(
    vip: VipliteLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    tensor = nbg.Tensor("x", (4,), 2, 0)
    file = writer.write_soft(
        b"no ONNX file", name="net", target=0x1000003B, cores=1,
        inputs=(tensor,), outputs=(tensor,), layers=(),
    )  # fmt: skip
    code, network = create(vip, file)
    assert code == OK
    assert answer(vip.vip_query_network, network, NetworkProperty.INPUT_COUNT) == 1
    assert vip.vip_prepare_network(network) == Status.FAILURE
    assert "neither an ONNX file" in capfd.readouterr().err


# ------------------------------------------------------------------------------------ duplicates


def duplicate(
    vip: VipliteLibrary, network: Any, kind: int, data: Any = None, size: int = 0
) -> tuple[int, Any]:
    created = ctypes.c_void_p(0xDEAD)
    code = vip.vip_dup_network(data, size, kind, network, ctypes.byref(created))
    return code, created.value


def test_a_duplicate_has_its_own_buffers_and_outlives_its_source(vip: VipliteLibrary) -> None:
    with prepared(vip, relu()) as network:
        code, copied = duplicate(vip, network, DupNetworkType.FROM_NETWORK)
        assert code == OK
        assert vip.vip_run_network(copied) == Status.NETWORK_NOT_PREPARED
        assert vip.vip_prepare_network(copied) == OK
        bind_all(vip, network)
        assert vip.vip_run_network(copied) == Status.MISSING_INPUT_OUTPUT
        assert vip.vip_run_network(network) == OK
    np.testing.assert_array_equal(infer(vip, copied, PIXELS)[0], RECTIFIED)


def test_every_way_to_duplicate(vip: VipliteLibrary, tmp_path: Path) -> None:
    path = tmp_path / "net.nb"
    path.write_bytes(relu())
    ways = DupNetworkType
    with prepared(vip, relu()) as network:
        for how in (0, ways.FOR_CMD_BY_NETWORK, ways.FOR_CMD_BY_NBG):
            for source, data, size in (
                (ways.NONE, None, 0),
                (ways.FROM_NETWORK, None, 0),
                (ways.FROM_NBG_FILE, str(path).encode(), 0),
                (ways.FROM_NBG_MEMORY, relu(), len(relu())),
                (ways.FROM_NBG_FLASH, relu(), len(relu())),
            ):
                code, copied = duplicate(vip, network, how | source, data, size)
                assert code == OK
                assert vip.vip_prepare_network(copied) == OK
        weak = ctypes.c_void_p()
        assert vip.vip_weak_dup_network(network, ctypes.byref(weak)) == OK
        assert vip.vip_prepare_network(weak) == OK


def test_misuse_of_duplicating(vip: VipliteLibrary) -> None:
    ways = DupNetworkType
    with prepared(vip, relu()) as network:
        assert duplicate(vip, network, ways.FROM_NBG_MEMORY) == (INVALID, None)
        both = ways.FROM_NBG_MEMORY | ways.FROM_NBG_FILE
        assert duplicate(vip, network, both, relu(), len(relu())) == (INVALID, None)
        assert duplicate(vip, network, 0x1000) == (INVALID, None)
        assert duplicate(vip, 0xDEAD, ways.FROM_NETWORK) == (INVALID, None)
        other = relu(shape=(1, 3, 4, 6))
        code, _ = duplicate(vip, network, ways.FROM_NBG_MEMORY, other, len(other))
        assert code == Status.INVALID_NETWORK
        code = vip.vip_dup_network(None, 0, ways.FROM_NETWORK, network, None)
        assert code == INVALID
        assert vip.vip_weak_dup_network(network, None) == INVALID
