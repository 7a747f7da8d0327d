"""Files changed at random: the reader refuses or reads them, in time and in memory."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterator

import pytest

import anynpu
from anynpu.soft.formats.rknn.reader import read_model
from anynpu.soft.formats.rknn.slots import STANDARD

from ...shared import SAMPLES
from .compiled_file import a_graph, early_file, micro_file, standard_file

_LONGEST_SECONDS = 5.0
_MOST_KILOBYTES = 512 << 10
_LARGEST_SAMPLE = 300_000


def originals() -> list[bytes]:
    """Files of our own, and the smaller samples where there are any."""
    files = sorted(SAMPLES.glob("*/*.rknn"))
    samples = [file.read_bytes() for file in files if file.stat().st_size < _LARGEST_SAMPLE]
    return [standard_file(), micro_file(), early_file(), early_file(1), *samples]


def mutations(count: int, seed: int) -> Iterator[bytes]:
    """Files cut short, or with a few words overwritten, more often near the beginning."""
    generator = random.Random(seed)
    files = originals()
    for number in range(count):
        # Every other one is of our own making, which a damage is more likely to matter to.
        is_own = number % 8 < 4
        data = bytearray(files[number % 4] if is_own else generator.choice(files))
        if generator.random() < 0.15:
            yield bytes(data[: generator.randrange(len(data))])
            continue
        for _ in range(generator.choice((1, 1, 2, 4, 16))):
            width = generator.choice((1, 2, 4, 8))
            start = generator.randrange(min(len(data), generator.choice((160, 6000, len(data)))))
            data[start : start + width] = generator.choice(
                (
                    generator.randbytes(width),
                    b"\xff" * width,
                    bytes(width),
                    generator.randrange(256).to_bytes(width, "little"),
                )
            )
        yield bytes(data)


def check(count: int, seed: int) -> None:
    refused = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in mutations(count, seed):
        start = time.monotonic()
        try:
            read_model(data)
        except anynpu.ModelError:
            refused += 1
        assert time.monotonic() - start < _LONGEST_SECONDS
    assert refused > count // 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < _MOST_KILOBYTES


def test_3000_damaged_files() -> None:
    check(3000, seed=20)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_100000_damaged_files(seed: int) -> None:
    check(10_000, seed)


def test_a_file_that_points_to_one_graph_many_times_is_refused() -> None:
    """Every offset is sound, yet together they would fill the memory."""
    graph = a_graph(STANDARD)
    assert len(read_model(standard_file(graphs=[graph] * 3)).graphs) == 3
    with pytest.raises(anynpu.ModelError, match="repeats parts without end"):
        read_model(standard_file(graphs=[graph] * 500))
