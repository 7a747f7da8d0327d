"""Random int8 convolutions with random stages: the fast path leaves the reference's bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.kernels import KernelKind
from anynpu.soft.engines.rknpu.memory import INTERNAL
from anynpu.soft.engines.rknpu.rounding import Ties
from anynpu.soft.engines.rknpu.tasks import (
    BlockWriter,
    Convolution,
    ConvolutionTask,
    Dpu,
    Elementwise,
    Features,
    Image,
    OperandConversion,
    Operation,
)

from .descriptions import (
    OPERAND,
    SOURCE,
    Scene,
    block_writer,
    channels,
    convolution,
    dense_weights,
    dpu,
    features,
    output,
    stage,
)
from .test_dpu import table

pytestmark = pytest.mark.usefixtures("kernel_form")


@dataclass(frozen=True)
class Case:
    """A convolution's sizes, and what follows it."""

    atom: int
    kernels: int
    inputs: int
    size: tuple[int, int]
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    value: int
    unused: int
    follow: str
    shift: int
    offset: int
    seed: int
    ties: Ties = Ties.EVEN
    truncate: int = 0

    @property
    def outputs(self) -> tuple[int, int]:
        reach = [(k - 1) * d + 1 for k, d in zip(self.window, self.dilation, strict=True)]
        first, second = (
            max(1, (size + 2 * pad - far) // step + 1)
            for size, pad, far, step in zip(
                self.size, self.padding, reach, self.stride, strict=True
            )
        )
        return first, second


def pairs(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(low, high), st.integers(low, high))


FOLLOW = (
    "nothing", "relu", "limit", "leaky", "split", "unshifted", "saturated", "saturated relu",
    "second", "table", "second table", "add", "add relu", "multiply", "maximum",
)  # fmt: skip

LARGE = "unshifted", "saturated", "saturated relu"

cases = st.builds(
    Case,
    atom=st.sampled_from([8, 16]),
    kernels=st.integers(1, 150),
    inputs=st.integers(1, 70),
    size=pairs(1, 13),
    window=pairs(1, 4),
    stride=pairs(1, 3),
    padding=pairs(0, 2),
    dilation=pairs(1, 2),
    value=st.integers(-128, 127),
    unused=st.integers(0, 3),
    follow=st.sampled_from(FOLLOW),
    shift=st.integers(0, 16),
    offset=st.integers(-130, 130),
    seed=st.integers(0, 1 << 16),
    ties=st.sampled_from([Ties.EVEN, Ties.EVEN, Ties.AWAY]),
    truncate=st.sampled_from([0, 0, 1, 5]),
)


def with_atoms(what: Features, atom: int) -> Features:
    """Features of int8 in atoms of a given number of bytes."""
    _, height, width = what.shape
    return replace(what, atom=atom, line=width * atom, surface=height * width * atom)


def operand(case: Case) -> Features:
    return with_atoms(features((case.kernels, *case.outputs), Element.INT8, OPERAND), case.atom)


def following(case: Case) -> Dpu:
    """The stages after the sums."""
    rng = np.random.default_rng(case.seed)
    count = case.kernels
    bs = stage(
        add=channels(rng.integers(-5000, 5000, count)),
        multiply=channels(rng.integers(-16384, 16384, count)),
        shift_positive=14,
        shift_negative=14,
    )
    bn = elementwise = None
    add = {
        "operation": Operation.ADD,
        "operand": operand(case),
        "conversion": OperandConversion(int(rng.integers(-128, 128)), 19000, case.shift, case.ties),
    }
    match case.follow:
        case "saturated" | "saturated relu":
            # Products reach far beyond 32 bits.
            bs = replace(
                bs,
                shift_positive=0,
                shift_negative=0,
                lower=0.0 if case.follow.endswith("relu") else None,
            )
        case "relu" | "limit":
            bn = stage(lower=0, upper=900 if case.follow == "limit" else None, adds_first=False)
        case "leaky" | "split" | "unshifted":
            bs = replace(bs, shift_negative=10 if case.follow == "split" else 14)
            if case.follow == "unshifted":
                bs = replace(bs, shift_positive=0)
            bn = stage(multiply=1638, adds_first=False, multiply_negatives=True)
        case "second" | "second table":
            bn = stage(
                multiply=28474, add=case.offset, adds_first=False, shift_positive=case.shift,
                shift_negative=case.shift,
            )  # fmt: skip
        case "add" | "add relu":
            elementwise = element(lower=0 if case.follow == "add relu" else None, **add)
        case "multiply":
            elementwise = element(**{**add, "operation": Operation.MULTIPLY, "product_shift": 9})
        case "maximum":
            elementwise = element(operation=Operation.MAX, operand=3.0)
    if case.follow.endswith("table"):
        elementwise = element(table=table())
    return dpu(
        bs=bs, bn=bn, elementwise=elementwise,
        output=output(
            scale=20000, shift=case.shift + (20 if case.follow in LARGE else 6),
            offset=case.offset, ties=case.ties,
        ),
    )  # fmt: skip


def element(**changes: object) -> Elementwise:
    arguments: dict[str, object] = {
        "table": None,
        "operation": None,
        "operand": None,
        "conversion": None,
        "product_shift": 0,
        **changes,
    }
    return Elementwise(**arguments)  # type: ignore[arg-type]


def writer(case: Case) -> BlockWriter:
    height, width = case.outputs
    return block_writer(
        height, width, atom=case.atom, line=width * case.atom,
        surface=height * width * case.atom, padding=0xFB,
    )  # fmt: skip


def task_of(case: Case, source: Features | Image) -> ConvolutionTask:
    rng = np.random.default_rng(case.seed + 1)
    weights = dense_weights(rng.integers(-128, 128, (case.kernels, source.channels, *case.window)))
    what: Convolution = convolution(
        source, weights, *case.outputs, stride=case.stride, padding=case.padding,
        dilation=case.dilation, padding_value=float(case.value),
        valid_channels=max(1, source.channels - case.unused),
        weight_offset=channels(rng.integers(-128, 128, case.kernels)), truncate=case.truncate,
        truncate_ties=Ties.UP if case.seed % 2 else Ties.EVEN,
    )  # fmt: skip
    return ConvolutionTask(0, 0, what, following(case), writer(case))


def kernels_for(case: Case) -> KernelKind:
    """The int8 kernels don't know an operand of one number in memory."""
    has_operand = case.follow in ("add", "add relu", "multiply")
    is_one = has_operand and (case.kernels, *case.outputs) == (1, 1, 1)
    return KernelKind.GENERAL if is_one else KernelKind.INT8


@settings(max_examples=150, deadline=None)
@given(case=cases)
def test_channel_blocks(case: Case) -> None:
    source = with_atoms(features((case.inputs, *case.size)), case.atom)
    Scene(case.seed).run(task_of(case, source), kernels_for(case))


@settings(max_examples=60, deadline=None)
@given(case=cases, count=st.sampled_from([1, 3, 4]))
def test_pictures(case: Case, count: int) -> None:
    height, width = case.size
    source = Image(Address(INTERNAL, SOURCE), Element.INT8, count, height, width, width * count)
    Scene(case.seed).run(task_of(replace(case, unused=0), source), kernels_for(case))


@settings(max_examples=150, deadline=None)
@given(case=cases)
def test_kernels_of_one_place(case: Case) -> None:
    case = replace(case, window=(1, 1), stride=(1, 1), padding=(0, 0), dilation=(1, 1))
    source = with_atoms(features((case.inputs, *case.size)), case.atom)
    Scene(case.seed).run(task_of(case, source), kernels_for(case))


@pytest.mark.parametrize("inputs", [17, 33, 49])
def test_channels_that_end_before_the_last_atom(inputs: int) -> None:
    case = Case(
        16, 17, inputs, (3, 3), (1, 2), (1, 1), (0, 0), (1, 1), 0, 3, "nothing", 5, 0, 0
    )  # fmt: skip
    source = with_atoms(features((case.inputs, *case.size)), case.atom)
    Scene(case.seed).run(task_of(case, source), kernels_for(case))


@pytest.mark.parametrize("follow", FOLLOW)
@pytest.mark.parametrize("atom", [8, 16])
def test_what_networks_have_is_fast(follow: str, atom: int) -> None:
    case = Case(
        atom, 130, 60, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), -7, 0, follow, 14, -20, 3
    )  # fmt: skip
    task = task_of(case, with_atoms(features((60, 9, 9)), atom))
    Scene().run(task, KernelKind.INT8)


