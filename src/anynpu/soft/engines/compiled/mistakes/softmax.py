"""What the toolkit is known to have compiled wrongly of softmax for RV1103 and RV1106.

The sums of e^x are convolutions, one for each row, and of more than 2,048 columns several that add
to what the one before has written. A copy puts the sums side by side, and the last task divides by
what it has written. Toolkits 2.3.2 and 2.5.0 let all rows add to the first one's sum, and leave
that copy out where there are two to seven rows. Boards divide by what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...rknpu.layout import written
from ...rknpu.tasks import ConvolutionTask, ElementwiseTask, Features, Operation, PackedWriter, Task
from .sentence import mistake
from .subject import Subject

_SOFTMAX = "exSoftmax13"


def mistakes(subject: Subject) -> Iterator[str]:
    """What is wrong with softmax nodes, as sentences."""
    for node, own in subject.of_type(_SOFTMAX):
        if _adds_to_others(own):
            yield mistake(
                node.name,
                "adds parts of rows to the sum of the first row",
                "Give it one row, or 2,048 columns or fewer",
            )
        if _divides_by_no_sum(own):
            yield mistake(
                node.name,
                "divides by what isn't a sum",
                "Versions 2.3.2 and 2.5.0 do so for two to seven rows: give it one row, or eight "
                "or more",
            )


def _adds_to_others(tasks: Sequence[Task]) -> bool:
    """Whether a sum begins with what lies elsewhere than where it goes."""
    for task in tasks:
        if not isinstance(task, ConvolutionTask) or not isinstance(task.writer, PackedWriter):
            continue
        operand = _operand(task, Operation.ADD)
        if operand is not None and operand.address != task.writer.address:
            return True
    return False


def _divides_by_no_sum(tasks: Sequence[Task]) -> bool:
    """Whether there are sums that tasks pack, and the divisors lie elsewhere."""
    packed = [
        view
        for task in tasks
        if isinstance(getattr(task, "writer", None), PackedWriter)
        for view in written(task).views
    ]
    divisors = [
        operand.address
        for task in tasks
        if isinstance(task, ElementwiseTask)
        and (operand := _operand(task, Operation.DIVIDE)) is not None
    ]
    return bool(packed) and not all(
        any(
            view.address.section == divisor.section
            and view.extent[0] <= divisor.offset < view.extent[1]
            for view in packed
        )
        for divisor in divisors
    )


def _operand(task: ConvolutionTask | ElementwiseTask, operation: Operation) -> Features | None:
    """The operand of an element-wise operation, where it is features."""
    third = task.dpu.elementwise
    is_it = third is not None and third.operation is operation
    operand = third.operand if is_it and third is not None else None
    return operand if isinstance(operand, Features) else None
