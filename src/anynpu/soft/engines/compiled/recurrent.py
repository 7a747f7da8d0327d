"""What the vendor's runtime moves before and after a recurrent node's tasks.

Where rows are no whole atoms, an LSTM's or GRU's tasks don't read the sequence itself but a copy
of it in scratch memory with rows that are padded to atoms, and after it the initial states, padded
as well; and they write their results to other scratch memory, step after step, direction after
direction, in rows of the same kind. On some chips tasks of the node make the first copy, on others
the compiler leaves it to the runtime; the second is always the runtime's.

Toolkits 2.3.2 and 2.5.0 often let tasks take the initial state from the copy's begin, where the
sequence is. A board computes that as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ...formats.rknn.model import Graph, Node, Tensor, TensorLayout
from ..rknpu.layout import written
from ..rknpu.memory import INTERNAL
from ..rknpu.tasks import ConvolutionTask, Task
from .buffers import TensorBuffer, element_dtype
from .mistakes.sentence import mistake

_RECURRENT = frozenset({"GRU", "LSTM", "exGRU", "exLSTM"})
_STAGED_INPUT, _STAGED_OUTPUT = "_exSecondary1", "_exSecondary2"
_RECURRENCE = 2
"""The operand with the weights that states are multiplied by."""

_INITIAL_STATE = 5
"""The operand of which the shape is (directions, batch, hidden size)."""
_STATE_AXES = 3
_GRU = "exGRU"
_SMALL_ATOM = 8
"""RK3566's and RK3568's."""

_BIASES_TOGETHER = 8
_REMEDY = (
    "leave a state of zeros out of the source model, or pad the input's last axis, and the weights "
    "with zeros"
)

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


def stagings_of(
    graph: Graph, nodes: Iterable[Node], atom: int, tasks: Mapping[int, Sequence[Task]]
) -> dict[int, Staging]:
    """The copies that nodes need, by their indices; raises `ModelError` for what isn't known.

    `atom` is the chip's, in bytes; `tasks` are each node's.
    """
    recurrent = [node for node in nodes if node.op_type in _RECURRENT]
    found = {
        node.index: _staging_of(graph, node, atom, tasks.get(node.index, ())) for node in recurrent
    }
    return {index: staging for index, staging in found.items() if staging is not None}


def mistakes(
    graph: Graph, nodes: Iterable[Node], atom: int, tasks: Mapping[int, Sequence[Task]]
) -> Iterator[str]:
    """What the toolkit is known to have compiled wrongly of recurrent nodes, as sentences."""
    for node in nodes:
        if node.op_type not in _RECURRENT:
            continue
        if _takes_sequence_for_state(graph, node, atom):
            yield mistake(
                node.name,
                "begins with values of its input in place of its initial state",
                "Versions 2.3.2 and 2.5.0 do so where an initial state is given and the input's "
                f"rows are no multiple of {atom} bytes: {_REMEDY}",
            )
        if _shifts_biases(graph, node, atom):
            yield mistake(
                node.name,
                "adds biases of other units from its second gate on",
                "Versions 2.3.2 and 2.5.0 do so where a GRU's hidden size is no multiple of "
                f"{_BIASES_TOGETHER}: pad it with units whose weights are zero",
            )
        if _leaves_out_samples(graph, node, tasks.get(node.index, ())):
            yield mistake(
                node.name,
                "has several samples, of which its tasks compute one",
                "Compile it for one sample",
            )


def _shifts_biases(graph: Graph, node: Node, atom: int) -> bool:
    """Whether biases fill up groups where sums don't: a GRU's on RK3566 and RK3568."""
    operands = [graph.tensors[index] for index in node.inputs if index >= 0]
    if node.op_type != _GRU or atom != _SMALL_ATOM or len(operands) <= _INITIAL_STATE:
        return False
    state = operands[_INITIAL_STATE].shape
    return len(state) == _STATE_AXES and bool(state[-1] % _BIASES_TOGETHER)


def _leaves_out_samples(graph: Graph, node: Node, tasks: Sequence[Task]) -> bool:
    """Whether what states are multiplied by is multiplied by fewer rows than there are samples."""
    operands = [graph.tensors[index] for index in node.inputs if index >= 0]
    if len(operands) <= _INITIAL_STATE or len(operands[_INITIAL_STATE].shape) != _STATE_AXES:
        return False
    weights, samples = operands[_RECURRENCE], operands[_INITIAL_STATE].shape[1]
    found = [
        task.convolution.source
        for task in tasks
        if isinstance(task, ConvolutionTask)
        and task.convolution.weights.address.section == weights.section
        and 0 <= task.convolution.weights.address.offset - weights.offset < weights.size
    ]
    return any(source.height * source.width < samples for source in found)


def _takes_sequence_for_state(graph: Graph, node: Node, atom: int) -> bool:
    operands = [graph.tensors[index] for index in node.inputs if index >= 0]
    staged = [tensor for tensor in operands if tensor.name.endswith(_STAGED_INPUT)]
    if not staged or len(operands) <= _RECURRENCE:
        return False
    weights, end = operands[_RECURRENCE].name, _padded_bytes(operands[0], atom)
    return any(
        weights in buffers and buffers.get(staged[0].name, end) < end
        for buffers in _buffers_of_tasks(graph, node.index)
    )


def _buffers_of_tasks(graph: Graph, node: int) -> Iterator[dict[str, int]]:
    """For each task of a node the buffers that its commands point to, and how far into them."""
    for task in graph.tasks_for(1):
        if task.node == node:
            words = range(task.first_command, task.first_command + task.commands)
            found = (graph.relocations[word] for word in words if word in graph.relocations)
            yield {relocation.buffer: relocation.addend for relocation in found}


def _staging_of(graph: Graph, node: Node, atom: int, tasks: Sequence[Task]) -> Staging | None:
    operands = [graph.tensors[index] for index in node.inputs if index >= 0]
    used = {name for buffers in _buffers_of_tasks(graph, node.index) for name in buffers}
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
    if _STAGED_INPUT in staged:
        if _is_written(staged[_STAGED_INPUT], tasks):
            del staged[_STAGED_INPUT]
    elif sequence.name in used and _is_padded_in_place(sequence, atom):
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


def _is_written(tensor: Tensor, tasks: Sequence[Task]) -> bool:
    """Whether tasks themselves put something into a tensor in internal memory."""
    return any(
        view.address.section == INTERNAL
        and tensor.offset <= view.address.offset < tensor.offset + tensor.size
        for task in tasks
        for view in written(task).views
    )


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
    """Refuse a copy of the sequence and of states: where its tasks find these is not known."""
    needed = _padded_bytes(sequence, atom)
    if staged.size != needed:
        raise ModelError(
            f"node {node.name!r}: its tasks take their input of {sequence.shape[-1]} elements a "
            f"row and the initial states from {staged.name!r} ({staged.size} bytes, {needed} for "
            "the input), which the board's runtime fills in a way that is not known. Toolkits 2.3.2"
            " and 2.5.0 compile it so where an initial state is given and rows are no multiple of "
            f"{atom} bytes: {_REMEDY}"
        )
