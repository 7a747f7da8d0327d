"""What shaders do with float16: the C kernels give the bytes of the functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import anynpu.soft.engines.vip.units  # noqa: F401
from anynpu.soft.engines.vip.kernels import native
from anynpu.soft.engines.vip.kernels.compile import plans_of
from anynpu.soft.engines.vip.memory import Memory, Space, Window
from anynpu.soft.engines.vip.shaders import products
from anynpu.soft.engines.vip.shaders.forms import RowProducts, Windows
from anynpu.soft.engines.vip.shaders.shader import Image
from anynpu.soft.engines.vip.shaders.task import ShaderTask
from anynpu.soft.formats.nbg.model import Source

from .test_kernels import check_kernel, filled, layout

_F16 = np.dtype(np.float16)
_TARGET = 96 << 10
"""Where outputs begin in the pool."""


def image(offset: int, shape: tuple[int, int, int], gap: int = 0) -> Image:
    """Float16 in the pool, with a gap between rows and planes."""
    row = 2 * shape[2] + gap
    strides = row * shape[1] + gap, row, 2, 1
    return Image(Window(Space(Source.POOL), offset, (*shape, 2), strides), _F16)


def halves(random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float16]:
    """Numbers of some sizes, with what isn't normal and zeros of both signs among them."""
    values = random.standard_normal(shape) * random.choice([0.01, 1.0, 30.0], shape)
    rare = random.choice([0.0, -0.0, 3e-6, -6e-5, 6.2e-5], shape)
    kept: NDArray[np.float16] = np.where(random.random(shape) < 0.1, rare, values).astype(_F16)
    return kept


def put(array: NDArray[np.uint8], image: Image, values: NDArray[np.float16]) -> None:
    memory = Memory(layout(), array)
    memory.write(image.window, np.ascontiguousarray(values)[..., None].view(np.uint8))


def check(task: ShaderTask, values: NDArray[np.float16]) -> None:
    """The kernel's bytes are the function's, and there is a kernel."""
    places = layout()
    arrays = filled(1), filled(1)
    for array in arrays:
        put(array, task.inputs[0], values)
    expected, found = (Memory(places, array) for array in arrays)
    check_kernel(task, expected, found)


@st.composite
def rows_by_kernels(draw: st.DrawFn) -> tuple[ShaderTask, NDArray[np.float16]]:
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    count, length = draw(st.integers(1, 20)), draw(st.integers(1, 90))
    kernels = draw(st.integers(1, 20))
    by_kernel = draw(st.booleans())
    weights = halves(random, (kernels, length))
    bias = random.standard_normal(kernels).astype(np.float32)
    cuts = draw(st.booleans())
    together = 1 if by_kernel else 4
    source = image(0, (1, count, length), draw(st.sampled_from([0, 6])))
    shape = (1, kernels, count) if by_kernel else (1, count, kernels)
    output = image(_TARGET, shape, draw(st.sampled_from([0, 2])))
    values = halves(random, (1, count, length))
    if draw(st.booleans()):
        values[0, -1, -1] = draw(st.sampled_from([np.inf, -np.inf, np.nan, -np.nan, 65504.0]))
    form = RowProducts(weights, bias, together, cuts, by_kernel)
    return ShaderTask((source,), output, products.function_of(form), form=form), values


@st.composite
def windows(draw: st.DrawFn) -> tuple[ShaderTask, NDArray[np.float16]]:
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 11))
    size = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    steps = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    before = draw(st.integers(0, size[0] - 1)), draw(st.integers(0, size[1] - 1))
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    form = Windows(size, steps, before, columns)
    source = image(0, shape, draw(st.sampled_from([0, 4])))
    output = image(_TARGET, (1, rows * columns, shape[0] * size[0] * size[1]))
    function = products.windows_of(form, shape, rows)
    return ShaderTask((source,), output, function, form=form), halves(random, shape)


_settings = settings(
    max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@pytest.mark.skipif(native.library() is None, reason="there is no build of the kernels")
@pytest.mark.usefixtures("kernel_form")
@_settings
@given(given=rows_by_kernels())
def test_rows_by_kernels(given: tuple[ShaderTask, NDArray[np.float16]]) -> None:
    check(*given)


@pytest.mark.skipif(native.library() is None, reason="there is no build of the kernels")
@pytest.mark.usefixtures("kernel_form")
@_settings
@given(given=windows())
def test_windows_as_rows(given: tuple[ShaderTask, NDArray[np.float16]]) -> None:
    check(*given)


@pytest.mark.skipif(native.library() is None, reason="there is no build of the kernels")
def test_values_apart_have_no_kernel() -> None:
    output = image(_TARGET, (1, 1, 4))
    apart = Image(Window(Space(Source.POOL), 0, (1, 1, 4, 2), (64, 64, 4, 1)), _F16)
    form = RowProducts(np.ones((4, 4), _F16), np.zeros(4, np.float32), 1, False, True)
    task = ShaderTask((apart,), output, products.function_of(form), form=form)
    assert plans_of(layout(), [task]) == (None,)
