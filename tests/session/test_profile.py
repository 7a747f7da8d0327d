"""What a profile keeps of the tasks: a histogram of each stage."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anynpu import Profile
from anynpu.native.pump import RequestRecord

MICROSECONDS = st.floats(0.01, 1e8)


def with_runs(times: list[float]) -> Profile:
    profile = Profile()
    for microseconds in times:
        record = RequestRecord()
        record.ends[0] = round(microseconds * 1000)
        profile.add(record, ["rknn_run"])
    return profile


@given(st.lists(MICROSECONDS, min_size=1, max_size=200))
def test_percentiles_are_within_one_per_cent(times: list[float]) -> None:
    profile = with_runs(times)
    (run,) = [stage for stage in profile.stages if stage.name == "run"]
    exact = np.percentile(np.round(np.array(times) * 1000) / 1000, (50, 90, 99), method="higher")
    below = np.percentile(np.round(np.array(times) * 1000) / 1000, (50, 90, 99), method="lower")
    found = np.array([run.p50, run.p90, run.p99])
    assert run.count == len(times)
    assert np.all(found <= exact * 1.011 + 0.001)
    assert np.all(found >= below * 0.989 - 0.001)
    assert np.isclose(run.mean, np.mean(np.round(np.array(times) * 1000) / 1000))
    assert np.isclose(run.maximum, max(round(each * 1000) / 1000 for each in times))


def test_a_long_run_takes_no_more_memory_than_a_short_one() -> None:
    import tracemalloc

    rng = np.random.default_rng(1)
    first = [float(time) for time in rng.uniform(900, 1100, 2000)]
    profile = with_runs(first)
    tracemalloc.start()
    for microseconds in first * 3:
        record = RequestRecord()
        record.ends[0] = round(microseconds * 1000)
        profile.add(record, ["rknn_run"])
    del record
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 4096
    assert {stage.count for stage in profile.stages} == {8000}
