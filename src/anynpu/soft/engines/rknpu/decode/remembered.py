"""Parts of decoding that many tasks share, done once for all of them.

The tasks of one convolution differ in few registers: in addresses, and in heights. What a function
makes of a task follows from the registers that it asks for, so that its result holds for every task
that has the same in these, whatever the others say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from ..task_registers import Asked, TaskRegisters, WatchedRegisters

_MOST_WAYS = 16
"""Sets of registers that a function may ask for and be remembered with."""

Result = TypeVar("Result")

_Results = dict[Hashable, tuple[object, Any]]
"""What a function gave by the registers' values, with the tables that an identity stands for."""


class Remembered:
    """What functions of a task's registers gave for earlier tasks.

    They see nothing else of a task: neither its number nor its node.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Asked, _Results]] = {}

    def of(
        self, decode: Callable[..., Result], task: TaskRegisters, *given: Any, by: Hashable = ()
    ) -> Result:
        """What `decode(task, *given)` returns; of what is `given` that depends on `by` alone."""
        ways = self._known.setdefault((decode, by), {})
        for asked, results in ways.items():
            found = results.get(asked.values(task.state))
            if found is not None:
                result: Result = found[1]
                break
        else:
            watched = WatchedRegisters(task)
            result = decode(watched, *given)
            asked = watched.asked
            if len(ways) < _MOST_WAYS or asked in ways:
                known = ways.setdefault(asked, {})
                known[asked.values(task.state)] = task.state.tables, result
        if isinstance(task, WatchedRegisters):
            task.ask(asked)
        return result
