"""A comparison with a number whose sides the toolkit has exchanged.

RK3576 and RV1126B compute Greater on the NPU, which takes the operand for the lesser side. Toolkit
2.5.0 gives it the same commands for `c > x` as for `x > c`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...rknpu.tasks import ElementwiseTask, Features, Operation, Task
from .sentence import mistake
from .subject import Subject


def mistakes(subject: Subject) -> Iterator[str]:
    """The nodes, as sentences."""
    for node, own in subject.of_type("Greater"):
        first = next(iter(subject.inputs(node)), None)
        if first is not None and first.section and any(_compares_with_number(t) for t in own):
            yield mistake(
                node.name,
                "asks whether its second operand is greater than the first, a number",
                "Version 2.5.0 does so for RK3576 and RV1126B: put Less, with the number behind",
            )


def _compares_with_number(task: Task) -> bool:
    if not isinstance(task, ElementwiseTask) or task.dpu.elementwise is None:
        return False
    third = task.dpu.elementwise
    return third.operation is Operation.GREATER and not isinstance(third.operand, Features)
