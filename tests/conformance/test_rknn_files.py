"""Every compiled sample against the vendor's simulator, and what docs/rknn-files.md says.

The simulator computes with quantised values in floating point and is no model of the chip, so
agreement to one step is the most that it can show. With its own way of rounding on our side, next
to nothing differs in single operators: what else differs is what the chip rounds in between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from anynpu.soft.engines.rknpu.rounding import SILICON, SIMULATOR, Rounding

from ..shared import SAMPLES
from .rknn_files import Report, examine, node_table, sample_files

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rknn-files.md"


@dataclass(frozen=True)
class Goal:
    """The largest difference and the least share of equal elements, or of the cosine."""

    steps: int = 1
    equal: float = 0.98
    relative: float = 0.005
    cosine: float = 0.999


# Softmax in files of toolkit 2.5 takes e^x from the bits of a float16, which is off by 2.5 %; the
# simulator takes the true one.
_APPROXIMATE_EXP = Goal(relative=0.03, cosine=0.9995)
_GOALS = {
    "*/avgpool_i8": Goal(
        equal=0.94
    ),  # ties of 2 x 2 averages, which the simulator rounds both ways
    # Each value lies half-way between two steps; the simulator rounds as its last bits fall.
    "rk3588/op_hardsigmoid_i8": Goal(equal=0.55),
    "*/softmax_*": _APPROXIMATE_EXP,
    "*/op_softmax_*": _APPROXIMATE_EXP,
    "*/smallcnn_*": _APPROXIMATE_EXP,
    "*/ppocr_cls_*": _APPROXIMATE_EXP,
    "rk3588/m_attention_fp16": _APPROXIMATE_EXP,
    "rk3588/m_yolov8tail_fp16": Goal(relative=0.01),
    # The commands add the scaled zero point, rounded; the simulator does not round it.
    "rv1106/matmul_dyn_i8": Goal(equal=0.87),
    # The CPU computes these as `librknnrt` 1.5.2 does, byte for byte, which cuts off after the
    # point where the simulator rounds, and decides ties in whole numbers.
    "rk3588/op_bilinear_ac_i8": Goal(equal=0.5),
    "rk3588/op_avgpool3p_i8": Goal(equal=0.99),
    # Networks: a step here and there in one layer becomes more in the next ones.
    "rk3588/m_lstm_i8": Goal(equal=0.55, cosine=0.9995),
    "rk3588/m_attention_i8": Goal(steps=4, equal=0.3, cosine=0.998),
    "rk3588/silero_fp16": Goal(relative=0.02),
    "rk3588/ppocr_rec_i8": Goal(relative=0.2, cosine=0.997),
    "*/efficientnet_*": Goal(steps=4, equal=0.4, cosine=0.998),
    "*/yolov3_tiny_*": Goal(steps=6, equal=0.35, cosine=0.9995),
    # Compared with ONNX Runtime in floating point, for want of the simulator's values.
    "*/conv3x3_rgb_i8_ms": Goal(steps=3, equal=0.8),
}
_GOALS_OF_THE_SIMULATOR_S_ROUNDING = _GOALS | {
    "*/efficientnet_*": Goal(steps=3, equal=0.39, cosine=0.998),
    # Indices go from float64 to int8 and back.
    "rk3588/op_gather_i8": Goal(equal=0.99),
    "*": Goal(equal=0.997),
}
_GOALS_OF_SILICON_S_ROUNDING = {
    # Tables drop bits, which adds up from one hard swish to the next.
    "rk3588/ppocr_cls_i8": Goal(relative=0.03, cosine=0.9994),
    **_GOALS,
}


@cache
def reports(rounding: Rounding) -> tuple[Report, ...]:
    return tuple(examine(file, rounding=rounding) for file in sample_files())


def goal(name: str, goals: Mapping[str, Goal]) -> Goal:
    for pattern, found in goals.items():
        if Path(name).match(pattern):
            return found
    return Goal()


@pytest.fixture(autouse=True)
def _samples() -> None:
    if not sample_files():
        pytest.skip(f"{SAMPLES} has no files")


@pytest.mark.parametrize(
    ("rounding", "goals"),
    [
        pytest.param(SILICON, _GOALS_OF_SILICON_S_ROUNDING, id="silicon"),
        pytest.param(SIMULATOR, _GOALS_OF_THE_SIMULATOR_S_ROUNDING, id="simulator"),
    ],
)
def test_what_runs_is_what_the_simulator_computes(
    rounding: Rounding, goals: Mapping[str, Goal]
) -> None:
    misses = []
    for report in reports(rounding):
        wanted = goal(report.name, goals)
        for number, found in enumerate(report.outputs):
            is_near = (
                found.relative <= wanted.relative
                if found.steps is None
                else found.steps <= wanted.steps and found.equal >= wanted.equal
            )
            if not is_near or found.cosine < wanted.cosine:
                misses.append(f"{report.name} output {number}: {found}, wanted {wanted}")
    assert not misses, "\n".join(misses)


def test_the_page_says_where_each_node_type_runs() -> None:
    """`python -m tests.conformance.rknn_files --table` prints what it should say."""
    assert table_of_page("nodes") == node_table(reports(SILICON))


def test_every_sample_runs() -> None:
    problems = {report.name: report.problem for report in reports(SILICON) if report.problem}
    assert problems == {}


def table_of_page(title: str) -> list[str]:
    found = re.search(f"<!-- {title} -->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL)
    assert found, f"{PAGE} has no table between the comments '{title}' and 'end'"
    return found.group(1).splitlines()
