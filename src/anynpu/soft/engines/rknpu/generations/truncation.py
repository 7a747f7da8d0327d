"""The bits that sums lose before the DPU, in the registers of chips that tell them twice."""

from __future__ import annotations

from ..registers.fields import Field
from ..registers.quantities import Quantity
from ..task_registers import TaskRegisters


def check_told_twice(task: TaskRegisters, again: Field) -> None:
    """Raise `ModelError` where the second field tells another number."""
    if task[again] != task[Quantity.TRUNCATED_BITS]:
        raise task.error(again.register)


def check_told_again(task: TaskRegisters, again: Field) -> None:
    """The same on chips that tell one more of pictures of int8."""
    # RV1103 computes pictures with 0 and 1 exactly: the first is what counts.
    is_more = task[again] == task[Quantity.TRUNCATED_BITS] + 1
    if not (task[Quantity.PICTURE_FORMAT] and is_more):
        check_told_twice(task, again)
