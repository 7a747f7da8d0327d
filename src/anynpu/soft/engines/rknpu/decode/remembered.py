"""Parts of decoding that many tasks share, done once for all of them.

The tasks of one convolution differ in few registers: in addresses, and in heights. What a function
makes of a task follows from the registers that it asks for, so that its result holds for every task
that has the same in these, whatever the others say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from ..command_stream import TaskState
from ..task_registers import Asked, TaskRegisters, WatchedRegisters

_MOST_WAYS = 16
"""Sets of registers that a function may ask for and be remembered with."""

Result = TypeVar("Result")

_Found = tuple[object, Any]
"""What a function gave, with the tables that an identity stands for."""


class Remembered:
    """What functions of a task's registers gave for earlier tasks.

    They see nothing else of a task: neither its number nor its node.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, list[_Way]] = {}

    def of(
        self, decode: Callable[..., Result], task: TaskRegisters, *given: Any, by: Hashable = ()
    ) -> Result:
        """What `decode(task, *given)` returns; of what is `given` that depends on `by` alone."""
        ways = self._known.setdefault((decode, by), [])
        for number, way in enumerate(ways):
            found = way.find(task.state)
            if found is not None:
                asked = way.asked
                if number:
                    # The next task is likely to be one of the same convolution.
                    ways.insert(0, ways.pop(number))
                break
        else:
            watched = WatchedRegisters(task)
            found = task.state.tables, decode(watched, *given)
            asked = watched.asked
            self._keep(ways, asked, task.state, found)
        if isinstance(task, WatchedRegisters):
            task.ask(asked)
        result: Result = found[1]
        return result

    def _keep(self, ways: list[_Way], asked: Asked, state: TaskState, found: _Found) -> None:
        way = next((way for way in ways if way.asked == asked), None)
        if way is None:
            if len(ways) == _MOST_WAYS:
                return
            way = _Way(asked)
            ways.insert(0, way)
        way.keep(state, found)


class _Way:
    """What a function gave that asked for one set of registers, by their values."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._results: dict[Hashable, _Found] = {}

    def find(self, state: TaskState) -> _Found | None:
        """What it gave for registers as these."""
        return self._results.get(self.asked.values(state))

    def keep(self, state: TaskState, found: _Found) -> None:
        """Remember what it gave."""
        self._results[self.asked.values(state)] = found
