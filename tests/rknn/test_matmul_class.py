"""`Matmul` and `anynpu.matmul`: arrays in and out, packing, shapes, life and errors."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anynpu
from anynpu import soc
from anynpu.rknn import Matmul, abi
from anynpu.rknn.library import load

from ..matmul import TYPES, T, assert_is, magnitudes, sums, types_of, values

CASES = [(chip, kind) for chip, kinds in TYPES.items() for kind in kinds]
LAYOUTS = abi.MatmulLayout.__members__


@pytest.mark.parametrize(("chip", "kind"), CASES)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_any_shape(chip: str, kind: abi.MatmulType, data: st.DataObject) -> None:
    """K and N need not be multiples of anything."""
    m, k, n = (data.draw(st.integers(1, 90)) for _ in range(3))
    layouts = ["NORM", "NATIVE"] + ([] if chip in ("rk3566", "rk3568") else ["TP_NORM"])
    b_layout = data.draw(st.sampled_from(layouts))
    ac_layout = data.draw(st.sampled_from(layouts[:2]))
    a_type, b_type, c_type = types_of(kind)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    a, b = values(rng, a_type, (m, k)), values(rng, b_type, (k, n))
    options: dict[str, Any] = {"b_layout": b_layout, "ac_layout": ac_layout, "soc": chip}
    with Matmul(m, k, n, type=kind, **options) as product:
        found = product.run(a, b)
    assert found.shape == (m, n)
    assert found.dtype == ("float32" if c_type == "BFLOAT16" else c_type.lower())
    assert_is(found, sums(a, b), c_type, magnitudes(a, b))


def test_b_stays() -> None:
    rng = np.random.default_rng(0)
    b, out = values(rng, "INT8", (70, 40)), np.empty((3, 40), np.int32)
    with Matmul(3, 70, 40) as product:
        with pytest.raises(anynpu.StateError, match="matrix B is missing"):
            product.run(np.zeros((3, 70), np.int8))
        product.set_b(b)
        for _ in range(3):
            a = values(rng, "INT8", (3, 70))
            np.testing.assert_array_equal(product(a), sums(a, b))
            assert product.run(a, out=out) is out
            np.testing.assert_array_equal(out, sums(a, b))


@pytest.mark.parametrize("layout", ["NORM", "NATIVE"])
def test_several_m(layout: str) -> None:
    rng = np.random.default_rng(0)
    b = values(rng, "INT8", (70, 40))
    with Matmul((8, 1, 3), 70, 40, ac_layout=layout) as product:
        product.set_b(b)
        for m in (1, 8, 3, 3, 1, 8):
            a = values(rng, "INT8", (m, 70))
            np.testing.assert_array_equal(product.run(a), sums(a, b))
        with pytest.raises(anynpu.TensorError, match=r"\(8, 70\) or \(1, 70\) or \(3, 70\)"):
            product.run(np.zeros((2, 70), np.int8))


def test_strict_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is set again that was written to."""
    monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
    test_b_stays()
    test_several_m("NATIVE")


def test_quantisation_per_layer() -> None:
    rng = np.random.default_rng(0)
    a, b = values(rng, "INT8", (4, 50)), values(rng, "INT8", (50, 20))
    ways: dict[str, Any] = {"b_quantization": "PER_LAYER_ASYM"}
    with Matmul(4, 50, 20, type="INT8_MM_INT8_TO_INT8", **ways) as product:
        product.set_quantization("A", 0.5, 100)
        product.set_quantization("B", 0.25, -7)
        product.set_quantization("C", 512, 3)
        found = product.run(a, b)
    expected = np.rint(sums(a.astype(int) - 100, b.astype(int) + 7) / 8 / 512) + 3
    np.testing.assert_array_equal(found, np.clip(expected, -128, 127))


