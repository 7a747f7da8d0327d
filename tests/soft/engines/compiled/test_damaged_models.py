"""Compiled files changed at random, loaded and run: refused or computed, nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import anynpu
from anynpu.soft.engines import ModelSource, load

from ....shared import SAMPLES

_LARGEST = 60_000


def mutations(count: int, seed: int) -> Iterator[bytes]:
    """Samples of every chip with a few words overwritten, the JSON after the body left alone."""
    generator = random.Random(seed)
    files = sorted(SAMPLES.glob("*/*.rknn"))
    samples = [file.read_bytes() for file in files if file.stat().st_size < _LARGEST]
    if not samples:
        pytest.skip(f"{SAMPLES} has no files")
    for _ in range(count):
        data = bytearray(generator.choice(samples))
        end = 64 + int.from_bytes(data[16:24], "little")
        for _ in range(generator.choice((1, 1, 2, 3))):
            width = generator.choice((1, 2, 4))
            start = generator.randrange(64, min(end, generator.choice((6000, end))) - width)
            words = (generator.randbytes(width), b"\xff" * width, bytes(width))
            data[start : start + width] = generator.choice(words)
        yield bytes(data)


def check(count: int, seed: int) -> None:
    for data in mutations(count, seed):
        try:
            program = load(ModelSource.of(data))
            program.lowered(0)
            instance = program.instance(0)
            instance.run()
            instance.close()
        except anynpu.ModelError:
            continue


def test_150_damaged_models() -> None:
    check(150, seed=5)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
def test_10000_damaged_models(seed: int) -> None:
    check(2000, 100 + seed)
