"""What tasks share is decoded once, and is the same as decoded for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.compiled.unroll import unroll
from anynpu.soft.engines.rknpu import prepare
from anynpu.soft.engines.rknpu.decode.remembered import Remembered
from anynpu.soft.engines.rknpu.generations.rk3588.cna import CnaConv3, CnaFeatureAddress, CnaPad0
from anynpu.soft.engines.rknpu.generations.rk3588.generation import Rk3588
from anynpu.soft.engines.rknpu.registers.quantities import Quantity
from anynpu.soft.engines.rknpu.task_registers import TaskRegisters
from anynpu.soft.formats.rknn.model import Relocation
from anynpu.soft.formats.rknn.reader import read_model
from tests.fuzz.compiled_files import files

from .commands import task_of

MASK = 0x0D
PAD_TOP, PAD_LEFT = CnaPad0.PAD_TOP, CnaPad0.PAD_LEFT


def described(value: Any) -> Any:
    """A description with its arrays as bytes, so that two can be compared."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value):
        parts = [getattr(value, part.name) for part in dataclasses.fields(value)]
        return type(value), [described(part) for part in parts]
    return [described(part) for part in value] if isinstance(value, tuple) else value


def decoded(data: bytes) -> Any:
    """All tasks of a file, or why it is refused."""
    model = read_model(data)
    try:
        graph, skipped = unroll(model.graphs[0])
        tasks = prepare(model, graph, skipped=skipped).tasks
    except ModelError as error:
        return str(error)
    return {node: described(items) for node, items in tasks.items()}


def test_files_decode_alike_with_every_task_decoded_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    every = dict(files()[::5])
    together = {name: decoded(data) for name, data in every.items()}

    def alone(_: Remembered, decode: Any, task: Any, *given: Any, by: Any = ()) -> Any:
        return decode(task, *given)

    monkeypatch.setattr(Remembered, "of", alone)
    for name, data in every.items():
        assert decoded(data) == together[name], name


def counted(decode: Callable[[TaskRegisters], Any]) -> tuple[Callable[..., Any], list[int]]:
    """A function, and a list that gets an entry with each call."""
    calls: list[int] = []

    def count(task: TaskRegisters, *given: Any) -> Any:
        calls.append(len(calls))
        return decode(task)

    return count, calls


def task(top: int, left: int = 1, stride: int = 1, addend: int | None = None) -> TaskRegisters:
    words = {
        CnaPad0.number: PAD_TOP.put(top) | PAD_LEFT.put(left),
        CnaConv3.number: CnaConv3.CONV_X_STRIDE.put(stride),
    }
    if addend is None:
        return task_of(Rk3588(), words, MASK)
    number = CnaFeatureAddress.number
    return task_of(Rk3588(), {**words, number: 0}, MASK, {number: Relocation("x", addend)})


def test_bits_that_nobody_asked_for_make_no_difference() -> None:
    decode, calls = counted(lambda task: task[Quantity.PAD_LEFT])
    remembered = Remembered()
    assert [remembered.of(decode, task(top, left)) for top, left in ((0, 3), (5, 3), (5, 4))] == [
        3,
        3,
        4,
    ]
    assert len(calls) == 2


def test_what_is_asked_decides_in_either_order() -> None:
    decode, calls = counted(
        lambda task: task[Quantity.PAD_LEFT] if task[Quantity.PAD_TOP] else task[Quantity.STRIDE_X]
    )
    remembered = Remembered()
    for _ in range(2):
        assert remembered.of(decode, task(0, left=3, stride=2)) == 2
        assert remembered.of(decode, task(1, left=3, stride=2)) == 3
        assert remembered.of(decode, task(0, left=4, stride=3)) == 3
        assert remembered.of(decode, task(1, left=4, stride=3)) == 4
    assert len(calls) == 4


def test_an_address_is_asked_for_with_its_buffer() -> None:
    decode, calls = counted(lambda task: task.address(Quantity.FEATURES).offset)
    remembered = Remembered()
    assert [remembered.of(decode, task(0, addend=addend)) for addend in (0, 64, 0)] == [0, 64, 0]
    assert len(calls) == 2


def test_what_an_inner_function_asked_for_counts_for_the_outer_one() -> None:
    remembered = Remembered()
    inner, inner_calls = counted(lambda task: task[Quantity.PAD_TOP])
    outer, outer_calls = counted(lambda task: remembered.of(inner, task) * 10)
    assert remembered.of(inner, task(2)) == 2
    assert [remembered.of(outer, task(top)) for top in (2, 3, 2, 3)] == [20, 30, 20, 30]
    assert (len(inner_calls), len(outer_calls)) == (2, 2)


def test_what_is_given_besides_tells_results_apart() -> None:
    remembered = Remembered()

    def scaled(task: TaskRegisters, factor: int) -> int:
        return task[Quantity.PAD_LEFT] * factor

    results = [remembered.of(scaled, task(0, 3), factor, by=factor) for factor in (1, 2, 1)]
    assert results == [3, 6, 3]


def test_an_error_is_raised_each_time() -> None:
    remembered = Remembered()

    def refuse(task: TaskRegisters) -> int:
        raise task.error(Quantity.PAD_LEFT, "never")

    for _ in range(2):
        with pytest.raises(ModelError, match="never"):
            remembered.of(refuse, task(0))
