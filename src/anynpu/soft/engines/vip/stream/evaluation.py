"""A stream processor's program on arrays: every node for all elements at once.

Where a program takes what it made a row earlier (a maximum or a sum over channels), it goes row by
row; a row is then a whole plane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..commands.sp import CLAMP_HIGH, CLAMP_LOW, V11, V12
from .arithmetic import Reals, add, multiply, subtract, total
from .flow import Flow, Node, Operand, QueueUse
from .tables import FunctionTable

_NOTHING: Reals = np.empty(0, np.float32)


Queues = MutableMapping[int, Reals]
"""What V11 and V12 hold between commands: a value for each element, or row, in order."""


@dataclass(frozen=True, eq=False)
class Binding:
    """What a command gives a program: registers R3 to R7 and tables, by number."""

    registers: Mapping[int, np.float32]
    tables: Mapping[int, FunctionTable]


def run(
    flow: Flow,
    binding: Binding,
    inputs: Sequence[Reals],
    shape: tuple[int, int],
    queues: Queues,
) -> Reals | None:
    """Apply a program to (rows, elements of one); the output has that shape.

    `inputs` are the operands of that shape, as float32; `queues` change, and hold what a program
    takes: `QueueSizes` has seen to that. None for a program without an output.
    """
    for queue, use in flow.queues.items():
        if use.resets or queue not in queues:
            queues[queue] = _NOTHING
    evaluation = _Evaluation(flow, binding, inputs, shape, queues)
    values = evaluation.values()
    for queue, use in flow.queues.items():
        queues[queue] = _rest(queues[queue], use, values, shape)
    for queue, summand in zip((V11, V12), flow.summands, strict=False):
        sums = total(values[summand], flow.sums_are_maxima)
        queues[queue] = np.concatenate([queues[queue], sums])
    if flow.ending is not None:
        last = evaluation.last(flow.ending.node, is_late=flow.ending.is_late)
        queues[flow.ending.queue] = multiply(last, binding.registers[flow.ending.register])
    return None if flow.output is None else values[flow.output]


def _rest(content: Reals, use: QueueUse, values: Sequence[Reals], shape: tuple[int, int]) -> Reals:
    """What stays in a queue."""
    rows, length = shape
    if use.writer is not None:
        content = np.concatenate([content, values[use.writer].ravel()])
    if not use.is_read:
        return content
    if use.by_row or use.repeats:
        return content[rows if use.by_row else length :]
    return content[(rows - use.skips_row) * length :]


class _Evaluation:
    def __init__(
        self,
        flow: Flow,
        binding: Binding,
        inputs: Sequence[Reals],
        shape: tuple[int, int],
        queues: Queues,
    ) -> None:
        self._flow, self._binding, self._inputs = flow, binding, inputs
        self._rows, self._length = shape
        self._values = [np.empty(shape, np.float32) for _ in flow.nodes]
        self._before = queues
        self._entries = {
            queue: self._taken(queues[queue], use)
            for queue, use in flow.queues.items()
            if use.is_read and (use.by_row or use.writer is None)
        }

    def _taken(self, content: Reals, use: QueueUse) -> Reals:
        """What a queue held before, as the elements take it."""
        shape = self._rows, self._length
        if use.repeats:
            return np.broadcast_to(content[None], shape)
        return np.broadcast_to(content[:, None], shape) if use.by_row else content.reshape(shape)

    def values(self) -> list[Reals]:
        flow = self._flow
        runs_on = any(operand.back for node in flow.nodes for operand in node.operands)
        steps = [(row, row + 1) for row in range(self._rows)] if runs_on else [(0, self._rows)]
        for step in steps:
            for number in flow.order:
                self._values[number][slice(*step)] = self._node(flow.nodes[number], step)
        return self._values

    def last(self, number: int, *, is_late: bool) -> Reals:
        """A node's values of the last row, or of the one behind it."""
        if is_late:
            step = self._rows, self._rows + 1
            values: Reals = np.asarray(self._node(self._flow.nodes[number], step))
        else:
            values = self._values[number][-1:]
        row: Reals = values[0]
        return row

    def _node(self, node: Node, step: tuple[int, int]) -> Reals | np.float32:
        operands = []
        for operand in node.operands:
            value = self._operand(operand, step)
            if value is None:
                assert node.initial is not None, "the flow was checked"
                return node.initial
            operands.append(value)
        return self._result(node, operands)

    def _operand(self, operand: Operand, step: tuple[int, int]) -> Reals | np.float32 | None:
        """An operand's values; None where a queue that is empty would give them."""
        if operand.value is not None:
            return operand.value
        if operand.register is not None:
            return self._binding.registers[operand.register]
        if operand.source is not None:
            return self._inputs[operand.source][slice(*step)]
        return self._made(operand, step)

    def _made(self, operand: Operand, step: tuple[int, int]) -> Reals | np.float32 | None:
        """What another node made, or a queue holds."""
        if operand.node is None:
            assert operand.queue is not None
            return self._entries[operand.queue][slice(*step)]
        first, last = step[0] - operand.back, step[1] - operand.back
        if first >= 0:
            return self._values[operand.node][first:last]
        if operand.queue is None:
            return self._flow.nodes[operand.node].initial
        before = self._before[operand.queue]
        return before[None] if before.size else None

    def _result(self, node: Node, operands: Sequence[Reals | np.float32]) -> Reals | np.float32:
        result: Reals | np.float32
        match node.kind:
            case "clamp":
                registers = self._binding.registers
                limits = registers[CLAMP_LOW], registers[CLAMP_HIGH]
                result = np.clip(multiply(*operands), *limits)
            case "move":
                result = operands[0]
            case "select":
                result = np.where(operands[0] > 0, operands[1], operands[2])
            case "entry" | "fraction" | "difference":
                table = self._binding.tables[node.function]
                looked_up = getattr(table, node.kind)
                result = looked_up(np.asarray(operands[0], np.float32))
            case kind:
                result = _FUNCTIONS[kind](*operands)
        return result


_FUNCTIONS: Mapping[str, Callable[..., Reals]] = {
    "multiply": multiply,
    "add": add,
    "subtract": subtract,
    "absolute": np.abs,
}

__all__ = ["Binding", "Queues", "run"]
