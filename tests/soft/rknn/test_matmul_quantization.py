"""Scales and zero points of the matrix products, against NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary

from ...matmul import (
    NATIVE,
    NORM,
    SUCC,
    TP_NORM,
    Client,
    T,
    assert_is,
    magnitudes,
    saturated,
    sums,
    types_of,
    values,
)

INVALID = abi.ErrorCode.PARAM_INVALID
LAYER_SYM, LAYER, CHANNEL_SYM, CHANNEL, GROUP_SYM, GROUP = abi.MatmulQuantization
M, K, N, GROUP_SIZE = 5, 128, 64, 32
SHAPE = (M, K, N)


def matrices(kind: abi.MatmulType, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    a_type, b_type, _ = types_of(kind)
    rng = np.random.default_rng(seed)
    return values(rng, a_type, (M, K)), values(rng, b_type, (K, N))


def parameters(way: abi.MatmulQuantization, b_type: str) -> tuple[np.ndarray, np.ndarray]:
    """Scales and zero points of B that broadcast to (groups, 1, N) or less."""
    rng = np.random.default_rng(1)
    shape: dict[Any, tuple[int, ...]] = {
        LAYER_SYM: (1, 1, 1), LAYER: (1, 1, 1), CHANNEL_SYM: (1, 1, N), CHANNEL: (1, 1, N),
        GROUP_SYM: (K // GROUP_SIZE, 1, N), GROUP: (K // GROUP_SIZE, 1, N),
    }  # fmt: skip
    scales = rng.uniform(0.01, 0.1, shape[way]).astype(np.float32)
    bound = 8 if b_type == "INT4" else 128
    zeros = rng.integers(-bound, bound, shape[way])
    return scales, zeros if way in (LAYER, CHANNEL, GROUP) else zeros * 0


def real(b: np.ndarray, scales: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """B as numbers."""
    groups = b.astype(np.float64).reshape(scales.shape[0], -1, N)
    numbers: np.ndarray = ((groups - zeros) * scales.astype(np.float64)).reshape(K, N)
    return numbers


FLOATS = [("rk3588", T(9), (LAYER_SYM, LAYER, GROUP_SYM, GROUP))] + [
    ("rk3576", T(number), tuple(abi.MatmulQuantization)) for number in (5, 6, 7, 8, 12, 15)
]


@pytest.mark.parametrize("layout", [NORM, NATIVE, TP_NORM])
@pytest.mark.parametrize(("soc", "kind", "ways"), FLOATS)
def test_every_way_into_floats(
    npu: RknnLibrary,
    monkeypatch: pytest.MonkeyPatch,
    soc: str,
    kind: abi.MatmulType,
    ways: tuple[abi.MatmulQuantization, ...],
    layout: abi.MatmulLayout,
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", soc)
    a, b = matrices(kind)
    for way in ways:
        scales, zeros = parameters(way, types_of(kind)[1])
        group = GROUP_SIZE if way in (GROUP_SYM, GROUP) else 0
        with Client(npu, soc, kind, SHAPE, layout, NORM, way, group) as client:
            assert client.scale("B", scales, zeros) == SUCC
            found, numbers = client.multiply(a, b), real(b, scales, zeros)
            assert_is(found, sums(a, numbers), types_of(kind)[2], magnitudes(a, numbers))


def test_a_s_parameters_with_a_float_c(npu: RknnLibrary) -> None:
    a, b = matrices(T(9))
    with Client(npu, "rk3588", T(9), SHAPE) as client:
        assert client.scale("A", [0.5], [7]) == SUCC
        assert client.scale("C", [4]) == SUCC
        expected = sums(a.astype(int) - 7, b) * 0.5 / 4
        assert_is(client.multiply(a, b), expected, "FLOAT32")
    with Client(npu, "rk3588", T(9), SHAPE, b_quantization=GROUP_SYM, group_size=32) as client:
        assert client.scale("A", [0.5], [7]) == SUCC
        assert client.scale("C", [4]) == SUCC
        assert_is(client.multiply(a, b), expected, "FLOAT32", magnitudes(a, b))


@pytest.mark.parametrize("way", [LAYER_SYM, LAYER, CHANNEL_SYM, CHANNEL])
@pytest.mark.parametrize("layout", [NORM, NATIVE, TP_NORM])
def test_int8_results(
    npu: RknnLibrary, way: abi.MatmulQuantization, layout: abi.MatmulLayout
) -> None:
    """Rounded to nearest, ties to even; saturated."""
    a, b = matrices(T(3))
    scales, zeros = parameters(way, "INT8")
    with Client(npu, "rk3588", T(3), SHAPE, layout, NATIVE, way) as client:
        assert client.scale("A", [0.02], [5]) == SUCC
        assert client.scale("B", scales, zeros) == SUCC
        assert client.scale("C", [0.5], [-11]) == SUCC
        found = client.multiply(a, b)
    factor = np.float64(np.float32(0.02)) * scales.astype(np.float64) / 0.5
    shifted = sums(a.astype(int) - 5, b.astype(int) - zeros.reshape(1, -1))
    np.testing.assert_array_equal(found, saturated(np.rint(shifted * factor[0]) - 11, "int8"))
    assert {found.min(), found.max()} == {-128, 127}, "some results saturate"


def test_ties_go_to_even(npu: RknnLibrary) -> None:
    a, b = np.zeros((4, 32), np.int8), np.zeros((32, 32), np.int8)
    a[:, 0], b[0] = [1, 3, -1, -3], 1
    with Client(npu, "rk3588", T(3), (4, 32, 32)) as client:
        assert client.scale("C", [2]) == SUCC
        assert list(client.multiply(a, b)[:, 0]) == [0, 2, 0, -2]


@pytest.mark.parametrize("layout", [NORM, NATIVE, TP_NORM])
@pytest.mark.parametrize(("soc", "number"), [("rk3588", 2), ("rk3576", 11), ("rk3588", 10)])
def test_zero_points_of_integer_sums(
    npu: RknnLibrary,
    monkeypatch: pytest.MonkeyPatch,
    soc: str,
    number: int,
    layout: abi.MatmulLayout,
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", soc)
    kind = T(number)
    a, b = matrices(kind)
    zero_a, zero_b = (-3, 4) if kind is T(10) else (-100, 5)
    with Client(npu, soc, kind, SHAPE, layout, b_quantization=LAYER) as client:
        assert client.scale("A", [0.1], [zero_a]) == SUCC
        assert client.scale("B", [0.2], [zero_b]) == SUCC
        found = client.multiply(a, b)
    assert_is(found, sums(a.astype(int) - zero_a, b.astype(int) - zero_b), types_of(kind)[2])


@pytest.mark.parametrize(("soc", "number"), [("rk3588", 2), ("rk3576", 11)])
def test_channels_of_int32_come_to_one_scale(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch, soc: str, number: int
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", soc)
    a, b = matrices(T(number))
    scales, _ = parameters(CHANNEL_SYM, "INT8")
    with Client(npu, soc, T(number), SHAPE, b_quantization=CHANNEL_SYM) as client:
        assert_is(client.multiply(a, b), sums(a, b), "INT32")
        assert normal_scale(client) == (SUCC, 1)
        assert client.scale("B", scales) == SUCC
        code, scale = normal_scale(client)
        found = client.multiply(a, b)
    assert (code, scale) == (SUCC, scales.max())
    wide = scales.astype(np.float64)[0]
    np.testing.assert_array_equal(found, np.rint(sums(a, b) * (wide / wide.max())))


def normal_scale(client: Client, name: bytes = b"B") -> tuple[int, float]:
    """What rknn_matmul_get_quant_params answers; pointers that were freed aren't looked at."""
    freed = ctypes.cast(16, ctypes.POINTER(ctypes.c_float))
    params = abi.QuantParams(name=name, scale=freed, scale_len=999)
    scale = ctypes.c_float()
    code = client.npu.rknn_matmul_get_quant_params(
        client.context, ctypes.byref(params), ctypes.byref(scale)
    )
    return code, scale.value


