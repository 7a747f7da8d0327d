"""The stream processor's programs by the C kernel: of a convolution's sums, of rows of values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .....native import steps
from .. import structures
from ..commands.sp import CLAMP_HIGH, CLAMP_LOW, V11, V12
from ..memory import MemoryMap
from ..planes import Planes
from ..stream.evaluation import Binding
from ..stream.flow import Flow, Node, Operand, QueueUse
from ..stream.own_tables import OddTable
from ..stream.tables import FunctionTable, PiecewiseTable
from ..stream.task import RealInput, RealOutput, Stored, StreamTask
from ..structures import Form, Origin, TableForm, Unit
from ..tasks import Convolution, Sums
from . import native
from .arguments import Arguments
from .plan import Plan, fits_circle, is_apart, planes_in, units_of

_QUEUES = (V11, V12)
_BLOCK = 512
"""Elements that are computed together, at least, where a row has as many."""
_MOST_ELEMENTS = 1 << 24
"""Of a row: what a thread keeps of it fits its space."""
_MOST_UNITS = 16
"""Units of a program that makes bytes of sums (`STREAM_UNITS` in native/vip_stream.h)."""

_UNITS = {
    "multiply": Unit.UNIT_PRODUCT,
    "clamp": Unit.UNIT_LIMITED_PRODUCT,
    "add": Unit.UNIT_SUM,
    "subtract": Unit.UNIT_DIFFERENCE,
    "absolute": Unit.UNIT_SIZE,
    "select": Unit.UNIT_CHOICE,
    "move": Unit.UNIT_COPY,
    "entry": Unit.UNIT_ENTRY,
    "fraction": Unit.UNIT_FRACTION,
    "difference": Unit.UNIT_STEP,
}
_FORMS: Mapping[Stored, Form] = {
    np.dtype(np.uint8): Form.FORM_BYTES,
    np.dtype(np.float16): Form.FORM_HALVES,
    np.dtype(np.float32): Form.FORM_FLOATS,
}


# ---------------------------------------------------------------------------- queues


class QueuePlace(NamedTuple):
    """Where a queue's values are around an operation: numbers of elements.

    `held` of them, from `head` on, are there before; what is written goes to `tail`, and behind it
    a sum of each row. Nothing is at `end` or beyond.
    """

    head: int
    held: int
    tail: int
    sums: int
    end: int


NO_QUEUES: Mapping[int, QueuePlace] = {queue: QueuePlace(0, 0, 0, 0, 0) for queue in _QUEUES}
"""Those of a program that takes nothing from queues and puts nothing there."""


class QueueWalk:
    """Follows operations: how many values are in a queue depends on nothing that is computed."""

    def __init__(self) -> None:
        self._bounds = dict.fromkeys(_QUEUES, (0, 0))

    def next(self, task: StreamTask) -> Mapping[int, QueuePlace]:
        """The places of the next operation that uses queues, by queue."""
        places = {}
        for queue in _QUEUES:
            use = task.flow.queues[queue]
            head, tail = (0, 0) if use.resets else self._bounds[queue]
            written = task.rows * task.length if use.writer is not None else 0
            end = tail + written + (task.rows if queue in _summed(task.flow) else 0)
            places[queue] = QueuePlace(head, tail - head, tail, tail + written, end)
            head += _taken(use, task)
            self._bounds[queue] = (0, 0) if head == end else (head, end)
        return places


def _summed(flow: Flow) -> tuple[int, ...]:
    """The queues that get sums of rows."""
    return _QUEUES[: len(flow.summands)]


def _taken(use: QueueUse, task: StreamTask) -> int:
    if not use.is_read:
        return 0
    if use.by_row:
        return task.rows
    return task.length if use.repeats else (task.rows - use.skips_row) * task.length


def uses_queues(flow: Flow) -> bool:
    """Whether a program finds or leaves something in a queue."""
    return bool(flow.summands) or any(
        use.is_read or use.writer is not None or use.resets for use in flow.queues.values()
    )


# -------------------------------------------------------------------------- programs


class Program:
    """A flow and what a command gives it, as C has it. Moves are left out where nothing else is."""

    def __init__(self, flow: Flow, binding: Binding, output: RealOutput | None) -> None:
        self._flow, self._binding = flow, binding
        self.rings = _rings(flow)
        kept = [number for number in flow.order if self._needs(number)]
        self._numbers = {number: place for place, number in enumerate(kept)}
        self.units = len(kept)
        self._output = output

    def bind(self, arguments: Arguments) -> int:
        """Where it is among the constants."""
        return arguments.once(self, lambda: self._made(arguments))

    def _made(self, arguments: Arguments) -> int:
        registers, output = self._binding.registers, self._output
        nodes = [self._node(number, arguments) for number in self._numbers]
        made = structures.StreamProgram(
            nodes=arguments.constant_structures(*nodes),
            count=len(nodes),
            low=float(registers[CLAMP_LOW]),
            high=float(registers[CLAMP_HIGH]),
            output=self.result(self._flow.output if output is not None else None),
            zero_point=0 if output is None else output.zero_point,
            halves_go_away=output is not None and output.halves_go_away,
        )
        return arguments.constant_structures(made)

    @property
    def earlier_rows(self) -> int:
        """How many rows back a unit reads at most."""
        return max((o.back for node in self._flow.nodes for o in node.operands), default=0)

    def result(self, node: int | None) -> structures.StreamOperand:
        """What a node makes; of none, nothing."""
        if node is None:
            return structures.StreamOperand(origin=Origin.OF_NOTHING)
        return self._operand(Operand(node=node))

    def _needs(self, number: int) -> bool:
        return number in self.rings or not _is_copy(self._flow.nodes[number])

    def _node(self, number: int, arguments: Arguments) -> structures.StreamNode:
        node = self._flow.nodes[number]
        nothing = structures.StreamOperand(origin=Origin.OF_NOTHING)
        operands = [self._operand(operand) for operand in node.operands]
        operands += [nothing] * (3 - len(operands))
        is_looked_up = node.kind in ("entry", "fraction", "difference")
        return structures.StreamNode(
            unit=_UNITS[node.kind],
            a=operands[0],
            b=operands[1],
            c=operands[2],
            table=self._table(node.function, arguments) if is_looked_up else None,
            initial=float(node.initial) if node.initial is not None else 0.0,
            ring=self.rings.get(number, -1),
        )

    def _table(self, function: int, arguments: Arguments) -> int:
        table = self._binding.tables[function]
        return arguments.once(table, lambda: _table_of(table, arguments))

    def _operand(self, operand: Operand) -> structures.StreamOperand:
        # What a move has is what it moves.
        while operand.node is not None and not operand.back and operand.node not in self._numbers:
            (operand,) = self._flow.nodes[operand.node].operands
        made = structures.StreamOperand(queue=-1, ring=-1)
        if operand.queue is not None:
            made.queue = _QUEUES.index(operand.queue)
        if operand.value is not None:
            made.origin, made.value = Origin.OF_NUMBER, float(operand.value)
        elif operand.register is not None:
            made.origin = Origin.OF_NUMBER
            made.value = float(self._binding.registers[operand.register])
        elif operand.source is not None:
            made.origin, made.number = Origin.OF_INPUT, operand.source
        elif operand.node is None:
            assert operand.queue is not None, "there is nothing else"
            made.origin = _entries(self._flow.queues[operand.queue])
        elif operand.back:
            initial = self._flow.nodes[operand.node].initial
            made.origin, made.back = Origin.OF_EARLIER_ROW, operand.back
            made.ring = self.rings[operand.node]
            made.value = 0.0 if initial is None else float(initial)
        else:
            made.origin, made.number = Origin.OF_UNIT, self._numbers[operand.node]
        return made


def _entries(use: QueueUse) -> Origin:
    """How elements take what a queue held."""
    if use.repeats:
        return Origin.OF_QUEUE_AGAIN
    return Origin.OF_QUEUE_BY_ROW if use.by_row else Origin.OF_QUEUE


def _is_copy(node: Node) -> bool:
    """Whether a node is only another name for its operand, in every row."""
    return node.kind == "move" and not node.operands[0].back


def _rings(flow: Flow) -> dict[int, int]:
    """The nodes that later rows read, each with its place among them."""
    read = {o.node for node in flow.nodes for o in node.operands if o.back and o.node is not None}
    return {number: place for place, number in enumerate(sorted(read))}


def _table_of(table: FunctionTable, arguments: Arguments) -> int:
    """Where a table is as C has it."""
    form = TableForm.TABLE_ANY
    if isinstance(table, OddTable):
        table, form = table.magnitudes, TableForm.TABLE_TANGENT
    assert isinstance(table, PiecewiseTable), "there are no others"
    if table.is_odd:
        form = TableForm.TABLE_ODD
    made = structures.StreamTable(
        values=arguments.constant(table.values),
        form=form,
        is_signed=table.is_signed,
        exponent_bits=table.exponent_bits,
        low=float(table.too_large[0]),
        high=float(table.too_large[1]),
    )
    return arguments.constant_structures(made)


def program_of(task: StreamTask, known: dict[object, Program]) -> Program:
    """A task's program; tiles of a layer share one."""
    flow, binding, output = task.flow, task.binding, task.output
    rounding = None if output is None else (output.zero_point, output.halves_go_away)
    tables = tuple((number, id(table)) for number, table in binding.tables.items())
    key = id(flow), tuple(binding.registers.items()), tables, rounding
    if key not in known:
        known[key] = Program(flow, binding, output)
    return known[key]


