"""Every compiled `.nb` sample against VeriSilicon's emulator of the chip.

A file is refused by the name of an operation, or its outputs are the emulator's bytes. What may
differ has a row, with the reason.
"""

from __future__ import annotations

import fnmatch

import pytest

from .nbg_files import Sample, examine, samples

_MAY_DIFFER = {
    # Fused additions: one in some thousands is a step off, and the layers after it spread that.
    "nbg/v853/yolo.v853": (0.87, 1),
}
"""The least share of equal elements, and the largest difference in steps."""


def goal(name: str) -> tuple[float, float]:
    for pattern, found in _MAY_DIFFER.items():
        if fnmatch.fnmatch(name, pattern):
            return found
    return 1.0, 0.0


@pytest.mark.parametrize(
    "sample",
    [pytest.param(sample, id=sample.name) for sample in samples() if "networks" not in sample.name],
)
def test_a_sample_gives_the_emulator_s_bytes(sample: Sample) -> None:
    report = examine(sample)
    if report.is_refused:
        assert "operation " in report.problem
        pytest.skip(report.problem)
    assert report.runs, report.problem
    least, most = goal(sample.name)
    assert report.equal >= least, str(report)
    assert report.steps <= most, str(report)


def test_samples_are_there() -> None:
    if not samples():
        pytest.skip("the samples' folder isn't there")
