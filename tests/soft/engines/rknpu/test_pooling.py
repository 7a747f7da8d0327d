"""The PPU."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu.soft.engines.rknpu.elements import Element
from anynpu.soft.engines.rknpu.kernels import KernelKind
from anynpu.soft.engines.rknpu.tasks import PoolingMethod, PoolingTask

from .descriptions import Scene, block_writer, features

SHAPE = (20, 7, 6)


def task(
    method: PoolingMethod,
    *,
    value: float,
    element: Element = Element.INT8,
    reciprocals: tuple[float, float] = (0.0, 0.0),
) -> PoolingTask:
    """3x3, stride 2, padded by one: 4x3 pixels."""
    writer = block_writer(4, 3)
    return PoolingTask(
        0, 0, features(SHAPE, element), method, (3, 3), (2, 2), (1, 1), value, reciprocals, 4, 3,
        writer,
    )  # fmt: skip


def windows(x: NDArray[np.generic], value: float) -> NDArray[np.float64]:
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)), constant_values=value)
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return views[:, ::2, ::2]


@pytest.mark.parametrize(
    ("method", "value"), [(PoolingMethod.MAX, -128.0), (PoolingMethod.MIN, 127.0)]
)
def test_extremes_of_int8(method: PoolingMethod, value: float) -> None:
    x = np.random.default_rng(1).integers(-128, 128, SHAPE).astype(np.int8)
    scene = Scene()
    scene.put(x)
    what = task(method, value=value)
    scene.run(what, KernelKind.INT8)
    reduce = np.max if method is PoolingMethod.MAX else np.min
    np.testing.assert_array_equal(scene.get((20, 4, 3)), reduce(windows(x, value), axis=(3, 4)))


def test_averages_of_int8_round_to_even() -> None:
    x = np.random.default_rng(2).integers(-128, 128, SHAPE).astype(np.int8)
    scene = Scene()
    scene.put(x)
    third = 21845 / 65536
    what = task(PoolingMethod.AVERAGE, value=-4.0, reciprocals=(third, third))
    scene.run(what, KernelKind.GENERAL)
    sums = windows(x, -4).sum((3, 4))
    np.testing.assert_array_equal(scene.get((20, 4, 3)), np.rint(sums * third * third))


@pytest.mark.parametrize("element", [Element.INT8, Element.FLOAT16])
def test_rows_and_columns_inside_count(element: Element) -> None:
    """Padding is added, but doesn't count: with 0 it is left out of the mean."""
    x = np.random.default_rng(4).integers(-128, 128, SHAPE).astype(element.dtype)
    scene = Scene()
    scene.put(x)
    third = 21845 / 65536 if element is Element.INT8 else float(np.float16(65536 / 3)) / 65536
    made = task(PoolingMethod.AVERAGE, value=0.0, element=element, reciprocals=(third, third))
    scene.run(replace(made, counts_inside=True), KernelKind.REFERENCE)
    rows, columns = (windows(np.ones(SHAPE), 0)[0].max(axis).sum(-1) for axis in (3, 2))
    np.testing.assert_array_equal(rows[:, 0], [2, 3, 3, 2])
    means = windows(x, 0).sum((3, 4)) / (rows[:, :1] * columns[:1])
    found = scene.get((20, 4, 3), element.dtype)
    np.testing.assert_allclose(found, means, atol=0.51 if element is Element.INT8 else 0.1)


def test_float16() -> None:
    x = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float16)
    scene = Scene()
    scene.put(x)
    what = task(PoolingMethod.MAX, value=-math.inf, element=Element.FLOAT16)
    scene.run(what, KernelKind.GENERAL)
    np.testing.assert_array_equal(
        scene.get((20, 4, 3), np.float16), windows(x, -math.inf).max((3, 4))
    )
