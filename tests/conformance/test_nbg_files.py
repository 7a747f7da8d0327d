"""Every compiled `.nb` sample against VeriSilicon's emulator of the chip.

A file is refused by the name of an operation, or its outputs are the emulator's bytes.
"""

from __future__ import annotations

import pytest

from .nbg_files import Sample, examine, samples


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
    assert report.equal == 1, str(report)


def test_samples_are_there() -> None:
    if not samples():
        pytest.skip("the samples' folder isn't there")
