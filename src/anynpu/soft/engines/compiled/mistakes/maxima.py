"""A greatest value over channels that keeps its input's quantisation.

ReduceMax over channels in int8 for RK3576 and RV1126B leaves the numbers as they were, also where
the file says of the output that it has another scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .....tensor import Quantization
from ....formats.rknn.model import ElementType
from ...rknpu.tasks import CopyTask, ElementwiseTask, Task
from .sentence import mistake
from .subject import Subject

_ALIKE = 0.01
"""Scales that differ by less give the same numbers, but for a step at the ends."""


def mistakes(subject: Subject) -> Iterator[str]:
    """The nodes, as sentences."""
    for node, own in subject.of_type("ReduceMax", "ReduceMin"):
        output, before = subject.output(node), subject.quantization(node)
        if output is None or output.element is not ElementType.INT8:
            continue
        after = output.quantization
        if before and after and not _are_alike(before, after) and _keeps_scale(own):
            yield mistake(
                node.name,
                "leaves its values in the quantisation of its input, not in that of its output",
                "Version 2.5.0 does so for RK3576 and RV1126B where the two differ: give it an "
                "input without negative values, such as a Relu's, or float16",
            )


def _are_alike(one: Quantization, other: Quantization) -> bool:
    is_near = abs(one.scale - other.scale) < _ALIKE * other.scale
    return one.zero_point == other.zero_point and is_near


def _keeps_scale(tasks: Sequence[Task]) -> bool:
    """Whether no task multiplies by anything but 1."""
    return all(
        isinstance(task, CopyTask) or (isinstance(task, ElementwiseTask) and _is_one(task))
        for task in tasks
    )


def _is_one(task: ElementwiseTask) -> bool:
    if task.dpu.output.scale != 1 << task.dpu.output.shift:
        return False
    return all(
        stage is None
        or stage.multiply is None
        or (
            isinstance(stage.multiply, int)
            and stage.multiply == 1 << stage.shift_positive == 1 << stage.shift_negative
        )
        for stage in (task.dpu.bs, task.dpu.bn)
    )
