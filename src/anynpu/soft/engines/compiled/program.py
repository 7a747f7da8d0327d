"""Runs compiled `.rknn` files: the NPU's tasks on the emulated NPU, the rest as a CPU would."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ...formats.rknn.model import CompiledModel, Device, Graph, Node, Tensor
from ...formats.rknn.reader import read_model
from ...formats.rknn.weights import fill_weights
from ...mapping import give_back_heap
from ..program import (
    NOT_CUSTOMIZED,
    Customization,
    CustomNode,
    Instance,
    LoweredModel,
    MeasuredLayer,
    Program,
    Refusal,
    Variant,
)
from ..rknpu import Executor, PreparedGraph, count_tasks, prepare
from ..rknpu.generations import GENERATIONS
from ..rknpu.kernels.steps import KernelStep
from ..rknpu.rounding import SILICON, Rounding
from ..rknpu.tasks import Task
from ..source import ModelBytes, shares_files
from ..work import Budget
from . import recurrent
from .board_operators import known, refusals
from .buffers import TensorBuffer, real_values
from .cpu_nodes import Runnable, prepare_cpu_node
from .custom_nodes import bind_call, describe, is_foreign, missing
from .flow import check_flow
from .fusions import fused
from .layers import (
    bytes_moved,
    computing_nodes,
    layers_of,
    onnx_name,
    shapes_of,
)
from .mistakes import Subject, mistakes
from .ports import variant_of
from .recurrent import Staging, stagings_of
from .slices import MovedAtoms
from .unroll import unroll

Step = Callable[[], None]


@dataclass(frozen=True)
class GraphProgram:
    """One graph, decoded: immutable, shared by threads.

    `files` are what its constants lie in. With `is_shared` contexts read their own pages; else
    what contexts read of them is kept in memory.
    """

    graph: Graph
    variant: Variant
    prepared: PreparedGraph
    cpu_nodes: dict[int, Runnable]
    stagings: dict[int, Staging]
    files: tuple[ModelBytes, ...] = ()
    is_shared: bool = False


class CompiledProgram(Program):
    """A compiled file: each graph is decoded when it is first asked for, the first one at once.

    A list of tasks for several cores computes the same bytes as the one for a single core, so that
    one is run whatever the core mask. The NPU's tasks round as boards do, or by another `rounding`.
    Graphs that are asked for later read the file again, and are refused where it was written to
    since. Kernels take the weights of floats from where they lie, so that these parts of a file are
    kept in memory, unless processes shall share its pages (`shares_files`).
    """

    follows_from_one_file = True

    def __init__(
        self,
        data: bytes | ModelBytes,
        weights: Program | None = None,
        rounding: Rounding = SILICON,
    ) -> None:
        file = data if isinstance(data, ModelBytes) else ModelBytes(data)
        partner = weights if isinstance(weights, CompiledProgram) else None
        self._files: tuple[ModelBytes, ...] = (file, *(partner._files if partner else ()))
        self._graphs: dict[int, GraphProgram] = {}
        self._lowered: dict[int, LoweredModel] = {}
        self._lock = threading.Lock()
        self._rounding = rounding
        with self._held():
            self._read(file, partner)
            self.graph(0)

    def _read(self, file: ModelBytes, partner: CompiledProgram | None) -> None:
        self.model: CompiledModel = fill_weights(
            read_model(file.data), partner.model if partner else None
        )
        self.framework = self.model.framework
        self.producer = self.model.compiler
        self.soc = self.model.target
        self.custom_string = self.model.custom_string
        self.batch = self.model.batch
        self._atom = GENERATIONS[self.model.generation].atom
        self._variants = [variant_of(self.model, graph) for graph in self.model.graphs]
        self.input_shapes = tuple(
            tuple(port.shape for port in variant.inputs) for variant in self._variants
        )

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The files in memory; raises `ModelError` where one was written to since."""
        with ExitStack() as stack:
            for file in self._files:
                stack.enter_context(file.held())
            yield
        # Kernels have most weights in an order of their own.
        give_back_heap()

    def _keep(self, prepared: PreparedGraph) -> bool:
        """Keep what contexts read of the files; whether there is something that they share."""
        constants = prepared.constants()
        is_shared = shares_files() and bool(constants)
        for file in self._files:
            file.keep(prepared.copied if is_shared else prepared.copied | constants)
        return is_shared

    def _read_by(self, program: GraphProgram) -> AbstractContextManager[None]:
        """What contexts of a graph read, in memory while they are made."""
        return self._held() if program.is_shared else nullcontext()

    def variant(self, number: int) -> Variant:
        return self._variants[number]

    def lowered(self, number: int) -> LoweredModel:
        with self._lock:
            if number not in self._lowered:
                self._lowered[number] = layers_of(self.model, self.model.graphs[number])
            return self._lowered[number]

    def graph(self, number: int) -> GraphProgram:
        """A graph, decoded; raises `ModelError` for what can't be run."""
        with self._lock:
            if number not in self._graphs:
                with self._held():
                    self._graphs[number] = self._prepare(number)
            return self._graphs[number]

    def custom_nodes(self, number: int, op_types: Collection[str] = ()) -> tuple[CustomNode, ...]:
        graph = self.model.graphs[number]
        return tuple(
            describe(graph, node)
            for node in computing_nodes(graph)
            if node.device is Device.CPU and (node.op_type in op_types or is_foreign(node))
        )

    def refusals(self, number: int) -> tuple[Refusal, ...]:
        return tuple(refusals(self.model, self.model.graphs[number]))

    def mistakes(self, number: int) -> tuple[str, ...]:
        graph = self.model.graphs[number]
        decoded = self._graphs.get(number)
        with self._held():
            return self._mistakes(graph, decoded.prepared.tasks if decoded else {})

    def _mistakes(self, graph: Graph, tasks: Mapping[int, Sequence[Task]]) -> tuple[str, ...]:
        nodes = tuple(computing_nodes(graph))
        return (
            *recurrent.mistakes(graph, nodes, self._atom, tasks),
            *mistakes(Subject(self.model, graph, nodes, tasks)),
        )

    def instance(self, number: int, custom: Customization = NOT_CUSTOMIZED) -> CompiledInstance:
        program = self.graph(number)
        with self._read_by(program):
            return CompiledInstance(program, self.model.batch, custom)

    def profile(self, instance: Instance) -> tuple[MeasuredLayer, ...]:
        assert isinstance(instance, CompiledInstance), "an instance of this program"
        with self._held():
            return instance.timed()

    def _prepare(self, number: int) -> GraphProgram:
        graph = self.model.graphs[number]
        budget = Budget(self.model.batch)
        count_tasks(graph.tasks_for(1), budget)
        unrolled, skipped = unroll(graph)
        prepared = prepare(
            self.model, unrolled, skipped=skipped, rounding=self._rounding, budget=budget
        )
        cpu_nodes: dict[int, Runnable] = {
            node.index: self._cpu_node(graph, node, budget)
            for node in computing_nodes(graph)
            if node.device is Device.CPU
            and not prepared.has_tasks(node.index)
            and not is_foreign(node)
        }
        stagings = stagings_of(graph, computing_nodes(graph), self._atom, prepared.tasks)
        try:
            check_flow(graph, prepared, cpu_nodes, stagings)
        except ModelError as error:
            raise ModelError(
                "; ".join([str(error), *self._mistakes(graph, prepared.tasks)])
            ) from None
        prepared = fused(graph, prepared, stagings)
        return GraphProgram(
            graph,
            self._variants[number],
            prepared,
            cpu_nodes,
            stagings,
            self._files,
            self._keep(prepared),
        )

    def _cpu_node(self, graph: Graph, node: Node, budget: Budget) -> Runnable:
        try:
            return prepare_cpu_node(self.model, graph, node, budget)
        except ModelError as error:
            refusal = known(self.model, node).refusal
            if refusal is None:
                raise
            raise ModelError(
                f"{error}; a board refuses it as well: {refusal.runtime} doesn't compute "
                f"{refusal.op_type} ({refusal.source})"
            ) from None


