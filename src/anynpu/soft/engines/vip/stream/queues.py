"""How many values are in the queues from one command to the next, found before anything runs."""

from __future__ import annotations

from ..commands.sp import V11, V12
from ..operation import OperationContext
from ..refusal import Refusal
from ..tasks import Task
from .flow import QueueUse
from .task import StreamTask


class QueueSizes:
    """How many entries queues have, followed from operation to operation.

    That depends on nothing that is computed.
    """

    def __init__(self) -> None:
        self._sizes = {V11: 0, V12: 0}

    def follow(self, task: Task, context: OperationContext) -> None:
        """Raises `Refusal` for an operation that takes what isn't there."""
        if not isinstance(task, StreamTask):
            return
        sizes = self._sizes
        for queue, use in task.flow.queues.items():
            before = 0 if use.resets else sizes[queue]
            expected = _expected(use, task.rows, task.length)
            if expected is not None and before != expected:
                raise Refusal(
                    f"{context.title}: register {queue} holds {before} values, not {expected}"
                )
            sizes[queue] = _after(before, use, task.rows, task.length)
        for queue, _ in zip((V11, V12), task.flow.summands, strict=False):
            sizes[queue] += task.rows
        if task.flow.ending is not None:
            sizes[task.flow.ending.queue] += task.length


def _expected(use: QueueUse, rows: int, length: int) -> int | None:
    """How many entries there have to be before a program; None for one that leaves them alone."""
    if use.resets:
        return 0
    if not use.is_read:
        return None if use.writer is None else 0
    if use.by_row:
        return rows
    return length if use.writer is not None or use.repeats else rows * length


def _after(before: int, use: QueueUse, rows: int, length: int) -> int:
    written = rows * length if use.writer is not None else 0
    taken = 0
    if use.is_read:
        taken = rows if use.by_row else (rows - use.skips_row) * length
        taken = length if use.repeats else taken
    return before + written - taken