def program_of_sums(task: StreamTask, known: dict[object, Program]) -> Program | None:
    """The program that makes bytes of a convolution's sums, one by one; None where it does more."""
    flow, output = task.flow, task.output
    if uses_queues(flow) or output is None or output.dtype != np.uint8 or not _is_sound(task):
        return None
    if len(task.inputs) != 1 or _rings(flow):
        return None
    program = program_of(task, known)
    return program if program.units <= _MOST_UNITS else None


def as_convolution(task: StreamTask) -> Convolution | None:
    """The convolution whose sums a program gets; None where there is none."""
    if len(task.inputs) != 1 or task.output is None:
        return None
    (sums,) = task.inputs
    if not isinstance(sums, Sums) or sums.kernels is None:
        return None
    return Convolution(
        sums=sums,
        target=task.output.target,
        is_signed=False,
        is_half=False,
        table=None,
        scale=1.0,
        negative_scale=None,
        low=-math.inf,
        high=math.inf,
        has_relu=False,
        stride=task.output.stride,
        pooling=None,
        addition=None,
        has_short_sums=False,
        product=None,
        zero_point=0,
    )


# ----------------------------------------------------------------------------- plans


class StreamPlan(Plan):
    """An operation of the stream processor as one call."""

    __slots__ = "_block", "_lines", "_program", "_queues", "_ring_rows", "_task", "_threads"
    kernel = "program"

    def __init__(
        self,
        task: StreamTask,
        program: Program,
        queues: Mapping[int, QueuePlace],
        threads: int,
    ) -> None:
        self._task, self._queues, self._threads = task, queues, threads
        self._program = program
        width = task.shape[2]
        lines = task.length // width
        earlier = self._program.earlier_rows
        self._lines, self._ring_rows = lines, earlier + 1 if earlier else 0
        self._block = min(lines, max(1, _BLOCK // width)) * width
        rows = len(task.flow.summands) + len(self._program.rings) * self._ring_rows
        kept = (2 + self._program.units) * self._block + rows * task.length
        self.scratch = 4 * kept

    def bind(self, arguments: Arguments) -> steps.Entry:
        task, program = self._task, self._program
        _, height, width = task.shape
        inputs = [_input_structure(part, arguments) for part in task.inputs]
        call = structures.Stream(
            program=program.bind(arguments),
            rows=task.rows,
            lines=self._lines,
            height=height,
            width=width,
            inputs=len(inputs),
            queue_0=self._queue(0, arguments),
            queue_1=self._queue(1, arguments),
            has_maxima=task.flow.sums_are_maxima,
            ring_rows=self._ring_rows,
            rings=len(program.rings),
            block=self._block,
        )
        for name, part in zip(("first", "second"), inputs, strict=False):
            setattr(call, name, part)
        if task.output is not None:
            call.target = planes_in(task.output.target, arguments)
            call.form, call.stride = _FORMS[task.output.dtype], task.output.stride
        units = 1 if self._ring_rows else task.rows
        return steps.Entry(
            native.address("anynpu_vip_stream"),
            arguments.put(call),
            units,
            units_of(units, self._threads),
        )

    def _queue(self, number: int, arguments: Arguments) -> structures.StreamQueue:
        queue, flow = _QUEUES[number], self._task.flow
        place = self._queues[queue]
        values = arguments.queue_values(number, place.end)
        summed = _summed(flow)
        return structures.StreamQueue(
            held=values + 4 * place.head if place.held else None,
            written=values + 4 * place.tail,
            writer=self._program.result(flow.queues[queue].writer),
            sums=values + 4 * place.sums,
            summand=self._program.result(flow.summands[number] if queue in summed else None),
        )


def _input_structure(part: Sums | RealInput, arguments: Arguments) -> structures.StreamInput:
    planes = planes_in(part.source, arguments)
    if isinstance(part, RealInput):
        return structures.StreamInput(planes=planes, form=_FORMS[part.dtype], flip=0, addend=0)
    return structures.StreamInput(
        planes=planes,
        form=Form.FORM_BYTES,
        flip=128 if part.is_signed else 0,
        addend=part.bias - 128,
    )


def plan_stream(
    layout: MemoryMap,
    task: StreamTask,
    queues: Mapping[int, QueuePlace],
    threads: int,
    known: dict[object, Program],
) -> StreamPlan | None:
    """A plan for values without a convolution; None where the kernel doesn't do the same."""
    if not _is_sound(task) or task.length > _MOST_ELEMENTS or not is_apart(layout, task):
        return None
    if task.length % task.shape[2] or not all(_is_plain(part, task.shape) for part in task.inputs):
        return None
    if task.output is not None and not (task.output.dtype in _FORMS and _fits(task.output.target)):
        return None
    return StreamPlan(task, program_of(task, known), queues, threads)


def _is_sound(task: StreamTask) -> bool:
    """Whether limits are numbers, in order, and nothing comes behind the loop."""
    registers = task.binding.registers
    return task.flow.ending is None and bool(registers[CLAMP_LOW] <= registers[CLAMP_HIGH])


def _is_plain(part: Sums | RealInput, shape: tuple[int, int, int]) -> bool:
    """Whether an input has a value for each element, where it lies."""
    source = part.source
    if isinstance(part, RealInput) and part.dtype not in _FORMS:
        return False
    if isinstance(part, Sums):
        if part.kernels is not None or part.is_wide or part.top or part.left:
            return False
        if (part.channels, part.height, part.width) != shape:
            return False
    return (source.channels, source.height, source.width) == shape and _fits(source)


def _fits(planes: Planes) -> bool:
    """Whether lines are bytes, or larger values one after another."""
    return fits_circle(planes) and (planes.item == 1 or planes.group == 1)
