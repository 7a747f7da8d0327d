"""Initial states of int8 LSTM that the file doesn't have as the source model.

Constant ones are cut to whole numbers, where they should have been quantised. A cell state goes
into int16 in units of the range that later states had in the calibration; larger ones are cut off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ....formats.rknn.model import ElementType, Node, Tensor
from ...rknpu.elements import Address, Element
from ...rknpu.tasks import ElementwiseTask, Task
from .sentence import mistake
from .subject import Subject

_LEAST, _GREATEST = -128, 127
_LARGEST = 32767
_SCRATCH = ("_exSecondary1", "_exSecondary2")
_FIRST_STATE = 4
"""Operands before it are the sequence, weights and biases."""


def mistakes(subject: Subject) -> Iterator[str]:
    """The nodes, as sentences."""
    for node, own in subject.of_type("exLSTM"):
        for tensor in _states(subject, node):
            task = _conversion(tensor, own)
            if task is None:
                continue
            if tensor.section and _is_whole(subject.numbers(tensor), task):
                yield mistake(
                    node.name,
                    "begins with whole numbers in place of its constant initial cell state",
                    "Version 2.5.0 does so in int8, with the hidden state too: make the states "
                    "inputs, or leave out states of zeros",
                )
            elif not tensor.section and _reach(task) > _LARGEST:
                scale = tensor.quantization.scale if tensor.quantization else 0.0
                yield mistake(
                    node.name,
                    f"cuts an initial cell state to {_kept(task) * scale:.3g} and less, the range "
                    "of its later ones in the calibration",
                    "Calibrate with data in which both are alike",
                )


def _states(subject: Subject, node: Node) -> Iterator[Tensor]:
    for tensor in subject.inputs(node)[_FIRST_STATE:]:
        if tensor.element is ElementType.INT8 and not tensor.name.endswith(_SCRATCH):
            yield tensor


def _conversion(tensor: Tensor, tasks: Sequence[Task]) -> ElementwiseTask | None:
    """The task that makes int16 of a state."""
    place = Address(tensor.section, tensor.offset)
    for task in tasks:
        if isinstance(task, ElementwiseTask) and task.source.address == place:
            elements = task.source.element, task.dpu.output.element
            if elements == (Element.INT8, Element.INT16):
                return task
    return None


def _offset(task: ElementwiseTask) -> int:
    stage = task.dpu.bs
    return stage.add if stage is not None and isinstance(stage.add, int) else 0


def _is_whole(numbers: NDArray[np.float64], task: ElementwiseTask) -> bool:
    """Whether a constant isn't 0, and doesn't use int8 to its ends, as what is quantised does."""
    if not numbers.size or not (numbers + _offset(task)).any():
        return False
    return bool(numbers.min() > _LEAST and numbers.max() < _GREATEST)


def _factor(task: ElementwiseTask) -> float:
    """What a step of the state becomes; 0 where another task says it."""
    stage, output = task.dpu.bs, task.dpu.output
    if stage is not None and stage.multiply is not None:
        return 0.0
    return float(abs(output.scale) / 2.0**output.shift)


def _reach(task: ElementwiseTask) -> float:
    ends = np.abs(np.array([_LEAST, _GREATEST]) + _offset(task))
    return float(ends.max() * _factor(task))


def _kept(task: ElementwiseTask) -> float:
    """How many steps of the state are left."""
    return _LARGEST / _factor(task)