@pytest.mark.parametrize("follow", FOLLOW)
@pytest.mark.parametrize("atom", [8, 16])
def test_odd_sizes_and_truncated_sums(follow: str, atom: int) -> None:
    case = Case(
        atom, 37, 20, (9, 7), (3, 2), (1, 2), (1, 0), (1, 1), 5, 2, follow, 14, -20, 5, truncate=3
    )  # fmt: skip
    task = task_of(case, with_atoms(features((20, 9, 7)), atom))
    Scene().run(task, KernelKind.INT8)


@pytest.mark.parametrize(("window", "padding"), [((3, 3), (1, 1)), ((1, 1), (0, 0))])
def test_output_in_the_place_of_the_input(
    window: tuple[int, int], padding: tuple[int, int]
) -> None:
    case = Case(16, 16, 16, (9, 9), window, (1, 1), padding, (1, 1), 0, 0, "relu", 14, 0, 4)
    task = task_of(case, features((16, 9, 9)))
    task = replace(task, writer=replace(writer(case), address=Address(INTERNAL, SOURCE)))
    Scene().run(task, KernelKind.INT8)


def test_tasks_that_share_weights_have_stages_of_their_own() -> None:
    case = Case(16, 40, 32, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1), 3, 0, "relu", 14, -20, 6)
    first = task_of(case, features((32, 9, 9)))
    scene = Scene()
    for follow in (*FOLLOW, "relu"):
        scene.run(replace(first, dpu=following(replace(case, follow=follow))), KernelKind.INT8)
    for changes in ({"truncate": 3}, {"padding_value": -128.0}, {}):
        changed = replace(first.convolution, **changes)
        scene.run(replace(first, convolution=changed), KernelKind.INT8)


@pytest.mark.parametrize("threads", [1, 2, 8, 16])
def test_any_number_of_threads_gives_the_same_bytes(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_THREADS", str(threads))
    case = Case(16, 96, 64, (33, 31), (3, 3), (1, 1), (1, 1), (1, 1), 3, 0, "leaky", 14, -20, 7)
    Scene().run(task_of(case, features((64, 33, 31))), KernelKind.INT8)
    # Gathered first, and of one place.
    case = replace(case, kernels=150, window=(1, 1), padding=(0, 0), unused=3, follow="add")
    for size in ((15, 13), (1, 1)):
        small = replace(case, size=size)
        Scene().run(task_of(small, features((64, *size))), kernels_for(small))


def test_an_addition_in_the_place_of_its_operand() -> None:
    case = Case(16, 64, 40, (7, 7), (1, 1), (1, 1), (0, 0), (1, 1), 0, 3, "add", 9, 3, 9)
    task = task_of(case, features((40, 7, 7)))
    place = replace(writer(case), address=operand(case).address)
    Scene().run(replace(task, writer=place), KernelKind.INT8)
