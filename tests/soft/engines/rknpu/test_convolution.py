"""Convolutions of hand-made descriptions against NumPy, and fast against the reference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anynpu.soft.engines.rknpu.elements import Element
from anynpu.soft.engines.rknpu.kernels import KernelKind, Scratch, plan_task
from anynpu.soft.engines.rknpu.kernels.steps import KernelStep
from anynpu.soft.engines.rknpu.rounding import Ties
from anynpu.soft.engines.rknpu.tasks import ConvolutionTask, InputConversion, OffsetPlace

from .descriptions import (
    Scene,
    channels,
    convolution,
    convolution_task,
    dense_weights,
    depthwise_weights,
    dpu,
    features,
    output,
    stage,
)

INTEGERS = dpu(output=output(Element.INT32))


def convolve(
    x: NDArray[Any],
    w: NDArray[Any],
    *,
    stride: int = 1,
    padding: int = 0,
    value: int = 0,
    dilation: int = 1,
) -> NDArray[np.int64]:
    """A dense convolution of (C, H, W) with (K, C, KH, KW), padded on all sides."""
    x = np.pad(
        x.astype(np.int64), ((0, 0), (padding, padding), (padding, padding)), constant_values=value
    )
    reach = [(size - 1) * dilation + 1 for size in w.shape[2:]]
    views = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(1, 2))
    views = views[:, ::stride, ::stride, ::dilation, ::dilation]
    sums: NDArray[np.int64] = np.einsum("chwyx,kcyx->khw", views, w.astype(np.int64))
    return sums


def random(shape: tuple[int, ...], seed: int, low: int = -128, high: int = 128) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(low, high, shape)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_dense_sums(stride: int, padding: int, dilation: int) -> None:
    x, w = random((20, 9, 8), 1), random((24, 20, 3, 3), 2)
    expected = convolve(x, w, stride=stride, padding=padding, value=-7, dilation=dilation)
    scene = Scene()
    scene.put(x.astype(np.int8))
    what = convolution(
        features(x.shape), dense_weights(w), *expected.shape[1:], stride=(stride, stride),
        padding=(padding, padding), padding_value=-7.0, dilation=(dilation, dilation),
    )  # fmt: skip
    scene.run(convolution_task(what, INTEGERS), KernelKind.GENERAL)
    np.testing.assert_array_equal(scene.get(expected.shape, np.int32), expected)


def test_depthwise_sums_with_a_weight_offset() -> None:
    x, w, offset = random((20, 7, 7), 3), random((20, 3, 3), 4), random((20,), 5)
    scene = Scene()
    scene.put(x.astype(np.int8))
    what = convolution(
        features(x.shape), depthwise_weights(w), 7, 7, padding=(1, 1), padding_value=3.0,
        weight_offset=channels(offset),
    )  # fmt: skip
    scene.run(convolution_task(what, INTEGERS), KernelKind.GENERAL)
    whole = np.zeros((20, 20, 3, 3), np.int64)
    whole[np.arange(20), np.arange(20)] = w + offset[:, None, None]
    expected = convolve(x, whole, padding=1, value=3)
    np.testing.assert_array_equal(scene.get(expected.shape, np.int32), expected)


def test_a_transposed_convolution_inserts_the_padding_value() -> None:
    x, w = random((16, 3, 4), 6), random((8, 16, 2, 2), 7)
    spread = np.full((16, 5, 7), 5)
    spread[:, ::2, ::2] = x
    scene = Scene()
    scene.put(x.astype(np.int8))
    what = convolution(
        features(x.shape), dense_weights(w), 6, 8, inserted=(1, 1), padding=(1, 1),
        padding_value=5.0,
    )  # fmt: skip
    scene.run(convolution_task(what, INTEGERS), KernelKind.GENERAL)
    np.testing.assert_array_equal(
        scene.get((8, 6, 8), np.int32), convolve(spread, w, padding=1, value=5)
    )


def test_channels_that_are_not_valid_count_as_zero_but_their_padding_does_not() -> None:
    x, w = random((32, 4, 4), 8), random((16, 32, 3, 3), 9)
    scene = Scene()
    scene.put(x.astype(np.int8))
    what = convolution(
        features(x.shape), dense_weights(w), 4, 4, padding=(1, 1), padding_value=-5.0,
        valid_channels=24,
    )  # fmt: skip
    scene.run(convolution_task(what, INTEGERS), KernelKind.GENERAL)
    x[24:] = 0
    expected = convolve(x, w, padding=1, value=-5)
    np.testing.assert_array_equal(scene.get(expected.shape, np.int32), expected)


@pytest.mark.parametrize("ties", [Ties.EVEN, Ties.UP])
@pytest.mark.parametrize("is_unsigned", [False, True])
@pytest.mark.parametrize("place", OffsetPlace)
def test_the_input_conversion_rounds_and_saturates(
    place: OffsetPlace, is_unsigned: bool, ties: Ties
) -> None:
    x = random((16, 2, 2), 10)
    how = InputConversion(place, (3, 3, 3, 3), (3, 5, 7, 9), (1, 1, 1, 1), is_unsigned, ties)
    scene = Scene()
    scene.put(x.astype(np.int8))
    what = convolution(
        features(x.shape), dense_weights(np.eye(16, dtype=np.int64)[:, :, None, None]), 2, 2,
        conversion=how,
    )  # fmt: skip
    scene.run(convolution_task(what, INTEGERS), KernelKind.GENERAL)
    scales = np.tile([3, 5, 7, 9], 4)[:, None, None]
    bytes_ = x % 256 if is_unsigned else x
    exact, after = {
        OffsetPlace.BEFORE_SCALE: ((bytes_ + 3) * scales / 2, 0),
        OffsetPlace.BEFORE_SHIFT: ((bytes_ * scales + 3) / 2, 0),
        OffsetPlace.AFTER_SHIFT: (bytes_ * scales / 2, 3),
    }[place]
    rounded = np.floor(exact + 0.5) if ties is Ties.UP else np.rint(exact)
    expected = np.clip(rounded + after, -128, 127)
    np.testing.assert_array_equal(scene.get(x.shape, np.int32), expected)


@pytest.mark.parametrize(("ties", "rounded"), [(Ties.EVEN, np.rint), (Ties.UP, np.ceil)])
def test_sums_may_lose_their_last_bits(ties: Ties, rounded: Any) -> None:
    x, w = random((16, 4, 5), 14), random((16, 16, 1, 1), 15)
    scene = Scene()
    scene.put(x.astype(np.int8))
    what = convolution(features(x.shape), dense_weights(w), 4, 5, truncate=1, truncate_ties=ties)
    scene.run(convolution_task(what, INTEGERS), KernelKind.GENERAL)
    np.testing.assert_array_equal(scene.get((16, 4, 5), np.int32), rounded(convolve(x, w) / 2))


def test_sums_that_float32_cannot_hold_are_exact() -> None:
    x, w = np.full((1024, 2, 2), 127), np.full((16, 1024, 2, 2), 127)
    w[3, 5, 0, 0] = 126
    scene = Scene()
    scene.put(x.astype(np.int8))
    what = convolution(features(x.shape), dense_weights(w), 1, 1)
    scene.run(convolution_task(what, INTEGERS), KernelKind.GENERAL)
    sums = scene.get((16, 1, 1), np.int32).ravel()
    assert sums[0] == 4096 * 127 * 127 > 1 << 24
    assert sums[0] - sums[3] == 127


def test_float16() -> None:
    rng = np.random.default_rng(11)
    x = rng.standard_normal((8, 5, 5)).astype(np.float16)
    w = rng.standard_normal((8, 8, 3, 3)).astype(np.float16)
    scene = Scene()
    scene.put(x)
    what = convolution(features(x.shape, Element.FLOAT16), dense_weights(w, Element.FLOAT16), 3, 3)
    scene.run(convolution_task(what, dpu(is_float=True)), KernelKind.GENERAL)
    views = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(1, 2))
    expected = np.einsum("chwyx,kcyx->khw", views, w.astype(np.float64))
    np.testing.assert_allclose(scene.get((8, 3, 3), np.float16), expected, rtol=2e-3, atol=2e-2)


requantised = st.fixed_dictionaries(
    {
        "kernels": st.integers(1, 40),
        "inputs": st.integers(1, 40),
        "size": st.integers(1, 3),
        "stride": st.integers(1, 2),
        "padding": st.integers(0, 1),
        "value": st.integers(-128, 127),
        "shift": st.integers(0, 20),
        "slope": st.integers(0, 20),
        "relu": st.booleans(),
        "limit": st.sampled_from([None, 900]),
        "leaky": st.booleans(),
        "offset": st.integers(-130, 130),
    }
)


@settings(max_examples=60, deadline=None)
@given(case=requantised, seed=st.integers(0, 1 << 16))
def test_fast_and_reference_agree(case: dict[str, Any], seed: int) -> None:
    """`Scene.run` compares; here the task has a plan in any case."""
    x = random((case["inputs"], 7, 9), seed)
    w = random((case["kernels"], case["inputs"], case["size"], case["size"]), seed + 1)
    outputs = [
        (extent + 2 * case["padding"] - case["size"]) // case["stride"] + 1 for extent in (7, 9)
    ]
    count = case["kernels"]
    bs = stage(
        add=channels(random((count,), seed + 2, -5000, 5000)),
        multiply=channels(random((count,), seed + 3, -16384, 16384)),
        shift_positive=case["shift"],
        shift_negative=case["slope"] if case["leaky"] else case["shift"],
    )
    bn = stage(
        multiply=1638 if case["leaky"] else None,
        adds_first=False,
        multiply_negatives=case["leaky"],
        lower=0 if case["relu"] else None,
        upper=case["limit"] if case["relu"] else None,
    )
    what = convolution(
        features(x.shape), dense_weights(w), *outputs, stride=(case["stride"],) * 2,
        padding=(case["padding"],) * 2, padding_value=float(case["value"]),
    )  # fmt: skip
    stages = dpu(bs=bs, bn=bn, output=output(scale=20000, shift=18, offset=case["offset"]))
    task = convolution_task(what, stages, padding=0xFBFF)
    scene = Scene()
    scene.put(x.astype(np.int8))
    kind = scene.run_any(task)
    assert kind is KernelKind.INT8 or case["leaky"], (
        "values of a leaky ReLU may leave what is exact"
    )


@pytest.mark.usefixtures("kernel_form")
@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 70),
    extents=st.tuples(st.integers(1, 9), st.integers(1, 24)),
    size=st.sampled_from([(1, 1), (3, 3), (5, 5), (2, 4), (3, 2), (7, 7)]),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 6),
    unused=st.integers(0, 20),
    truncate=st.sampled_from([0, 0, 0, 1, 2]),
    seed=st.integers(0, 1 << 16),
)
def test_fast_and_reference_agree_channel_by_channel(
    count: int,
    extents: tuple[int, int],
    size: tuple[int, int],
    stride: int,
    dilation: int,
    unused: int,
    truncate: int,
    seed: int,
) -> None:
    case = _Depthwise(count, extents, size, stride, dilation, unused, truncate, seed)
    Scene(seed).run(case.task, KernelKind.INT8)


@pytest.mark.usefixtures("kernel_form")
@pytest.mark.parametrize("columns", [1, 3, 5])
@pytest.mark.parametrize("dilation", [2, 3, 4, 5, 6])
def test_columns_that_lie_far_apart(columns: int, dilation: int) -> None:
    case = _Depthwise(32, (9, 40), (3, columns), 1, dilation, 0, 0, 6)
    Scene(6).run(case.task, KernelKind.INT8)


@pytest.mark.usefixtures("kernel_form")
@pytest.mark.parametrize("size", [(3, 3), (5, 5)])
@pytest.mark.parametrize("stride", [1, 2])
def test_bands_of_a_convolution_channel_by_channel(size: tuple[int, int], stride: int) -> None:
    case = _Depthwise(16, (40, 100), size, stride, 1, 0, 0, 3)
    plan = plan_task(case.task)
    assert plan is not None, "the kernels know it"
    scratch = Scratch(plan.own_bytes, plan.shared_bytes, 1)
    scene = Scene()
    (step,) = plan.bind(scene.memory, scratch)
    assert isinstance(step, KernelStep)
    assert step.entry.units > 1, "more than one band"
    scene.run(case.task, KernelKind.INT8)


@dataclass(frozen=True)
class _Depthwise:
    """A convolution channel by channel of features that are padded for its kernel."""

    count: int
    extents: tuple[int, int]
    size: tuple[int, int]
    stride: int
    dilation: int
    unused: int
    truncate: int
    seed: int

    @property
    def task(self) -> ConvolutionTask:
        count, seed, dilation = self.count, self.seed, self.dilation
        pads = [extent // 2 * dilation for extent in self.size]
        outputs = [
            max(0, extent + 2 * pad - (kernel - 1) * dilation - 1) // self.stride + 1
            for extent, pad, kernel in zip(self.extents, pads, self.size, strict=True)
        ]
        what = convolution(
            features((count, *self.extents)),
            depthwise_weights(random((count, *self.size), seed + 1)),
            *outputs,
            stride=(self.stride, self.stride),
            dilation=(dilation, dilation),
            valid_channels=max(1, count - self.unused),
            padding=(pads[0], pads[1]),
            padding_value=float(seed % 700 - 350),
            weight_offset=channels(random((count,), seed + 2)),
            truncate=self.truncate,
            truncate_ties=Ties.UP if seed % 2 else Ties.EVEN,
        )
        bs = stage(
            add=channels(random((count,), seed + 3, -999, 999)),
            multiply=channels(random((count,), seed + 4, 1, 16384)),
            shift_positive=14,
            shift_negative=14,
        )
        return convolution_task(what, dpu(bs=bs, output=output(scale=19000, shift=20, offset=-4)))


def test_what_is_not_proved_exact_is_left_to_the_reference() -> None:
    x, w = random((16, 2, 2), 12), random((16, 16, 1, 1), 13)
    what = convolution(features(x.shape), dense_weights(w), 2, 2)
    huge = stage(multiply=32767, shift_positive=0, shift_negative=0)
    stages = dpu(bs=huge, bn=replace(huge, adds_first=False), output=output(scale=64))
    within_int32 = convolution_task(what, stages)
    far_offset = output(scale=64, shift=48, offset=100)
    task = convolution_task(what, replace(stages, output=far_offset))
    scene = Scene()
    scene.put(x.astype(np.int8))
    scene.run(within_int32, KernelKind.INT8)
    expected = np.clip(convolve(x, w) * 32767 * 32767, -128, 127)
    np.testing.assert_array_equal(scene.get((16, 2, 2)), expected)
    scene.run(task, KernelKind.REFERENCE)
    np.testing.assert_array_equal(scene.get((16, 2, 2)), np.full((16, 2, 2), 100))