class CompiledInstance(Instance):
    """A context's internal memory, and views of it bound once.

    A batch that the file asks for runs sample by sample.
    """

    def __init__(
        self,
        program: GraphProgram,
        batch: int,
        custom: Customization = NOT_CUSTOMIZED,
    ) -> None:
        self._program: GraphProgram | None = program
        self._batch, self._custom = batch, custom
        graph = program.graph
        self._memory = memory = np.zeros(program.prepared.memory_bytes, np.uint8)
        executor = program.prepared.executor(memory)
        self._executor: Executor | None = executor
        self._shared_files = program.files if program.is_shared else ()
        self._steps = _bind_steps(program, memory, executor, custom)
        self._calls = _merged(self._steps, executor)
        self._sources = [TensorBuffer(memory, graph.tensors[index]) for index in graph.inputs]
        self._targets = [TensorBuffer(memory, graph.tensors[index]) for index in graph.outputs]
        self.inputs = tuple(np.zeros(p.shape, p.carrier) for p in program.variant.inputs)
        self.outputs = tuple(np.zeros(p.shape, p.carrier) for p in program.variant.outputs)

    def run(self) -> None:
        executor = self._executor
        assert executor is not None, "run after close"
        # A `cancel` that came after the end of the run before is not meant for this one.
        executor.allow()
        for file in self._shared_files:
            file.check()
        for sample in range(self._batch):
            self._load(sample)
            for call in self._calls:
                call()
                if executor.is_cancelled:
                    raise ModelError("the run was cancelled")
            for target, array in zip(self._targets, self.outputs, strict=True):
                target.read(_sample(array, sample, self._batch))

    def cancel(self) -> None:
        executor = self._executor
        if executor is not None:
            executor.cancel()

    def timed(self) -> tuple[MeasuredLayer, ...]:
        """Run the inputs once more, in a memory of its own, and time each node."""
        other, graph = self._copy()
        spent: dict[int, float] = {}
        for sample in range(self._batch):
            other._load(sample)
            for node, calls in other._calls_by_node():
                start = time.perf_counter()
                for call in calls:
                    call()
                spent[node.index] = spent.get(node.index, 0.0) + time.perf_counter() - start
        return tuple(_measured(graph, node, spent[node.index]) for node, _ in other._steps)

    def observed(self) -> Iterator[tuple[Node, Tensor, NDArray[np.float32]]]:
        """Run the first sample once more, in a memory of its own, and show what nodes write.

        A node's tensors come as real values in the model's own order, before the next node runs:
        later ones may use their memory for others.
        """
        other, graph = self._copy()
        other._load(0)
        for node, calls in other._calls_by_node():
            for call in calls:
                call()
            for index in node.outputs:
                if index >= 0:
                    values = real_values(other._memory, graph.tensors[index])
                    yield node, graph.tensors[index], values

    def _copy(self) -> tuple[CompiledInstance, Graph]:
        """An instance with the same inputs, and its graph."""
        program = self._program
        assert program is not None, "copied after close"
        other = CompiledInstance(program, self._batch, self._custom)
        for own, copy in zip(self.inputs, other.inputs, strict=True):
            np.copyto(copy, own)
        return other, program.graph

    def _calls_by_node(self) -> Iterator[tuple[Node, Sequence[Step]]]:
        executor = self._executor
        assert executor is not None, "run after close"
        for node, step in self._steps:
            yield node, list(executor.calls((node.index,))) if step is None else [step]

    def close(self) -> None:
        self._program = self._executor = None
        self._steps, self._calls, self._sources, self._targets = [], [], [], []
        self._custom = NOT_CUSTOMIZED
        self._memory = np.empty(0, np.uint8)
        self.inputs = self.outputs = ()

    def _load(self, sample: int) -> None:
        for source, array in zip(self._sources, self.inputs, strict=True):
            source.write(_sample(array, sample, self._batch))


