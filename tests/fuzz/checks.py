"""What is done with a damaged input: it is refused with `ModelError`, or it runs to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from anynpu.errors import ModelError
from anynpu.soft.engines import Instance, ModelSource, load
from anynpu.soft.engines.compiled import program as compiled_program
from anynpu.soft.engines.compiled.unroll import unroll
from anynpu.soft.engines.rk3588 import PreparedGraph, prepare
from anynpu.soft.formats.rknn.model import CompiledModel
from anynpu.soft.formats.rknn.reader import read_model

REFUSED, RAN = "refused", "ran"


def compiled_file(data: bytes, seed: int = 0) -> str:
    """Load a compiled file and run it, its tasks with kernels and with the reference.

    Raises AssertionError where their bytes differ, and whatever isn't a `ModelError`.
    """
    try:
        with apart():
            program = load(ModelSource.of(data))
            program.lowered(0)
            instance = program.instance(0)
    except ModelError:
        return REFUSED
    rng = np.random.default_rng(seed)
    try:
        run(instance, rng)
    except ModelError:
        pass
    finally:
        instance.close()
    assert isinstance(program, compiled_program.CompiledProgram)
    compare(program.model, rng)
    return RAN


def run(instance: Instance, rng: np.random.Generator) -> None:
    """Run an instance once on noise."""
    for array in instance.inputs:
        raw = array.reshape(-1).view(np.uint8)
        raw[...] = rng.integers(0, 256, raw.size, np.uint8)
    instance.run()


def compare(model: CompiledModel, rng: np.random.Generator) -> None:
    """All of a graph's tasks on noise, with kernels and with the reference: the same bytes."""
    graph, skipped = unroll(model.graphs[0])
    fast = prepare(model, graph, skipped=skipped)
    reference = prepare(model, graph, use_fast=False, skipped=skipped)
    noise = rng.integers(0, 256, fast.memory_bytes, np.uint8)
    found, expected = _final(fast, noise), _final(reference, noise)
    if found is None or expected is None:
        assert found is expected, "what one way refuses, the other one does too"
        return
    np.testing.assert_array_equal(found, expected)


def _final(prepared: PreparedGraph, noise: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    memory = noise.copy()
    executor = prepared.executor(memory)
    try:
        for node in prepared.tasks:
            executor.run_node(node)
    except ModelError:
        return None
    return memory


@contextmanager
def apart() -> Iterator[None]:
    """Data sections in allocations of their own, so that a sanitizer sees where each one ends."""

    def read(data: bytes) -> CompiledModel:
        model = read_model(data)
        sections = tuple(memoryview(bytes(section)) for section in model.sections)
        return replace(model, sections=sections)

    with patch.object(compiled_program, "read_model", read):
        yield
