"""Dense kernels that look at few channels: what is held of them, and what they compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anynpu.soft.engines.vip.coefficients import Kernels, kernels
from anynpu.soft.engines.vip.kernels import native
from anynpu.soft.engines.vip.kernels.compile import plans_of
from anynpu.soft.engines.vip.kernels.parts import PartsPlan
from anynpu.soft.engines.vip.tasks import Convolution, Second, Sums

from .test_kernels import check, layout, planes

_no_check = [HealthCheck.function_scoped_fixture]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of kernels of any size."""
    monkeypatch.setattr(kernels, "_LEAST_PARTED", 0)


def diagonal(seed: int, channels: int, depth: int, height: int, width: int) -> Kernels:
    """Kernels that look at two channels each, or at none, and have a zero point of their own."""
    random = np.random.default_rng(seed)
    weights = np.zeros((channels, depth, height, width), np.int16)
    zero_points = random.integers(0, 256, channels)
    for channel in range(channels):
        first = channel * depth // channels
        seen = random.integers(0, 256, weights[channel, first : first + 2].shape)
        if channel % 7:
            weights[channel, first : first + 2] = seen - zero_points[channel]
    bias = random.integers(-9999, 9999, channels).astype(np.int32)
    scales = random.uniform(1e-4, 1e-2, channels).astype(np.float32) if seed % 2 else None
    content = (weights + zero_points[:, None, None, None]).astype(np.uint8)
    made = Kernels.of_content(content, zero_points, False, bias, scales, None, 0)
    assert (made.weights == weights).all()
    return made


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    side = draw(st.sampled_from([0, 0, 2]))
    channels, depth = 4 * draw(st.integers(9, 14)), draw(st.integers(36, 60))
    size, height, width = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 7))
    sums = Sums(
        source=draw(planes("source", depth, height, width)),
        is_signed=draw(st.booleans()),
        kernels=diagonal(draw(st.integers(0, 99)), channels, depth, size, size),
        bias=0,
        is_depthwise=False,
        kernel_height=size,
        kernel_width=size,
        top=size // 2,
        left=size // 2,
        border=draw(st.integers(0, 255)),
        channels=channels,
        height=height,
        width=width,
    )
    addition = None
    if not side and draw(st.booleans()):
        addition = Second(draw(planes("second", channels, height, width)), 0.37, -12.5)
    pixels = max(side, 1)
    shape = channels // pixels**2, height * pixels, width * pixels
    return Convolution(
        sums=sums,
        target=draw(planes("target", *shape)),
        is_signed=False,
        is_half=False,
        table=None,
        scale=float(np.float32(0.0123)),
        negative_scale=None,
        low=-np.inf,
        high=np.inf,
        has_relu=False,
        stride=1,
        pooling=None,
        addition=addition,
        has_short_sums=draw(st.booleans()),
        product=None,
        zero_point=draw(st.integers(0, 255)),
        shuffle=(pixels, pixels),
    )


@pytest.mark.skipif(native.library() is None, reason="there is no build of the kernels")
@pytest.mark.usefixtures("kernel_form")
@settings(max_examples=50, suppress_health_check=_no_check)
@given(task=convolutions(), seed=st.integers(0, 9))
def test_convolutions_in_parts(task: Convolution, seed: int) -> None:
    check(task, seed)


def test_what_is_not_there_takes_no_memory() -> None:
    found = diagonal(1, 64, 64, 3, 3)
    assert found.parts
    assert sum(part.kernels.stored.size for part in found.parts) <= 64 * 18 * 9
    assert (found.joined().weights == found.weights).all()


@pytest.mark.skipif(native.library() is None, reason="there is no build of the kernels")
@settings(max_examples=20, suppress_health_check=_no_check)
@given(task=convolutions())
def test_parts_are_one_call(task: Convolution) -> None:
    source = replace(task.sums.source, group=1, circle=None)
    target = replace(task.target, group=1, circle=None)
    alone = replace(task, sums=replace(task.sums, source=source), target=target, addition=None)
    (plan,) = plans_of(layout(), [alone])
    assert isinstance(plan, PartsPlan)
