"""Coefficient streams: examples that were worked out by hand, and C against Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anynpu.soft.engines.vip.coefficients import KernelShape
from anynpu.soft.engines.vip.coefficients.blob import _arrange, arrange_slowly, streams_of
from anynpu.soft.engines.vip.coefficients.stream import Header, decode, decode_slowly
from anynpu.soft.engines.vip.refusal import Unknown

RUNS = bytes([0, 5, 1, 2, 3, 4]) + bytes(12)


def stream(text: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(text), np.uint8)


def test_an_identity_of_four_channels() -> None:
    """Kernel 0 of a 1x1 identity: one kernel, its weights 255 (as -1) and a run of zeros."""
    header = Header(bytes([1, 7, 0, 8, 4, 5, 6, 2]), RUNS, 6, 0)
    values, _ = decode(header, stream("08ff00800000"), 46, 11)
    assert values.tolist() == [1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0]


def test_a_ramp_without_runs() -> None:
    header = Header(bytes([7, 6, 5, 4, 1, 0, 3, 2]), bytes(18), 0, 0)
    values, _ = decode(header, stream("161889fc7b72cf49"), 64, 6)
    assert values.tolist() == [1, 0, 127, -126, -124, -122]


def test_a_16_bit_stream_with_runs() -> None:
    """A 1x1 kernel of four channels, from a compiled file whose weights are known."""
    runs = bytes([3, 1, 0, 1]) + bytes(14)
    header = Header(bytes([1, 6, 5, 0, 7, 8, 4, 2]), runs, 4, 0, is_wide=True)
    values, _ = decode(header, stream("b8ef05285a5be3278c92eb9b48"), 99, 5)
    assert values.tolist() == [1, 6794, 16154, 6497, -25621]


@given(
    lengths=st.lists(st.integers(0, 8), min_size=8, max_size=8),
    run_count=st.sampled_from([0, 3, 6, 18]),
    average=st.integers(0, 255),
    is_wide=st.booleans(),
    content=st.binary(min_size=1, max_size=200),
    wanted=st.integers(0, 400),
)
def test_the_decoder_in_c_gives_what_python_gives(
    lengths: list[int],
    run_count: int,
    average: int,
    is_wide: bool,
    content: bytes,
    wanted: int,
) -> None:
    header = Header(bytes(lengths), RUNS, run_count, average, is_wide)
    data = np.frombuffer(content, np.uint8)
    expected, end = decode_slowly(header, data, 8 * data.size, wanted)
    if expected.size < wanted:
        with pytest.raises(Unknown, match="values"):
            decode(header, data, 8 * data.size, wanted)
        return
    found, found_end = decode(header, data, 8 * data.size, wanted)
    assert found.tolist() == expected[:wanted].tolist()
    assert found_end == end


@given(
    channels=st.integers(1, 70),
    depth=st.integers(1, 5),
    kernel=st.integers(1, 5),
    is_depthwise=st.booleans(),
    per_core=st.integers(1, 9),
    cores=st.sampled_from([3, 6, 8]),
    is_signed=st.booleans(),
    has_scales=st.booleans(),
    is_wide=st.booleans(),
    seed=st.integers(0, 99),
)
def test_kernels_are_cut_in_c_as_in_numpy(
    channels: int,
    depth: int,
    kernel: int,
    is_depthwise: bool,
    per_core: int,
    cores: int,
    is_signed: bool,
    has_scales: bool,
    is_wide: bool,
    seed: int,
) -> None:
    shape = KernelShape(
        channels, depth, kernel, kernel, is_depthwise, per_core, cores, is_signed, 77,
        has_scales and not is_wide, has_negative_scales=False, is_wide=is_wide,
    )  # fmt: skip
    random = np.random.default_rng(seed)
    found = np.zeros((channels, shape.weights), np.int16 if is_wide else np.uint8)
    expected = found.copy()
    zero_points = np.full(channels, 77, np.int32)
    try:
        plans = list(streams_of(shape, min(channels, cores)))
    except Unknown:
        return
    for counts, own in plans:
        blocks = -(-shape.weights // shape.block) * shape.block
        size = int(counts.sum()) * (blocks + shape.has_zero_points)
        values = random.integers(*((-32768, 32768) if is_wide else (-128, 256)), size).astype(
            np.int16
        )
        _arrange(shape, counts, own, values, zero_points.copy(), found)
        arrange_slowly(shape, counts, own, values, zero_points.copy(), expected)
    assert (found == expected).all()
