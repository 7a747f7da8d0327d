"""Programs of the stream processor, and tables of sums: C gives the reference's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anynpu.soft.engines.vip.commands.sp import V11, V12
from anynpu.soft.engines.vip.kernels import native
from anynpu.soft.engines.vip.kernels.compile import Calls, Compiled, plans_of
from anynpu.soft.engines.vip.memory import Circle, Memory, Space
from anynpu.soft.engines.vip.planes import Planes
from anynpu.soft.engines.vip.reference.compute import compute
from anynpu.soft.engines.vip.stream.evaluation import Binding
from anynpu.soft.engines.vip.stream.flow import Flow, Node, Operand, QueueUse
from anynpu.soft.engines.vip.stream.own_tables import SIGMOID_TABLE, TANH_TABLE
from anynpu.soft.engines.vip.stream.tables import PiecewiseTable
from anynpu.soft.engines.vip.stream.task import RealInput, RealOutput, Stored, StreamTask
from anynpu.soft.engines.vip.tasks import Convolution, Sums, Table
from anynpu.soft.formats.nbg.model import Source

from .test_kernels import check, convolutions, filled, layout

BYTES, HALVES, FLOATS = np.dtype(np.uint8), np.dtype(np.float16), np.dtype(np.float32)
TYPES: tuple[Stored, ...] = BYTES, HALVES, FLOATS
IDLE = QueueUse(False, False, False, None, False)
NO_QUEUES = {V11: IDLE, V12: IDLE}
_no_check = [HealthCheck.function_scoped_fixture]

needs_kernels = pytest.mark.skipif(
    native.library() is None, reason="there is no build of the kernels"
)


def table(seed: int, *, is_signed: bool, is_odd: bool, exponent_bits: int) -> PiecewiseTable:
    random = np.random.default_rng(seed)
    values = random.normal(size=1024).astype(np.float32)
    limits = np.float32(random.normal()), np.float32(random.normal())
    return PiecewiseTable(values, is_signed, is_odd, exponent_bits, limits)


TABLES = {
    "any": table(0, is_signed=True, is_odd=False, exponent_bits=4),
    "all exponents": table(1, is_signed=False, is_odd=False, exponent_bits=8),
    "few exponents": table(2, is_signed=True, is_odd=False, exponent_bits=2),
    "odd": table(3, is_signed=False, is_odd=True, exponent_bits=6),
    "sigmoid": SIGMOID_TABLE,
    "tangent": TANH_TABLE,
}


def binding(draw: st.DrawFn) -> Binding:
    numbers = st.sampled_from([0.0, -0.0, 1.0, -0.37, 0.0123, 3e-5, 2.0**23, 1e30])
    low, high = draw(st.sampled_from([(-np.inf, np.inf), (-1.5, 6.0), (0.0, 0.0)]))
    registers = {3: draw(numbers), 4: draw(numbers), 5: 0.0, 6: high, 7: low}
    return Binding(
        {number: np.float32(value) for number, value in registers.items()},
        {1: TABLES[draw(st.sampled_from(list(TABLES)))]},
    )


def nodes(draw: st.DrawFn, inputs: int, queues: Sequence[int] = ()) -> tuple[Node, ...]:
    """Some units, each of which reads what is there before it."""
    made: list[Node] = []
    kinds = ["multiply", "clamp", "add", "subtract", "move", "absolute", "select"]
    kinds += ["entry", "fraction", "difference"]
    counts = {"move": 1, "absolute": 1, "entry": 1, "fraction": 1, "difference": 1, "select": 3}
    for number in range(draw(st.integers(1, 7))):
        there = [Operand(source=source) for source in range(inputs)]
        there += [Operand(queue=queue) for queue in queues]
        there += [Operand(node=node) for node in range(number)]
        there += [Operand(register=3), Operand(register=4), Operand(value=np.float32(-0.75))]
        kind = draw(st.sampled_from(kinds))
        operands = draw(st.tuples(*[st.sampled_from(there)] * counts.get(kind, 2)))
        made.append(Node(kind, operands, 1, None))
    return tuple(made)


def flow(made: tuple[Node, ...], inputs: int, output: int | None) -> Flow:
    return Flow(made, tuple(range(len(made))), inputs, output, (), False, dict(NO_QUEUES))


@st.composite
def planes(draw: st.DrawFn, place: int, shape: tuple[int, int, int], item: int) -> Planes:
    """Planes of a part of the pool; bytes in groups of channels, anything in a circle."""
    channels, height, width = shape
    group = draw(st.sampled_from([1, 2, 4])) if item == 1 else 1
    row = item * (width + draw(st.integers(0, 2)))
    plane = row * group * height + draw(st.integers(0, 3))
    size = -(-channels // group) * plane
    base = place * (13 << 10)
    start, circle = base + draw(st.integers(0, 9)), None
    if draw(st.booleans()):
        start = base + draw(st.integers(0, size))
        circle = Circle(base + size, size)
    return Planes(
        Space(Source.POOL), start, circle, channels, height, width, row, plane, group, item
    )


shapes = st.sampled_from([(1, 1, 1), (3, 2, 5), (5, 4, 7), (2, 3, 300), (1, 1, 700), (7, 1, 129)])


def rows_of(draw: st.DrawFn, shape: tuple[int, int, int]) -> tuple[int, int]:
    channels, height, width = shape
    are_lines = draw(st.booleans())
    return (channels * height, width) if are_lines else (channels, height * width)


def read(draw: st.DrawFn, place: int, shape: tuple[int, int, int]) -> Sums | RealInput:
    if draw(st.booleans()):
        source = draw(planes(place, shape, 1))
        return Sums(
            source, draw(st.booleans()), None, draw(st.integers(-128, 128)), True, 1, 1, 0, 0, 0,
            *shape,
        )  # fmt: skip
    dtype = draw(st.sampled_from(TYPES))
    return RealInput(draw(planes(place, shape, dtype.itemsize)), dtype)


def written(draw: st.DrawFn, place: int, shape: tuple[int, int, int]) -> RealOutput:
    stride = draw(st.sampled_from([1, 1, 2]))
    dtype = draw(st.sampled_from(TYPES))
    channels, height, width = shape
    kept = channels, -(-height // stride), -(-width // stride)
    target = draw(planes(place, kept, dtype.itemsize))
    return RealOutput(target, dtype, draw(st.integers(0, 255)), stride, draw(st.booleans()))


@st.composite
def one_by_one(draw: st.DrawFn) -> list[StreamTask]:
    """A program whose elements have nothing to do with one another."""
    shape, inputs = draw(shapes), draw(st.integers(1, 2))
    made = nodes(draw, inputs)
    rows, length = rows_of(draw, shape)
    parts = tuple(read(draw, place, shape) for place in range(inputs))
    output = written(draw, 2, shape)
    return [
        StreamTask(
            flow(made, inputs, len(made) - 1), binding(draw), parts, output, shape, rows, length
        )
    ]


@st.composite
def by_queues(draw: st.DrawFn) -> list[StreamTask]:
    """A program that leaves something in a queue, and one that takes it."""
    shape = draw(shapes)
    rows, length = rows_of(draw, shape)
    way = draw(st.sampled_from(["sums", "maxima", "entries"]))
    made = nodes(draw, 1)
    last = len(made) - 1
    first = flow(made, 1, last if draw(st.booleans()) else None)
    takes = QueueUse(True, way != "entries", False, None, False)
    if way == "entries":
        leaves = QueueUse(False, False, False, last, True)
        first = replace(first, queues={V11: leaves, V12: IDLE})
    else:
        first = replace(first, summands=(last, 0), sums_are_maxima=way == "maxima")
    queues = (V11,) if way == "entries" else (V11, V12)
    made = nodes(draw, 1, queues)
    second = replace(flow(made, 1, len(made) - 1), queues=NO_QUEUES | dict.fromkeys(queues, takes))
    outputs = [written(draw, place, shape) for place in (2, 3)]
    return [
        StreamTask(
            first, binding(draw), (read(draw, 0, shape),),
            outputs[0] if first.output is not None else None, shape, rows, length,
        ),
        StreamTask(
            second, binding(draw), (read(draw, 1, shape),), outputs[1], shape, rows, length
        ),
    ]  # fmt: skip


@st.composite
def by_rows(draw: st.DrawFn) -> list[StreamTask]:
    """A maximum that runs on from row to row; every row of the next takes what the last leaves."""
    shape = draw(shapes)
    rows, length = rows_of(draw, shape)
    earlier = Operand(node=0, back=1)
    greater = Node("subtract", (Operand(source=0), earlier), 0, None)
    kept = Node("select", (Operand(node=1), Operand(source=0), earlier), 0, np.float32(-9))
    first = replace(
        flow((kept, greater), 1, 0),
        order=(1, 0),
        queues={V11: QueueUse(True, False, True, 0, True), V12: IDLE},
    )
    if draw(st.booleans()):
        passed = Operand(node=0, back=1, queue=V11)
        kept = replace(kept, operands=(Operand(node=1), Operand(source=0), passed))
        greater = replace(greater, operands=(Operand(source=0), passed), initial=np.float32(0.5))
        first = replace(first, nodes=(kept, greater))
    made = nodes(draw, 1, (V11,))
    takes = QueueUse(True, False, False, None, False, repeats=True)
    second = replace(flow(made, 1, len(made) - 1), queues={V11: takes, V12: IDLE})
    outputs = [written(draw, place, shape) for place in (2, 3)]
    inputs = [read(draw, place, shape) for place in (0, 1)]
    return [
        StreamTask(program, binding(draw), (part,), output, shape, rows, length)
        for program, part, output in zip((first, second), inputs, outputs, strict=True)
    ]


def compare(tasks: Sequence[StreamTask], seed: int) -> None:
    """All of the kernel's bytes are the reference's."""
    places = layout()
    for task in tasks:
        for window in (*task.reads(), *task.writes()):
            places.check(window)
    plans = plans_of(places, tasks)
    assert all(plan is not None for plan in plans)
    content = filled(seed)
    if any(isinstance(part, RealInput) and part.dtype != BYTES for t in tasks for part in t.inputs):
        # No halves that are no numbers: NumPy's builds don't agree on what floats become of them.
        content &= 0xBF
    expected, found = Memory(places, content.copy()), Memory(places, content)
    computing = Calls(Compiled.of(places, tasks), found)
    for call in computing.calls:
        call()
    for task in tasks:
        compute(task, expected)
    for output in (task.output for task in tasks if task.output is not None):
        # Which of its bits what is no number has, nobody knows.
        kept, bits = (read_real(output, memory) for memory in (expected, found))
        assert (kept.view(np.uint8) == bits.view(np.uint8)).all()
        output.target.write(found, output.target.read(expected).copy())
    assert (found.array == expected.array).all()


def read_real(output: RealOutput, memory: Memory) -> NDArray[Any]:
    values = np.ascontiguousarray(output.target.read(memory)).view(output.dtype)
    if output.dtype != np.uint8:
        values = np.where(np.isnan(values), output.dtype.type(np.nan), values)
    return np.ascontiguousarray(values)


@needs_kernels
@pytest.mark.usefixtures("kernel_form")
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
@settings(max_examples=150, suppress_health_check=_no_check)
@given(tasks=one_by_one() | by_queues() | by_rows(), seed=st.integers(0, 9))
def test_programs(tasks: list[StreamTask], seed: int) -> None:
    compare(tasks, seed)


@needs_kernels
@pytest.mark.usefixtures("kernel_form")
def test_sums_of_negative_zeros_have_no_sign() -> None:
    shape, pool = (2, 1, 10), Space(Source.POOL)
    source = RealInput(Planes(pool, 0, None, *shape, 10, 10, 1, 1), BYTES)
    target = Planes(pool, 64, None, *shape, 20, 20, 1, 2)
    output = RealOutput(target, np.dtype(np.float16), 0, 1, halves_go_away=False)
    values = Binding({number: np.float32(0) for number in range(3, 8)}, {})
    zeros = Node("multiply", (Operand(source=0), Operand(value=np.float32(-0.0))), 1, None)
    sums = replace(flow((zeros,), 1, None), summands=(0, 0))
    takes = QueueUse(is_read=True, by_row=True, skips_row=False, writer=None, resets=False)
    taken = Node("move", (Operand(queue=V11),), 1, None)
    result = replace(flow((taken,), 1, 0), queues=NO_QUEUES | {V11: takes, V12: takes})
    compare(
        [
            StreamTask(sums, values, (source,), None, shape, 2, 10),
            StreamTask(result, values, (source,), output, shape, 2, 10),
        ],
        0,
    )


@st.composite
def programs_of_sums(draw: st.DrawFn) -> StreamTask:
    convolution = draw(convolutions())
    while convolution.pooling is not None or convolution.shuffles_depth:
        convolution = draw(convolutions())
    sums = convolution.sums
    made = nodes(draw, 1)
    output = RealOutput(
        convolution.target, BYTES, draw(st.integers(0, 255)), convolution.stride,
        draw(st.booleans()),
    )  # fmt: skip
    shape = sums.channels, sums.height, sums.width
    return StreamTask(
        flow(made, 1, len(made) - 1), binding(draw), (sums,), output, shape, sums.channels,
        sums.height * sums.width,
    )  # fmt: skip


@needs_kernels
@pytest.mark.usefixtures("kernel_form")
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
@settings(max_examples=60, suppress_health_check=_no_check)
@given(task=programs_of_sums(), seed=st.integers(0, 9))
def test_programs_of_sums(task: StreamTask, seed: int) -> None:
    compare([task], seed)


@st.composite
def with_tables(draw: st.DrawFn) -> Convolution:
    convolution = draw(convolutions())
    random = np.random.default_rng(draw(st.integers(0, 99)))
    is_signed, exponents = draw(st.sampled_from([(True, 64), (True, 32), (True, 16), (False, 32)]))
    slopes = tuple(random.normal(size=3).tolist())
    return replace(
        convolution,
        table=Table(
            random.normal(size=1024) * 50, is_signed, True, exponents=exponents, slopes=slopes
        ),
        negative_scale=None,
        addition=None,
        product=None,
        scale=draw(st.sampled_from([2.0**-40, 0.001, 0.37, 2.0**9])),
    )


@needs_kernels
@pytest.mark.usefixtures("kernel_form")
@settings(max_examples=60, suppress_health_check=_no_check)
@given(task=with_tables(), seed=st.integers(0, 9))
def test_tables_behind_coefficients(task: Convolution, seed: int) -> None:
    check(task, seed)