def test_the_numbers_of_2_0_0(npu: RknnLibrary) -> None:
    """B_quant_type 1 meant per channel then; the number of scales tells."""
    a, b = matrices(T(3))
    scales, _ = parameters(CHANNEL_SYM, "INT8")
    with Client(npu, "rk3588", T(3), SHAPE, b_quantization=1) as client:
        assert client.scale("B", scales, np.zeros(N)) == SUCC
        expected = saturated(sums(a, b) * scales.astype(np.float64)[0], "int8")
        np.testing.assert_array_equal(client.multiply(a, b), expected)


@pytest.mark.parametrize(
    ("name", "scales", "zeros"),
    [
        ("A", [1, 1], None), ("B", [1, 1], None), ("C", [1] * N, None), ("D", [1], None),
        ("", [1], None), ("B", [], None), ("B", [1], [0, 0]), ("B", [0], None), ("B", [-1], None),
        ("B", [np.nan], None), ("B", [np.inf], None), ("B", [1], [1]), ("A", [1], [128]),
        ("A", [1], [-129]),
    ],
)  # fmt: skip
def test_parameters_that_are_refused(
    npu: RknnLibrary, name: str, scales: list[float], zeros: list[int] | None
) -> None:
    a, b = matrices(T(2))
    with Client(npu, "rk3588", T(2), SHAPE) as client:
        assert client.scale(name, scales, zeros) == INVALID
        assert_is(client.multiply(a, b), sums(a, b), "INT32")


