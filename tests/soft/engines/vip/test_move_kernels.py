"""Copies of the tensor processor: the C kernel gives the bytes of the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import anynpu.soft.engines.vip.units  # noqa: F401
from anynpu.soft.engines.vip.kernels import native
from anynpu.soft.engines.vip.memory import Circle, Memory, Scattered, Space
from anynpu.soft.engines.vip.places import Places
from anynpu.soft.engines.vip.planes import Planes
from anynpu.soft.engines.vip.tasks import Move
from anynpu.soft.formats.nbg.model import Source

from .test_kernels import check_kernel, filled, layout

_POOL = Space(Source.POOL)
_TARGET = 64 << 10


@st.composite
def sources(draw: st.DrawFn) -> Planes:
    """An image, sometimes in a circular buffer, which may be smaller than the image."""
    channels, height, width = draw(
        st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 24))
    )
    row = width + draw(st.sampled_from([0, 0, 3]))
    size, start, circle = channels * height * row, draw(st.integers(0, 40)), None
    if draw(st.booleans()):
        circle = Circle(100 + size, draw(st.sampled_from([size, size + 7, max(1, size // 3)])))
        start = 100 + draw(st.integers(0, size - 1))
    return Planes(_POOL, start, circle, channels, height, width, row, height * row)


@st.composite
def targets(draw: st.DrawFn, shape: tuple[int, int, int]) -> Scattered:
    """Places of values, plane by plane, each apart from the others, sometimes in a circle."""
    planes, rows, pixels = shape
    step = draw(st.sampled_from([1, 1, 2, 5]))
    is_turned = draw(st.booleans())
    strides = (rows * pixels * step, pixels * step, step)
    if is_turned:
        strides = (step, pixels * step * planes, step * planes)
    offsets = sum(
        np.arange(count).reshape([-1 if axis == own else 1 for axis in range(3)]) * stride
        for own, (count, stride) in enumerate(zip(shape, strides, strict=True))
    )
    assert isinstance(offsets, np.ndarray), "there are three axes"
    places = Places.of(offsets, rows * pixels, pixels)
    size = planes * rows * pixels * step
    if draw(st.booleans()):
        end = draw(st.integers(0, size))
        turned = places.turned(end, size)
        assert turned is not None, "there is one round"
        return Scattered(_POOL, turned.shifted(_TARGET + size), 1)
    return Scattered(_POOL, places.shifted(_TARGET), 1)


@st.composite
def moves(draw: st.DrawFn) -> Move:
    source = draw(sources())
    before = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    after = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    border = draw(st.sampled_from([None, 0.0, 77.0]))
    # Below the image there is the border alone.
    below = source.height + before[1] if border is not None and draw(st.booleans()) else 0
    window = (
        -before[0],
        below - before[1],
        source.width - 1 + after[0],
        below + source.height - 1 + after[1],
    )
    pixels, rows = source.width + before[0] + after[0], source.height + before[1] + after[1]
    mirrors = border is None and draw(st.booleans())
    assume(not mirrors or (source.width > 2 and source.height > 2))
    order = np.arange(rows * pixels)
    if draw(st.booleans()):
        order = order.reshape(rows, pixels).T.ravel()
    flips = draw(st.booleans())
    zero_points = draw(st.sampled_from([(0, 0), (3, 3), (128, 7)]))
    return Move(
        source=source,
        input_is_float=False,
        output_is_float=False,
        input_flips=flips,
        output_flips=flips if draw(st.booleans()) else not flips,
        window=window,
        border=border,
        pooling=None,
        pooling_steps=(1, 1),
        input_zero_point=zero_points[0],
        output_zero_point=zero_points[1],
        scale=draw(st.sampled_from([None, None, 0.37])),
        table=None,
        order=Places.of(order, pixels),
        target=draw(targets((source.channels, rows, pixels))),
        mirrors=mirrors,
    )


@pytest.mark.skipif(native.library() is None, reason="there is no build of the kernels")
@pytest.mark.usefixtures("kernel_form")
@settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(task=moves())
def test_copies(task: Move) -> None:
    places, content = layout(), filled(1)
    expected, found = Memory(places, content), Memory(places, content.copy())
    check_kernel(task, expected, found)
