"""What the vendor's runtime moves before and after a recurrent node's tasks.

Where rows are no whole atoms, an LSTM's or GRU's tasks don't read the sequence itself but a copy
of it in scratch memory with rows that are padded to atoms; and they write their results to other
scratch memory, step after step, direction after direction, in rows of the same kind. The compiler
leaves both copies to the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ...formats.rknn.model import Graph, Node, Tensor, TensorLayout
from .buffers import TensorBuffer, element_dtype

_RECURRENT = frozenset({"GRU", "LSTM", "exGRU", "exLSTM"})
_STAGED_INPUT, _STAGED_OUTPUT = "_exSecondary1", "_exSecondary2"
_INITIAL_STATE = 5
"""The operand of which the shape is (directions, batch, hidden size)."""
_STATE_AXES = 3

Step = Callable[[], None]


@dataclass(frozen=True)
class Staging:
    """The copies around a node's tasks, None where the tasks use the tensors themselves.

    `rows` of the input have its last axis' elements; the output's are (steps, directions, batch)
    of `hidden` elements.
    """

    node: Node
    sequence: Tensor
    staged_input: Tensor | None
    result: Tensor | None
    staged_output: Tensor | None
    directions: int
    batch: int
    hidden: int
    atom: int

    def bind(self, memory: NDArray[np.uint8]) -> tuple[Step | None, Step | None]:
        """What runs before and after the node's tasks in an internal memory."""
        staged, result = self.staged_output, self.result
        before = self._before(memory, self.staged_input) if self.staged_input else None
        after = self._after(memory, staged, result) if staged and result else None
        return before, after

    def _before(self, memory: NDArray[np.uint8], staged: Tensor) -> Step:
        source = TensorBuffer(memory, self.sequence)
        values: NDArray[Any] = np.empty(self.sequence.shape, element_dtype(self.sequence))
        columns = self.sequence.shape[-1]
        rows = self.rows(memory, staged, (math.prod(self.sequence.shape[:-1]),), columns)
        flat = values.reshape(-1, columns)

        def run() -> None:
            source.read(values)
            rows[:, :columns] = flat
            rows[:, columns:] = 0

        return run

    def _after(self, memory: NDArray[np.uint8], staged: Tensor, result: Tensor) -> Step:
        target = TensorBuffer(memory, result)
        rows = self.results(memory, staged)
        # ONNX has (steps, directions, batch, hidden); with three axes, directions lie inside.
        order = (0, 1, 2, 3) if len(result.shape) == 4 else (0, 2, 1, 3)

        def run() -> None:
            target.write(np.ascontiguousarray(rows.transpose(order)).reshape(result.shape))

        return run

    def results(self, memory: NDArray[np.uint8], staged: Tensor) -> NDArray[Any]:
        """Where the tasks leave the results: (steps, directions, batch, hidden), a view."""
        shape = self.sequence.shape[0], self.directions, self.batch
        return self.rows(memory, staged, shape, self.hidden)[..., : self.hidden]

    def rows(
        self, memory: NDArray[np.uint8], staged: Tensor, shape: tuple[int, ...], columns: int
    ) -> NDArray[Any]:
        """Rows in scratch memory, with the elements that pad them."""
        dtype = element_dtype(staged)
        lanes = self.atom // dtype.itemsize
        padded = (*shape, -(-columns // lanes) * lanes)
        if staged.offset + math.prod(padded) * dtype.itemsize > memory.size:
            raise ModelError(
                f"node {self.node.name!r}: the rows {padded} of {staged.name!r} are not in memory"
            )
        rows: NDArray[Any] = np.ndarray(padded, dtype, memory, staged.offset)
        return rows


def stagings_of(graph: Graph, nodes: Iterable[Node], atom: int) -> dict[int, Staging]:
    """The copies that nodes need, by their indices; raises `ModelError` for what isn't known.

    `atom` is the chip's, in bytes.
    """
    recurrent = [node for node in nodes if node.op_type in _RECURRENT]
    used = _buffers_of(graph, {node.index for node in recurrent})
    found = {node.index: _staging_of(graph, node, atom, used[node.index]) for node in recurrent}
    return {index: staging for index, staging in found.items() if staging is not None}


def _staging_of(graph: Graph, node: Node, atom: int, used: set[str]) -> Staging | None:
    operands = [graph.tensors[index] for index in node.inputs if index >= 0]
    staged = {
        suffix: tensor
        for tensor in operands
        for suffix in (_STAGED_INPUT, _STAGED_OUTPUT)
        if tensor.name.endswith(suffix) and tensor.name in used
    }
    if not operands:
        raise ModelError(f"node {node.name!r} has no sequence")
    sequence, result = operands[0], _result_of(graph, node)
    if result is None:
        staged.pop(_STAGED_OUTPUT, None)
    if (
        _STAGED_INPUT not in staged
        and sequence.name in used
        and _is_padded_in_place(sequence, atom)
    ):
        staged[_STAGED_INPUT] = sequence
    if not staged:
        return None
    state = operands[_INITIAL_STATE].shape if len(operands) > _INITIAL_STATE else ()
    if len(state) != _STATE_AXES or 0 in state or not sequence.shape:
        raise ModelError(
            f"node {node.name!r} has a sequence of the shape {sequence.shape} and a state of the "
            f"shape {state}, which is not known"
        )
    directions, batch, _ = state
    # The state may be padded, the result isn't.
    into, out = staged.get(_STAGED_INPUT), staged.get(_STAGED_OUTPUT)
    hidden = 0
    if out is not None and result is not None:
        hidden = result.shape[-1] // (directions if len(result.shape) == 3 else 1)
        _check(node, sequence, result, (directions, batch, hidden))
    if into is not None:
        _check_room(node, sequence, into, atom)
    return Staging(node, sequence, into, result, out, directions, batch, hidden, atom)


def _result_of(graph: Graph, node: Node) -> Tensor | None:
    """The results of all steps; None where only the last state is asked for."""
    if not node.outputs or node.outputs[0] < 0:
        return None
    result = graph.tensors[node.outputs[0]]
    return result if result.shape else None


def _buffers_of(graph: Graph, nodes: Collection[int]) -> dict[int, set[str]]:
    """The names of the buffers that each node's commands point to."""
    used: dict[int, set[str]] = {node: set() for node in nodes}
    for task in graph.tasks_for(1) if used else ():
        if task.node in used:
            for word in range(task.first_command, task.first_command + task.commands):
                if word in graph.relocations:
                    used[task.node].add(graph.relocations[word].buffer)
    return used


def _check(node: Node, sequence: Tensor, result: Tensor, state: tuple[int, int, int]) -> None:
    directions, batch, hidden = state
    is_sequence = len(sequence.shape) == 3 and sequence.shape[1] == batch
    expected = (sequence.shape[0], directions, batch, hidden)
    joined = (sequence.shape[0], batch, directions * hidden)
    if not is_sequence or result.shape not in (expected, joined):
        raise ModelError(
            f"node {node.name!r} makes {result.shape} of {sequence.shape} with the state {state}, "
            "which is not known"
        )


def _padded_bytes(sequence: Tensor, atom: int) -> int:
    row = sequence.shape[-1] * element_dtype(sequence).itemsize
    return math.prod(sequence.shape[:-1]) * -(-row // atom) * atom


def _is_padded_in_place(sequence: Tensor, atom: int) -> bool:
    """Whether tasks take a sequence's own rows for atoms, as in files of toolkit 2.2."""
    if sequence.layout is not TensorLayout.PLAIN or len(sequence.shape) < 2:
        return False
    dense = math.prod(sequence.shape) * element_dtype(sequence).itemsize
    padded = _padded_bytes(sequence, atom)
    if padded == dense:
        return False
    return math.prod(sequence.shape[:-1]) > 1 and sequence.size == padded


def _check_room(node: Node, sequence: Tensor, staged: Tensor, atom: int) -> None:
    """Refuse a copy for more than the sequence: what lies after it there is not known."""
    needed = _padded_bytes(sequence, atom)
    if staged.size != needed:
        raise ModelError(
            f"node {node.name!r}: its tasks read {staged.size} bytes of {staged.name!r}, where "
            f"the sequence alone takes {needed}; what else lies there is not known"
        )