def test_quantisation_per_channel() -> None:
    rng = np.random.default_rng(0)
    a, b = values(rng, "INT8", (4, 50)), values(rng, "INT8", (50, 20))
    scales = rng.uniform(0.1, 1, 20).astype(np.float32)
    with Matmul(4, 50, 20, b_quantization=abi.MatmulQuantization.PER_CHANNEL_SYM) as product:
        assert product.normal_scale() == 1
        product.set_quantization("B", scales)
        largest = max(1.0, float(scales.max()))
        assert product.normal_scale() == largest
        found = product.run(a, b)
    np.testing.assert_array_equal(found, np.rint(sums(a, b) * (scales.astype(float) / largest)))


def test_quantisation_per_group() -> None:
    rng = np.random.default_rng(0)
    a, b = values(rng, "FLOAT16", (4, 64)), values(rng, "INT4", (64, 20))
    scales = rng.uniform(0.1, 1, (2, 20)).astype(np.float32)
    zeros = rng.integers(-8, 8, (2, 20))
    options: dict[str, Any] = {"b_quantization": "PER_GROUP_ASYM", "group_size": 32}
    kind = "FLOAT16_MM_INT4_TO_FLOAT32"
    with Matmul(4, 64, 20, type=kind, soc="rk3576", **options) as product:
        product.set_quantization("B", scales, zeros)
        found = product.run(a, b)
        with pytest.raises(
            anynpu.TensorError, match=r"B: scale has shape \(2, 20\); found \(20,\)"
        ):
            product.set_quantization("B", scales[0])
    real = (b.reshape(2, 32, 20) - zeros[:, None]) * scales[:, None].astype(float)
    assert_is(found, sums(a, real.reshape(64, 20)), "FLOAT32", magnitudes(a, real.reshape(64, 20)))


def test_float32_is_rounded_to_float16() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((3, 20), (20, 9)))
    with Matmul(3, 20, 9, type=T(1)) as product:
        half = product.run(a.astype(np.float16), b.astype(np.float16))
        np.testing.assert_array_equal(product.run(a, b), half)


def test_matmul_picks_the_type() -> None:
    rng = np.random.default_rng(0)
    a, b = values(rng, "INT8", (2, 3, 33)), values(rng, "INT8", (33, 7))
    found = anynpu.matmul(a, b)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, a.astype(int) @ b.astype(int))
    real = rng.normal(0, 1, 33).astype(np.float16)
    for chip in ("rk3588", "rk3576"):
        found = anynpu.matmul(real, b, soc=chip)
        assert found.dtype == np.float32
        assert found.shape == (7,)
        np.testing.assert_allclose(found, real.astype(float) @ b, rtol=1e-4, atol=1e-3)
    found = anynpu.matmul(real.astype(np.float32)[None], b.astype(np.float32))
    np.testing.assert_allclose(found[0], real.astype(float) @ b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.zeros((2, 3), np.int16), np.zeros((3, 2), np.int8)),
        (np.zeros((2, 3), np.int8), np.zeros((3, 2), np.float16)),
        (np.zeros((2, 3), np.int8), np.zeros((2, 3), np.int8)),
        (np.zeros((2, 3), np.int8), np.zeros(3, np.int8)),
        (np.zeros((0, 3), np.int8), np.zeros((3, 2), np.int8)),
        (np.zeros((), np.int8), np.zeros((3, 2), np.int8)),
    ],
)
def test_what_matmul_doesn_t_take(a: np.ndarray, b: np.ndarray) -> None:
    with pytest.raises(anynpu.TensorError):
        anynpu.matmul(a, b)


