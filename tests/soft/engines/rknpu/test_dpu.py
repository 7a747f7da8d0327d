"""The DPU's stages, on features from memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.kernels import KernelKind
from anynpu.soft.engines.rknpu.memory import INTERNAL
from anynpu.soft.engines.rknpu.reference.dpu import look_up, round_to_bfloat
from anynpu.soft.engines.rknpu.rounding import SILICON, Ties
from anynpu.soft.engines.rknpu.tasks import (
    DenseWriter,
    Dpu,
    Elementwise,
    ElementwiseTask,
    Features,
    LookupTable,
    OperandConversion,
    Operation,
)

from .descriptions import (
    OPERAND,
    TARGET,
    Scene,
    block_writer,
    channels,
    dpu,
    features,
    output,
    stage,
)

SHAPE = (20, 3, 5)


def values(seed: int, shape: tuple[int, int, int] = SHAPE) -> NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def run(x: NDArray[Any], stages: Dpu, operand: NDArray[Any] | None = None) -> NDArray[Any]:
    """Features through the stages, as they lie in memory after them."""
    element = {"int8": Element.INT8, "float16": Element.FLOAT16}[x.dtype.name]
    is_int8 = element is stages.output.element is Element.INT8
    scene = Scene()
    scene.put(x)
    if operand is not None:
        scene.put(operand, OPERAND)
    task = ElementwiseTask(0, 0, features(x.shape, element), stages, block_writer(*x.shape[1:]))
    scene.run(task, KernelKind.INT8 if is_int8 else KernelKind.GENERAL)
    return scene.get(x.shape, stages.output.element.dtype)


def elementwise(
    operation: Operation | None, operand: float | Features | None, **changes: Any
) -> Elementwise:
    arguments: dict[str, Any] = {
        "table": None,
        "conversion": None,
        "product_shift": 0,
        **changes,
    }
    return Elementwise(operation=operation, operand=operand, **arguments)


def rounded(x: NDArray[Any], ties: Ties = Ties.EVEN) -> NDArray[Any]:
    """The nearest whole numbers."""
    nearest: NDArray[Any] = np.rint(x)
    if ties is not Ties.EVEN:
        is_tie = np.abs(x - np.trunc(x)) == 0.5
        up = np.ceil(x) if ties is Ties.UP else np.sign(x) * np.ceil(np.abs(x))
        nearest = np.where(is_tie, up, nearest)
    return nearest


def test_bs_adds_then_multiplies_and_rounds_ties_to_even() -> None:
    x, a, m = values(1), np.arange(20) * 9 - 70, np.arange(20) * 700 - 6000
    bs = stage(add=channels(a), multiply=channels(m), shift_positive=9, shift_negative=9)
    exact = (x.astype(np.int64) + channels(a)) * channels(m) / 512
    np.testing.assert_array_equal(run(x, dpu(bs=bs)), np.clip(rounded(exact), -128, 127))


def test_bn_multiplies_then_adds() -> None:
    x = values(2)
    bn = stage(add=1000, multiply=-300, adds_first=False, shift_positive=8, shift_negative=8)
    exact = (x.astype(np.int64) * -300 + 1000) / 256
    np.testing.assert_array_equal(run(x, dpu(bn=bn)), np.clip(rounded(exact), -128, 127))


def test_subtraction_and_a_relu_with_a_limit() -> None:
    x = values(3)
    bs = stage(add=5, subtracts=True, lower=0, upper=40)
    expected = np.clip(x.astype(np.int64) - 5, 0, 40)
    np.testing.assert_array_equal(run(x, dpu(bs=bs)), expected)


def test_a_leaky_relu_multiplies_negatives_and_shifts_them_alone() -> None:
    x = values(4)
    bs = stage(multiply=1638, multiply_negatives=True, shift_positive=0, shift_negative=14)
    exact = x.astype(np.int64)
    expected = np.where(exact < 0, rounded(exact * 1638 / (1 << 14)), exact)
    np.testing.assert_array_equal(run(x, dpu(bs=bs)), expected)


@pytest.mark.parametrize(
    "operation",
    [Operation.ADD, Operation.SUBTRACT, Operation.MAX, Operation.MIN, Operation.MULTIPLY],
)
@pytest.mark.parametrize("ties", [Ties.EVEN, Ties.AWAY])
def test_operations_with_converted_operands(operation: Operation, ties: Ties) -> None:
    x, e = values(5), values(6)
    how = OperandConversion(offset=3, scale=25, shift=4, ties=ties)
    stages = dpu(
        elementwise=elementwise(
            operation, features(SHAPE, offset=OPERAND), conversion=how,
            product_shift=5 if operation is Operation.MULTIPLY else 0,
        )
    )  # fmt: skip
    converted = rounded((e.astype(np.int64) + 3) * 25 / 16, ties)
    function: Any = {
        Operation.ADD: np.add,
        Operation.SUBTRACT: np.subtract,
        Operation.MAX: np.maximum,
        Operation.MIN: np.minimum,
        Operation.MULTIPLY: lambda a, b: rounded(a * b / 32),
    }[operation]
    expected = np.clip(function(x.astype(np.int64), converted), -128, 127)
    np.testing.assert_array_equal(run(x, stages, e), expected)


def test_one_pixel_is_an_operand_for_all() -> None:
    x, e = values(7), values(8, (20, 1, 1))
    pixel = Features(Address(INTERNAL, OPERAND), Element.INT8, 20, 1, 1, 16, 16, 16)
    stages = dpu(elementwise=elementwise(Operation.ADD, pixel, lower=0))
    expected = np.clip(x.astype(np.int64) + e, 0, 127)
    np.testing.assert_array_equal(run(x, stages, e), expected)


def test_surfaces_may_alternate_between_two_places() -> None:
    x, e = values(9, (40, 2, 2)), values(10, (40, 2, 2))
    scene = Scene()
    scene.put(x)
    packed = np.zeros((48, 4), np.int8)
    packed[:40] = e.reshape(40, 4)
    atoms = packed.reshape(3, 16, 4).transpose(0, 2, 1)
    other = OPERAND + 4096
    for surface, place in ((0, OPERAND), (1, other), (2, OPERAND + 64)):
        scene.bytes[place : place + 64] = np.frombuffer(atoms[surface].tobytes(), np.uint8)
    operand = Features(
        Address(INTERNAL, OPERAND), Element.INT8, 40, 2, 2, 32, 64, 16, Address(INTERNAL, other)
    )
    stages = dpu(elementwise=elementwise(Operation.ADD, operand))
    task = ElementwiseTask(0, 0, features((40, 2, 2)), stages, block_writer(2, 2))
    scene.run(task, KernelKind.INT8)
    np.testing.assert_array_equal(scene.get((40, 2, 2)), np.clip(x.astype(int) + e, -128, 127))


def table(**changes: Any) -> LookupTable:
    """The square, in two tables over -2^14 to 2^14, scaled to fit."""
    places = np.arange(513) * 32.0
    arguments: dict[str, Any] = {
        "negative": np.rint((places - 16384) ** 2 / (1 << 13)),
        "positive": np.rint(places**2 / (1 << 13)),
        "negative_start": -16384,
        "positive_start": 0,
        "positive_end": 16384,
        "steps": (5, 5),
        "slopes": (-7, 9),
        "shifts": (1, 2),
        **changes,
    }
    return LookupTable(**arguments)


def test_tables_interpolate_between_entries() -> None:
    x = np.arange(-16384, 16385)
    y = look_up(table(), x, is_float=False)
    np.testing.assert_allclose(y, x.astype(float) ** 2 / (1 << 13), atol=1.5)
    assert y.dtype == np.int64


def test_tables_go_on_in_straight_lines() -> None:
    y = look_up(table(), np.array([-16384 - 10, 16384 + 10]), is_float=False)
    # 22.5 loses what is after the point.
    np.testing.assert_array_equal(y, [32768 + 35, 32768 + 22])


def test_tables_keep_fractions_of_floats() -> None:
    y = look_up(table(), np.array([16.0, np.nan], np.float32), is_float=True)
    entries = table().positive
    assert y[0] == (entries[0] + entries[1]) / 2
    assert np.isnan(y[1])


@settings(max_examples=30, deadline=None)
@given(scale=st.integers(-32768, 32767), shift=st.integers(0, 12), seed=st.integers(0, 99))
def test_looked_up_values_are_the_same_on_the_fast_path(scale: int, shift: int, seed: int) -> None:
    bs = stage(multiply=scale, shift_positive=shift, shift_negative=shift)
    stages = dpu(
        bs=bs,
        elementwise=elementwise(None, None, table=table()),
        output=output(scale=17000, shift=20, offset=-90),
    )
    task = ElementwiseTask(0, 0, features(SHAPE), stages, block_writer(3, 5))
    scene = Scene()
    scene.put(values(seed))
    scene.run(task, KernelKind.INT8)


def test_a_reduction_writes_one_element_a_pixel() -> None:
    x = values(11)
    scene = Scene()
    scene.put(x)
    target = DenseWriter(Address(INTERNAL, TARGET))
    task = ElementwiseTask(0, 0, features(SHAPE), dpu(reduction="max"), target)
    scene.run(task, KernelKind.REFERENCE)
    np.testing.assert_array_equal(scene.bytes[TARGET : TARGET + 15].view(np.int8), x.max(0).ravel())


def test_float16_through_the_stages() -> None:
    rng = np.random.default_rng(12)
    x = rng.standard_normal(SHAPE).astype(np.float16)
    stages = dpu(
        is_float=True,
        bs=stage(add=0.5, multiply=3.0),
        bn=stage(multiply=-2.0, adds_first=False, multiply_negatives=True),
        output=output(Element.FLOAT16, factor=0.25),
    )
    y = (x.astype(np.float32) + np.float32(0.5)) * np.float32(3)
    expected = (np.where(y < 0, y * -2, y) * np.float32(0.25)).astype(np.float16)
    np.testing.assert_array_equal(run(x, stages), expected)


def test_int8_to_float16() -> None:
    x = values(13)
    stages = dpu(output=output(Element.FLOAT16, factor=3 * 2.0**-7))
    np.testing.assert_array_equal(run(x, stages), (x * (3 / 128)).astype(np.float16))


def test_bfloat16_rounds_to_even() -> None:
    words = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0xBF808000], np.uint32)
    np.testing.assert_array_equal(
        round_to_bfloat(words.view(np.float32)), [0x3F80, 0x3F82, 0x3F81, 0xBF80]
    )


@given(
    st.lists(st.integers(-(1 << 20), 1 << 20)),
    st.integers(0, 20),
    st.integers(-200, 200),
    st.sampled_from(Ties),
)
def test_rounding_shifts(numbers: list[int], count: int, offset: int, ties: Ties) -> None:
    given = np.array(numbers, np.int64)
    exact = given / 2.0**count
    np.testing.assert_array_equal(SILICON.shift(given, count, ties), rounded(exact, ties))
    np.testing.assert_array_equal(SILICON.average(given, count), np.rint(exact))
    moved = SILICON.convert(given, count, offset, ties)
    np.testing.assert_array_equal(moved, rounded(exact + offset, ties))


@pytest.mark.parametrize("ties", Ties)
def test_shifts_by_more_bits_than_there_are_leave_the_offset(ties: Ties) -> None:
    given = np.array([-(1 << 46), -1, 0, 1 << 46])
    for count in (60, 63, 64, 4095):
        np.testing.assert_array_equal(SILICON.convert(given, count, -5, ties), [-5] * 4)
