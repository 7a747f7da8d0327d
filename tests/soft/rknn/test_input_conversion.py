"""From the caller's numbers to the device's, number for number as the vendor's library 1.5.2.

`tests/data/input_conversion.npz` has numbers next to ties, and what that library made of them:
compiled models of a convolution were run with it, and their input memory was read.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anynpu.native import kernels, numpy_kernels
from anynpu.soft.engines import Normalization, Port
from anynpu.soft.rknn import log
from anynpu.soft.rknn.input_conversion import store_image, store_numbers
from anynpu.tensor import DType, Quantization

RECORDED = np.load(Path(__file__).parents[2] / "data" / "input_conversion.npz")
IMAGES = [name.removesuffix("_x") for name in RECORDED if name.endswith("_x") and "num" not in name]
PICTURES = [name.removesuffix("_registers") for name in RECORDED if name.endswith("_registers")]


def port_of(name: str) -> Port:
    h, w, c = RECORDED[f"{name}_x"].shape
    mean, std = RECORDED[f"{name}_mean"], RECORDED[f"{name}_std"]
    normalization = None
    if mean.any() or (std != 1).any():
        normalization = Normalization(tuple(mean.tolist()), tuple(std.tolist()))
    quantization = Quantization(
        float(RECORDED[f"{name}_scale"]), int(RECORDED[f"{name}_zero_point"])
    )
    return Port("x", (1, c, h, w), DType.INT8, quantization, normalization)


def stored(values: np.ndarray, port: Port) -> np.ndarray:
    """What becomes of (H, W, C) numbers, in their order."""
    target = np.zeros(port.shape, np.int8)
    store_image(values[None], port, target)
    result: np.ndarray = target[0].transpose(1, 2, 0)
    return result


@pytest.mark.parametrize("name", IMAGES)
def test_images_next_to_ties(name: str) -> None:
    np.testing.assert_array_equal(
        stored(RECORDED[f"{name}_x"], port_of(name)), RECORDED[f"{name}_q"]
    )


@pytest.mark.parametrize("name", IMAGES)
def test_without_c_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "take_pixels", numpy_kernels.take_pixels)
    np.testing.assert_array_equal(
        stored(RECORDED[f"{name}_x"], port_of(name)), RECORDED[f"{name}_q"]
    )


@pytest.mark.parametrize("name", PICTURES)
def test_uint8_pictures_are_what_the_npu_s_registers_say(name: str) -> None:
    """The library writes factor, shift and offset of each channel to the first convolution."""
    control, *channels = (int(word) for word in RECORDED[f"{name}_registers"])
    port = port_of(name)
    pixels = np.resize(np.arange(256, dtype=np.uint8), port.shape[2:] + port.shape[1:2])
    result = stored(pixels, port)
    for channel in range(port.shape[1]):
        factor = channels[channel] >> 16
        offset = int(np.uint32(channels[channel] & 0xFFFF).astype(np.int16))
        shift = control >> (4 + 6 * channel) & 63
        every = [
            round(Fraction(int(byte) * factor, 1 << shift)) for byte in pixels[..., channel].flat
        ]
        expected = np.clip(np.array(every) + offset, -128, 127)
        np.testing.assert_array_equal(result[..., channel].ravel(), expected)


def test_other_numbers_wrap_around() -> None:
    values, wanted = RECORDED["numbers_x"], RECORDED["numbers_q"]
    quantization = Quantization(
        float(RECORDED["numbers_scale"]), int(RECORDED["numbers_zero_point"])
    )
    port = Port("x", values.shape, DType.INT8, quantization)
    target = np.zeros(values.shape, np.int8)
    store_numbers(values, port, target)
    np.testing.assert_array_equal(target, wanted)
    slowly = np.zeros(values.shape, np.int8)
    numpy_kernels.quantize_wrapping(values, quantization.scale, quantization.zero_point, slowly)
    np.testing.assert_array_equal(slowly, wanted)


def by_definition(
    x: float, mean: float, std: float, scale: float, zero_point: int, channels: int
) -> int:
    """One number, by the words of `input_conversion`, one step after the other."""
    f32 = np.float32
    if channels <= 4:
        step = float(f32(std)) * float(f32(scale))
        shift = 14 - math.floor(math.log2(1 / step))
        factor = round(2.0**shift / step)
        offset = round(zero_point - float(f32(mean)) / step)
        value = f32(x) * f32(factor / 2.0**shift) + f32(offset)
    else:
        step32 = f32(std) * f32(scale)
        value = (f32(x) - (f32(mean) - step32 * f32(zero_point))) / step32
    return int(np.clip(np.rint(value), -128, 127))


@settings(max_examples=150, deadline=None)
@given(
    channels=st.sampled_from([1, 2, 3, 4, 5, 16]),
    scale=st.floats(2**-12, 4, width=32),
    zero_point=st.integers(-128, 127),
    mean=st.floats(-200, 200, width=32),
    std=st.floats(2**-4, 300, width=32),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_definition(
    channels: int, scale: float, zero_point: int, mean: float, std: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    steps = rng.integers(-140, 140, (9, 7, channels)) + rng.choice([0, 0.5], (9, 7, channels))
    values = ((steps - zero_point) * (scale * std) + mean).astype(np.float32)
    normalization = Normalization((mean,) * channels, (std,) * channels)
    port = Port(
        "x", (1, channels, 9, 7), DType.INT8, Quantization(scale, zero_point), normalization
    )
    expected = [by_definition(x, mean, std, scale, zero_point, channels) for x in values.flat]
    np.testing.assert_array_equal(stored(values, port).ravel(), expected)


def test_each_channel_has_its_own_mean(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vendor's library takes the first one's for the fifth and all after it."""
    monkeypatch.setattr(log.LOG, "_level", 1)
    normalization = Normalization(tuple(range(6)), (1, 2, 1, 1, 1, 4))
    port = Port("x", (1, 6, 1, 1), DType.INT8, Quantization(1, 0), normalization)
    values = np.full((1, 1, 6), 21, np.float32)
    assert stored(values, port).ravel().tolist() == [21, 10, 19, 18, 17, 4]
    assert "normalises channels from the fifth on as it does the first" in capfd.readouterr().err


@pytest.mark.parametrize("channels", [1, 3, 16])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_float16_inputs_are_normalised_in_float32(channels: int, dtype: type) -> None:
    values: np.ndarray = np.random.default_rng(0).uniform(0, 255, (1, 30, 40, channels))
    values = values.astype(dtype)
    mean, std = np.linspace(100, 130, channels), np.linspace(50, 60, channels)
    normalization = Normalization(tuple(mean.tolist()), tuple(std.tolist()))
    port = Port("x", (1, channels, 30, 40), DType.FLOAT16, None, normalization)
    target = np.zeros(port.shape, np.float32)
    store_image(values, port, target)
    expected = (values.astype(np.float32) - mean.astype(np.float32)) / std.astype(np.float32)
    np.testing.assert_array_equal(target, expected.transpose(0, 3, 1, 2))


def test_rows_with_pixels_to_spare() -> None:
    """A buffer's rows may be longer than the image's."""
    values = np.random.default_rng(1).uniform(0, 255, (1, 16, 32, 3)).astype(np.float32)
    port = Port("x", (1, 3, 16, 20), DType.INT8, Quantization(0.5, 3))
    padded, dense = np.zeros(port.shape, np.int8), np.zeros(port.shape, np.int8)
    store_image(values[:, :, :20], port, padded)
    store_image(np.ascontiguousarray(values[:, :, :20]), port, dense)
    np.testing.assert_array_equal(padded, dense)
