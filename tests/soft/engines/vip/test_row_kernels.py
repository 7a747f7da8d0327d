"""What shaders do with rows of bytes, and products of two tensors: the C kernels give the bytes of
the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import anynpu.soft.engines.vip.units  # noqa: F401
from anynpu.soft.engines.vip.decode.matrix_product import MatrixProduct
from anynpu.soft.engines.vip.kernels import native
from anynpu.soft.engines.vip.kernels.compile import plans_of
from anynpu.soft.engines.vip.memory import Circle, Memory, Space, Window
from anynpu.soft.engines.vip.planes import Planes
from anynpu.soft.engines.vip.shaders.arithmetic import products_of
from anynpu.soft.engines.vip.shaders.forms import (
    ByteProducts,
    LayerRows,
    RowFactors,
    SoftmaxRows,
    WindowSums,
)
from anynpu.soft.engines.vip.shaders.normalization import by_factors, normalized_rows
from anynpu.soft.engines.vip.shaders.reduction import sums_of_windows
from anynpu.soft.engines.vip.shaders.shader import Image
from anynpu.soft.engines.vip.shaders.softmax import powers_of, shares_of
from anynpu.soft.engines.vip.shaders.task import ShaderTask, copy_of
from anynpu.soft.engines.vip.tasks import Task
from anynpu.soft.formats.nbg.model import Source

from .test_kernels import check_kernel, filled, layout

_U8, _I16, _F16, _F32 = map(np.dtype, (np.uint8, np.int16, np.float16, np.float32))
_SECOND, _THIRD, _TARGET = 48 << 10, 80 << 10, 96 << 10
"""Where other operands and outputs begin in the pool."""

Values = dict[int, NDArray[Any]]
"""What the pool has from a byte on before a task runs; other bytes are random."""
Case = tuple[Task, Values]

pytestmark = pytest.mark.skipif(native.library() is None, reason="there is no build of the kernels")


def image(
    offset: int, shape: tuple[int, int, int], dtype: np.dtype[Any] = _U8, gap: int = 0
) -> Image:
    """Values in the pool, with a gap between rows and planes."""
    item = dtype.itemsize
    row = item * shape[2] + gap
    strides = row * shape[1] + gap, row, item, 1
    return Image(Window(Space(Source.POOL), offset, (*shape, item), strides), dtype)


def fixed(values: NDArray[Any]) -> Image:
    """Values of a file."""
    return replace(image(0, values.shape, values.dtype), constant=values)


@cache
def _random_bytes() -> NDArray[np.uint8]:
    return filled(1)


def check(task: Task, values: Values) -> None:
    """The kernel's bytes are the reference's, and there is a kernel."""
    places = layout()
    expected, found = (Memory(places, _random_bytes().copy()) for _ in range(2))
    for memory in (expected, found):
        pool = memory.space(Space(Source.POOL))
        for start, content in values.items():
            stored = np.ascontiguousarray(content).view(np.uint8).ravel()
            pool[start : start + stored.size] = stored
    check_kernel(task, expected, found)


shapes = st.tuples(st.integers(1, 3), st.integers(1, 9), st.one_of(st.integers(1, 40), st.just(97)))
gaps = st.sampled_from([0, 0, 5])
randoms = st.integers(0, 1000).map(np.random.default_rng)
reals = st.floats(-300, 300, width=32).map(np.float32)
bytes_ = st.integers(0, 255)


@st.composite
def factors(draw: st.DrawFn) -> Case:
    random = draw(randoms)
    _, rows, pixels = draw(shapes)
    images = [image(start, (1, 1, 2 * rows), _I16) for start in (_SECOND + 1, _THIRD)]
    source, target = (image(start, (1, rows, pixels), _U8, draw(gaps)) for start in (0, _TARGET))
    of_rows = random.standard_normal(rows) * random.choice([0.01, 1, 1e20], rows)
    added = random.standard_normal(rows) * 200
    task = RowFactors(draw(st.sampled_from([0, 255, 0xFFFF]) | bytes_))
    stored: Values = {_SECOND + 1: of_rows.astype(_F32), _THIRD: added.astype(_F32)}
    return ShaderTask((source, *images), target, by_factors(task), form=task), stored


@st.composite
def products(draw: st.DrawFn) -> Case:
    shape = draw(shapes)
    repeated = st.tuples(*(st.sampled_from([1, size]) for size in shape))
    kinds = [draw(repeated), (*draw(repeated)[:2], shape[2])]
    a, b = draw(st.permutations(kinds))
    operands = [image(start, size, _U8, draw(gaps)) for start, size in ((0, a), (_SECOND, b))]
    which = draw(st.sampled_from([None, 0, 1]))
    if which is not None:
        values = draw(randoms).integers(0, 256, operands[which].shape).astype(np.uint8)
        operands[which] = fixed(values)
    zero_points = draw(st.tuples(bytes_, bytes_ | st.just(0xFFFF)))
    scale = draw(st.sampled_from([0.003, 0.02, -0.1, 3e5]))
    made = ByteProducts(zero_points, np.float32(scale), draw(reals))
    target = image(_TARGET, shape, _U8, draw(gaps))
    return ShaderTask(tuple(operands), target, products_of(made), form=made), {}


@st.composite
def sums(draw: st.DrawFn) -> Case:
    planes, rows, pixels = draw(shapes)
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 5) | st.just(100))
    scale = np.float32(1 / (height * width))
    made = WindowSums(
        (height, width), draw(st.integers(-(2**40), 2**40) | bytes_), scale, draw(reals)
    )
    source = image(0, (planes, rows * height, pixels * width), _U8, draw(gaps))
    if source.window.extent[1] > _TARGET:
        source = image(0, (1, height, pixels * width))
        planes = rows = 1
    target = image(_TARGET, (planes, rows, pixels), _U8, draw(gaps))
    return ShaderTask((source,), target, sums_of_windows(made), form=made), {}


@st.composite
def layers(draw: st.DrawFn) -> Case:
    random, shape = draw(randoms), draw(shapes)
    source, target = (image(start, shape, _U8, draw(gaps)) for start in (0, _TARGET))
    bias, scales = (
        fixed(random.standard_normal((1, 1, shape[2])).astype(np.float32)) for _ in range(2)
    )
    numbers = np.float32(1 / shape[2]), np.float32(1e-5), np.float32(30), np.float32(128)
    made = LayerRows(draw(bytes_), *numbers)
    # A row of equal bytes has no deviation but what is added.
    equal = np.full(shape[2], draw(bytes_), np.uint8)
    task = ShaderTask((source, bias, scales), target, normalized_rows(made), form=made)
    return task, {0: equal}


@st.composite
def softmaxes(draw: st.DrawFn) -> Case:
    shape = draw(shapes)
    is_half = draw(st.booleans())
    numbers = (np.float32(1), np.float32(0))
    if not is_half:
        numbers = np.float32(255), draw(st.sampled_from([0.0, 3.0]).map(np.float32))
    powers = powers_of(np.float32(draw(st.sampled_from([0.001, 0.05, 0.7, 3.0]))))
    made = SoftmaxRows(powers, *numbers, is_half=is_half)
    source = image(0, shape, _U8, draw(gaps))
    target = image(_TARGET, shape, _F16 if is_half else _U8, 2 * draw(gaps))
    random, highest = draw(randoms), draw(st.sampled_from([1, 40, 256]))
    few = random.integers(0, highest, source.window.extent[1]).astype(np.uint8)
    return ShaderTask((source,), target, shares_of(made), form=made), {0: few}


@st.composite
def parts(draw: st.DrawFn) -> Case:
    shape = draw(shapes)
    first = draw(st.tuples(*(st.integers(0, size - 1) for size in shape)))
    count = draw(st.tuples(*(st.integers(1, s - f) for s, f in zip(shape, first, strict=True))))
    dtype = draw(st.sampled_from([_U8, _F16]))
    source, target = (
        image(start, size, dtype, draw(gaps)) for start, size in ((3, shape), (_TARGET, count))
    )
    return copy_of(source, target, first), {}


@st.composite
def planes(draw: st.DrawFn, start: int, shape: tuple[int, int, int]) -> Planes:
    """Channels that lie alone, sometimes in a circular buffer."""
    channels, height, width = shape
    row = width + draw(gaps)
    size = channels * height * row
    circle = Circle(start + size, size) if draw(st.booleans()) else None
    offset = start if circle is None else start + draw(st.integers(0, size - 1))
    return Planes(Space(Source.POOL), offset, circle, channels, height, width, row, height * row)


@st.composite
def matrices(draw: st.DrawFn) -> Case:
    kernels, depth = draw(st.integers(1, 9)), draw(st.integers(1, 12))
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 30))
    is_turned = draw(st.booleans())
    strides = (1, kernels + 2, 1) if is_turned else (depth + 3, 1, 1)
    source = draw(planes(_SECOND, (depth, height, width)))
    target = draw(planes(_TARGET, (kernels, height, width)))
    low, high = draw(st.sampled_from([(-np.inf, np.inf), (0.0, 100.0), (-3.5, 20.25)]))
    task = MatrixProduct(
        Window(Space(Source.POOL), 0, (kernels, depth, 1), strides), source, target,
        draw(bytes_), draw(bytes_), draw(bytes_),
        draw(st.sampled_from([0.5, 0.0078125, 0.0113, -0.25])), low, high, False, _U8,
    )  # fmt: skip
    return task, {}


@pytest.mark.usefixtures("kernel_form")
@pytest.mark.parametrize(
    "cases",
    [factors, products, sums, layers, softmaxes, parts, matrices],
    ids=lambda cases: cases.__name__,
)
@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_kernels_give_the_bytes_of_functions(
    cases: Callable[[], st.SearchStrategy[Case]], data: st.DataObject
) -> None:
    check(*data.draw(cases()))


def _copied(offset: int, target: int) -> ShaderTask:
    shape = 1, 4, 8
    return copy_of(image(offset, shape), image(target, shape))


def _layer(bias: Image) -> ShaderTask:
    made = LayerRows(0, *(np.float32(1),) * 4)
    ones = fixed(np.ones((1, 1, 8), np.float32))
    images = image(0, (1, 4, 8)), bias, ones
    return ShaderTask(images, image(_TARGET, (1, 4, 8)), normalized_rows(made), form=made)


def _softmax(scale: float) -> ShaderTask:
    made = SoftmaxRows(powers_of(np.float32(scale)), np.float32(1), np.float32(0), is_half=False)
    images = image(0, (1, 4, 8)), image(_TARGET, (1, 4, 8))
    return ShaderTask(images[:1], images[1], shares_of(made), form=made)


def _matrix(depth: int, scale: float, stored: type = np.uint8) -> MatrixProduct:
    pool = Space(Source.POOL)
    source, target = (
        Planes(pool, start, None, count, 1, 1, 1, 1) for start, count in ((0, depth), (_TARGET, 1))
    )
    kernels = Window(pool, _SECOND, (1, depth, 1), (depth, 1, 1))
    return MatrixProduct(
        kernels, source, target, 0, 0, 0, scale, -np.inf, np.inf, False, np.dtype(stored)
    )


@pytest.mark.parametrize(
    ("task", "has_kernel"),
    [
        (_copied(0, 32), True),
        (_copied(0, 31), False),
        (_layer(fixed(np.ones((1, 1, 8), np.float32))), True),
        (_layer(image(_SECOND, (1, 1, 8), _F32)), False),
        (_softmax(1.0), True),
        (_softmax(-1.0), False),
        (_matrix(33025, 1.0), True),
        (_matrix(33026, 1.0), False),
        (_matrix(8, float("nan")), False),
        (_matrix(8, 1.0, np.int8), False),
    ],
)
def test_what_kernels_cannot_do_the_reference_does(task: Task, has_kernel: bool) -> None:
    assert (plans_of(layout(), [task])[0] is not None) is has_kernel