def test_arrays_that_don_t_fit() -> None:
    a, b = np.zeros((2, 40), np.int8), np.zeros((40, 8), np.int8)
    with Matmul(2, 40, 8, type="INT4_MM_INT4_TO_INT16") as product:
        for wrong, match in (
            (a[:1], r"A has shape \(2, 40\); this array has \(1, 40\)"),
            (a.astype(np.float32), "A is INT4, an array of int8; found float32"),
            (a + 8, "with values of -8..7; found 8..8"),
        ):
            with pytest.raises(anynpu.TensorError, match=match):
                product.run(wrong, b)
        with pytest.raises(anynpu.TensorError, match=r"B has shape \(40, 8\)"):
            product.set_b(b.T)
        with pytest.raises(anynpu.TensorError, match="out has"):
            product.run(a, b, out=np.empty((8, 2), np.int16))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((1, 20000, 64), {"soc": "rk3566"}, anynpu.InvalidArgumentError, "<= 10240"),
        (
            (1, 32, 64),
            {"type": "FLOAT16_MM_INT8_TO_FLOAT32"},
            ValueError,
            "unsupported matmul dtype",
        ),
        ((1, 32, 64), {"type": T(10), "soc": "rk3562"}, anynpu.OptionError, "unsupported matmul"),
        ((1, 32, 64), {"soc": "rv1106"}, anynpu.OptionError, "rv1106 has no matrix products"),
        ((1, 32, 64), {"soc": "z80"}, anynpu.OptionError, "unknown chip"),
        ((1, 32, 64), {"type": "INT8"}, anynpu.OptionError, "'INT8' is no MatmulType: FLOAT16_MM"),
        ((1, 32, 64), {"b_layout": 7}, anynpu.OptionError, "7 is no MatmulLayout"),
        ((0, 32, 64), {}, anynpu.OptionError, "must be positive"),
        (((), 32, 64), {}, anynpu.OptionError, "must be positive"),
        ((1, 32, 0), {}, anynpu.OptionError, "must be positive"),
    ],
)
def test_options_that_are_refused(
    arguments: tuple[Any, int, int], options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        Matmul(*arguments, **options)


def test_the_chip_of_a_board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The soft NPU is any chip, in this thread and for this product only."""
    tree = tmp_path / "compatible"
    tree.write_bytes(b"vendor,board\0rockchip,rk3576\0")
    monkeypatch.setattr(soc, "DEVICE_TREE", tree)
    kind = "FLOAT16_MM_INT8_TO_FLOAT32"
    with Matmul(1, 32, 32, type=kind) as product:
        assert product.run(np.ones((1, 32), np.float16), np.ones((32, 32), np.int8))[0, 0] == 32
    monkeypatch.setenv(soc.ENVIRONMENT_VARIABLE, "rk3588")
    with Matmul(1, 32, 32, type=kind, soc="rk3576"):
        assert soc.chosen() is soc.SOCS["rk3588"]


def test_closing() -> None:
    product = Matmul(1, 32, 32)
    product.set_b(np.ones((32, 32), np.int8))
    product.close()
    product.close()
    for call in (
        lambda: product.run(np.ones((1, 32), np.int8)),
        lambda: product.set_b(np.ones((32, 32), np.int8)),
        lambda: product.set_core_mask(abi.CoreMask.AUTO),
        lambda: product.set_quantization("A", 1),
        lambda: product.handle,
    ):
        with pytest.raises(anynpu.ClosedError):
            call()


def test_it_goes_with_its_last_reference() -> None:
    """Without the collector: nothing refers to itself."""
    npu = load("soft")
    gc.collect()
    gc.disable()
    try:
        product = Matmul(1, 32, 32, library=npu)
        handle = product.handle
        del product
        assert npu.rknn_matmul_run(handle) == abi.ErrorCode.CTX_INVALID
    finally:
        gc.enable()


def test_cores() -> None:
    with Matmul(1, 32, 32) as product:
        product.set_core_mask(abi.CoreMask.CORE_2)
        with pytest.raises(anynpu.CallError, match="rknn_matmul_set_core_mask"):
            product.set_core_mask(abi.CoreMask.CORE_0_1)


def test_the_shared_library(soft_folder: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = values(rng, "INT8", (2, 32)), values(rng, "INT8", (32, 32))
    with Matmul(2, 32, 32, library=soft_folder / "librknnrt.so", soc="rk3562") as product:
        np.testing.assert_array_equal(product.run(a, b), sums(a, b))