def test_zero_points_of_floats_are_refused(npu: RknnLibrary) -> None:
    with Client(npu, "rk3588", T(1), SHAPE) as client:
        assert client.scale("A", [1], [0]) == SUCC
        assert client.scale("A", [1], [1]) == INVALID


def test_null_pointers(npu: RknnLibrary) -> None:
    with Client(npu, "rk3588", T(2), SHAPE, b_quantization=CHANNEL_SYM) as client:
        set_params = client.npu.rknn_matmul_set_quant_params
        assert set_params(client.context, None) == INVALID
        one = (ctypes.c_float * 1)(1)
        for params in (
            abi.QuantParams(name=b"A", scale=None, scale_len=1),
            abi.QuantParams(name=b"A", scale=one, scale_len=-1),
            abi.QuantParams(name=b"A", scale=one, scale_len=1, zp=None, zp_len=1),
            abi.QuantParams(name=b"A", scale=one, scale_len=1, zp=None, zp_len=-1),
        ):
            assert set_params(client.context, ctypes.byref(params)) == INVALID
        get_params = client.npu.rknn_matmul_get_quant_params
        assert get_params(client.context, None, one) == INVALID
        params = abi.QuantParams(name=b"B")
        assert get_params(client.context, ctypes.byref(params), None) == INVALID
        assert normal_scale(client, b"A")[0] == INVALID
    with Client(npu, "rk3588", T(2), SHAPE) as client:
        assert normal_scale(client)[0] == INVALID, "not per channel"


def test_scales_are_for_the_shape_in_use(npu: RknnLibrary) -> None:
    other = (M, K, 2 * N)
    shapes = (other,)
    with Client(
        npu, "rk3588", T(3), SHAPE, b_quantization=CHANNEL_SYM, more_shapes=shapes
    ) as client:
        assert client.scale("B", np.ones(N)) == SUCC
        assert client.select(1) == SUCC
        a, b = matrices(T(3))
        client.put(a, np.hstack([b, b]))
        assert client.run() == INVALID
        assert client.scale("B", np.ones(2 * N)) == SUCC
        assert client.run() == SUCC