def _bind_steps(
    program: GraphProgram,
    memory: NDArray[np.uint8],
    executor: Executor,
    custom: Customization,
) -> list[tuple[Node, Step | None]]:
    """What each node does in a memory, in order; nodes that only rename memory do nothing.

    Those with tasks have None: the executor runs them.
    """
    steps: list[tuple[Node, Step | None]] = []
    for node in computing_nodes(program.graph):
        call = custom.calls.get(node.index)
        if call is not None:
            steps.append((node, bind_call(program.graph, node, call, memory)))
        elif node.index in custom.refused:
            steps.append((node, missing(node)))
        elif node.index in program.stagings:
            staging = program.stagings[node.index]
            steps.append((node, _staged(staging, executor.calls((node.index,)), memory)))
        elif program.prepared.has_tasks(node.index):
            steps.append((node, None))
        elif node.index in program.cpu_nodes:
            steps.append((node, program.cpu_nodes[node.index].bind(memory)))
        elif is_foreign(node):
            steps.append((node, missing(node)))
    return steps


def _merged(steps: Sequence[tuple[Node, Step | None]], executor: Executor) -> list[Step]:
    """The steps as few calls: kernels that follow one another are computed together."""
    kernels: list[KernelStep | Step] = []
    for node, step in steps:
        if step is None:
            kernels += executor.steps(node.index)
        elif isinstance(step, MovedAtoms):
            kernels += step.steps
        else:
            kernels.append(step)
    return executor.chained(kernels)


def _staged(staging: Staging, calls: Sequence[Step], memory: NDArray[np.uint8]) -> Step:
    """A node's calls between what `staging` does before and after them."""
    before, after = staging.bind(memory)
    steps = [step for step in (before, *calls, after) if step is not None]

    def run() -> None:
        for step in steps:
            step()

    return run


def _sample(array: NDArray[Any], sample: int, batch: int) -> NDArray[Any]:
    if batch == 1:
        return array
    size = array.shape[0] // batch
    return array[sample * size : (sample + 1) * size]


def _measured(graph: Graph, node: Node, seconds: float) -> MeasuredLayer:
    inputs, output = shapes_of(graph, node)
    read, written = bytes_moved(graph, node)
    first = next((graph.tensors[i] for i in node.inputs if i >= 0), None)
    dtype = first.element.dtype if first is not None else None
    return MeasuredLayer(
        name=onnx_name(node),
        op_type=node.op_type,
        inputs=inputs,
        output=output,
        dtype=dtype.name.lower() if dtype is not None else "int8",
        microseconds=round(seconds * 1e6),
        kilobytes=(read + written) / 1024,
        on_cpu=node.device is Device.CPU,
    )
