"""Every type, layout and chip of the matrix products, against NumPy."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary

from ...matmul import (
    BLOCKS,
    NATIVE,
    NORM,
    SUCC,
    TP_NORM,
    TYPES,
    Client,
    T,
    assert_is,
    encode,
    lay_out_b,
    magnitudes,
    sums,
    types_of,
    values,
)

CASES = [(soc, kind) for soc, kinds in TYPES.items() for kind in kinds]


@pytest.mark.parametrize(("soc", "kind"), CASES)
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_every_type_on_every_chip(
    npu: RknnLibrary,
    monkeypatch: pytest.MonkeyPatch,
    soc: str,
    kind: abi.MatmulType,
    data: st.DataObject,
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", soc)
    a_type, b_type, c_type = types_of(kind)
    _, block_n, block_k = BLOCKS[soc][a_type]
    m = data.draw(st.integers(1, 9))
    k = block_k * data.draw(st.integers(1, 6))
    n = block_n * data.draw(st.integers(1, 5))
    layouts = [NORM, NATIVE] if soc in ("rk3566", "rk3568") else [NORM, NATIVE, TP_NORM]
    b_layout, ac_layout = (
        data.draw(st.sampled_from(layouts)),
        data.draw(st.sampled_from(layouts[:2])),
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    a, b = values(rng, a_type, (m, k)), values(rng, b_type, (k, n))
    with Client(npu, soc, kind, (m, k, n), b_layout, ac_layout) as client:
        assert_is(client.multiply(a, b), sums(a, b), c_type, magnitudes(a, b))


@pytest.mark.parametrize("b_layout", [NORM, NATIVE, TP_NORM])
@pytest.mark.parametrize("ac_layout", [NORM, NATIVE])
def test_attributes(
    npu: RknnLibrary, b_layout: abi.MatmulLayout, ac_layout: abi.MatmulLayout
) -> None:
    with Client(npu, "rk3588", T(2), (4, 64, 96), b_layout, ac_layout) as client:
        found = {
            name: (attr.name, list(attr.dims[: attr.n_dims]), attr.size, attr.type)
            for name in "ABC"
            for attr in [getattr(client.attr, name)]
        }
    b_dims = {NORM: [64, 96], NATIVE: [3, 2, 32, 32], TP_NORM: [96, 64]}
    is_native = ac_layout == NATIVE
    assert found == {
        "A": (b"A", [4, 4, 16] if is_native else [4, 64], 256, abi.TensorType.INT8),
        "B": (b"B", b_dims[b_layout], 6144, abi.TensorType.INT8),
        "C": (b"C", [24, 4, 4] if is_native else [4, 96], 1536, abi.TensorType.INT32),
    }


def test_attributes_of_int4(npu: RknnLibrary) -> None:
    with Client(npu, "rk3588", T(10), (3, 64, 128), NATIVE, NATIVE) as client:
        found = [
            (list(attr.dims[: attr.n_dims]), attr.size, attr.type)
            for attr in (client.attr.A, client.attr.B, client.attr.C)
        ]
    assert found == [
        ([2, 3, 32], 96, abi.TensorType.INT4),
        ([2, 2, 64, 32], 4096, abi.TensorType.INT4),
        ([16, 3, 8], 768, abi.TensorType.INT16),
    ]


@pytest.mark.parametrize(("soc", "k"), [("rk3588", 8192 + 8192 + 64), ("rk3576", 4096 + 32)])
@pytest.mark.parametrize("number", [1, 2])
def test_large_k_in_parts(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch, soc: str, k: int, number: int
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", soc)
    kind, rng = T(number), np.random.default_rng(0)
    a_type, b_type, c_type = types_of(kind)
    a, b = values(rng, a_type, (2, k)), values(rng, b_type, (k, 64))
    with Client(npu, soc, kind, (2, k, 64), NATIVE) as client:
        found = client.multiply(a, b)
    assert_is(found, sums(a, b), c_type, magnitudes(a, b))


@pytest.mark.parametrize("b_layout", [NORM, NATIVE, TP_NORM])
def test_int4_sums_saturate(npu: RknnLibrary, b_layout: abi.MatmulLayout) -> None:
    k = 1024
    a, b = np.full((2, k), -8, np.int8), np.full((k, 64), -8, np.int8)
    a[1] = 7
    with Client(npu, "rk3588", T(10), (2, k, 64), b_layout) as client:
        found = client.multiply(a, b)
    assert (found[0] == 32767).all(), "not 65536, and not 0"
    assert (found[1] == -32768).all(), "not -57344"


@pytest.mark.parametrize("b_layout", [NORM, NATIVE, TP_NORM])
def test_int8_sums_saturate(npu: RknnLibrary, b_layout: abi.MatmulLayout) -> None:
    k = 2**17 + 64
    a, b = np.full((2, k), -128, np.int8), np.full((k, 32), -128, np.int8)
    a[1] = 1
    with Client(npu, "rk3588", T(2), (2, k, 32), b_layout) as client:
        found = client.multiply(a, b)
    assert (found[0] == 2**31 - 1).all()
    assert (found[1] == -128 * k).all()


def test_extreme_int8_values_are_exact(npu: RknnLibrary) -> None:
    a, b = np.full((16, 4096), -128, np.int8), np.full((4096, 32), -128, np.int8)
    a[:, ::2] = 127
    for layout in (NORM, NATIVE, TP_NORM):
        with Client(npu, "rk3588", T(2), (16, 4096, 32), layout) as client:
            assert_is(client.multiply(a, b), sums(a, b), "INT32")


def test_float16_sums_in_float32(npu: RknnLibrary) -> None:
    """2048 ones and more: float16 would stop at 2048."""
    a, b = np.ones((1, 4096), np.float16), np.ones((4096, 16), np.float16)
    with Client(npu, "rk3588", T(1), (1, 4096, 16)) as client:
        assert (client.multiply(a, b) == 4096).all()
    with Client(npu, "rk3588", T(4), (1, 4096, 16)) as client:
        assert (client.multiply(a, b) == 4096).all()
        assert (client.multiply(a * 100, b) == np.inf).all(), "beyond what float16 holds"


def test_bfloat16_is_rounded_to_even(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOC", "rk3576")
    a, b = np.zeros((6, 32), np.float16), np.zeros((32, 16), np.int8)
    # One more than 8 bits, twice a tie; then what is infinite and no number.
    a[:, 0] = [257, 259, 256, np.inf, -np.inf, np.nan]
    b[0] = 1
    with Client(npu, "rk3576", T(12), (6, 32, 16)) as client:
        found = client.multiply(a, b)[:, 0]
    np.testing.assert_array_equal(found[:5], [256, 260, 256, np.inf, -np.inf])
    assert np.isnan(found[5])


@pytest.mark.parametrize("number", [2, 1, 10])
@pytest.mark.parametrize("k", [64, 8192 + 64])
def test_the_native_layout_of_b(npu: RknnLibrary, number: int, k: int) -> None:
    """Both forms of the function, and the same memory for both matrices."""
    kind, n = T(number), 128
    _, b_type, _ = types_of(kind)
    _, block_n, block_k = BLOCKS["rk3588"][b_type]
    b = values(np.random.default_rng(0), b_type, (k, n))
    is_int4 = b_type == "INT4"
    expected = encode(lay_out_b(b, block_n, block_k, 8192), b_type, high_first=is_int4)
    source = ctypes.create_string_buffer(encode(b, b_type), len(expected))
    info = abi.MatmulInfo(type=kind)
    convert = npu.rknn_B_normal_layout_to_native_layout
    for arguments in ((ctypes.addressof(info), -1, -1), (block_n, block_k, kind)):
        target = ctypes.create_string_buffer(len(expected))
        assert convert(source, target, k, n, *arguments) == SUCC
        assert target.raw == expected
    assert convert(source, source, k, n, ctypes.addressof(info), 0, 0) == SUCC
    assert source.raw == expected


@pytest.mark.parametrize("b_layout", [NORM, NATIVE])
def test_the_structure_of_1_6_0(npu: RknnLibrary, b_layout: abi.MatmulLayout) -> None:
    """24 bytes and nothing after them: a page that may not be read."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    words = (ctypes.c_int32 * 6).from_address(start + page - 24)
    words[:] = [2, 64, 32, T(2), b_layout, NATIVE]
    info = ctypes.cast(start + page - 24, ctypes.POINTER(abi.MatmulInfo))
    handle, attr = abi.Handle(), abi.MatmulIoAttr()
    try:
        assert npu.rknn_matmul_create(ctypes.byref(handle), info, ctypes.byref(attr)) == SUCC
        assert attr.B.n_dims == (4 if b_layout == NATIVE else 2)
        assert npu.rknn_matmul_destroy(handle.value) == SUCC
    finally:
        libc.mprotect(ctypes.c_void_p(start + page), page, 3)


def test_more_columns_than_the_guide_allows(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Boards with RK3588 run them; strict mode keeps to the table."""
    monkeypatch.setenv("RKNN_LOG_LEVEL", "1")
    with Client(npu, "rk3588", T(2), (1, 32, 8192)) as client:
        a, b = np.ones((1, 32), np.int8), np.ones((32, 8192), np.int8)
        assert (client.multiply(a, b) == 32).all()
    assert "N(8192) is more than the 4096 of the user guide's table" in capfd.readouterr().err
    monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
    assert Client(npu, "rk3588", T(2), (1, 32, 8192)).create() == abi.ErrorCode.PARAM_INVALID
