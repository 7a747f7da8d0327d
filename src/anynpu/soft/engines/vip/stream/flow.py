"""From a stream processor's loop to what it computes: an element's values, one from another.

The loop is a pipeline: a result can be read three instructions after the one that makes it, so a
round works on several elements at once. How many rounds a value lies behind its element is told by
the constraints that every read makes; they are solved here. What remains is a program without time:
each node has its operands of the same element, or of an earlier one where sums and maxima run on.
A loop whose values don't meet is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..commands.sp import (
    ABSOLUTE,
    CONSTANT_REGISTERS,
    IMMEDIATE,
    MOVE,
    MULTIPLY,
    MULTIPLY_CLAMP,
    SELECT_ADDER,
    SELECT_NEXT,
    STREAM,
    SUBTRACT,
    TWO_INPUTS,
    UNIT,
    V11,
    V12,
    SpInstruction,
    SpProgram,
)
from ..refusal import Unknown

LATENCY = 3
"""Instructions from one that makes a result to the first that can read it."""

_NO_REGISTERS: Mapping[int, np.float32] = MappingProxyType({})

_TABLE_TARGET = 1
"""The register that gets a table's entry."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What a node reads: an input, another node's value, a queue, a register or a number.

    `source` is an input's number. `node` is another node's, of the row `back` rows earlier. With
    `queue` as well it is what that node put into a queue a row ago; the first row takes what the
    queue held before, or, if that is nothing, the node that reads it does nothing there. `queue`
    alone is what the queue held before. `register` is one of those that never change.
    """

    node: int | None = None
    source: int | None = None
    queue: int | None = None
    register: int | None = None
    value: np.float32 | None = None
    back: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A unit's work in an instruction.

    `kind` is `multiply`, `clamp` (a product within limits), `add`, `subtract`, `move`, `absolute`,
    `select` (by the first operand's sign), or of a table, number `function`: `entry`, `fraction` or
    `difference`, all three of the argument. `initial` is what its register holds before the first
    result, None for what was never written.
    """

    kind: str
    operands: tuple[Operand, ...]
    function: int
    initial: np.float32 | None


@dataclass(frozen=True, slots=True)
class QueueUse:
    """What a program does with a queue, V11 or V12.

    `is_read`: every element takes an entry, or every row with `by_row`. `skips_row`: those of the
    first row take none. `writer` is the node that adds entries. `resets`: it begins empty.
    `repeats`: all rows take the same entries.
    """

    is_read: bool
    by_row: bool
    skips_row: bool
    writer: int | None
    resets: bool
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """What goes to a queue at the end: a running maximum, by a register.

    `is_late`: the node has at each row what was made of those before, and goes on for one more.
    """

    queue: int
    node: int
    register: int
    is_late: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """A program without time: nodes in an order in which each finds its operands of the element.

    `output` and `summands` are nodes; the sums of the first go to V11, of the second to V12, and
    are maxima with `sums_are_maxima`.
    """

    nodes: tuple[Node, ...]
    order: tuple[int, ...]
    inputs: int
    output: int | None
    summands: tuple[int, ...]
    sums_are_maxima: bool
    queues: dict[int, QueueUse]
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class _Write:
    """A unit of an instruction, as it stands there."""

    place: int
    kind: str
    sources: tuple[int, ...]
    target: int
    function: int = 0


def _units(place: int, code: SpInstruction) -> Iterator[_Write]:
    if code.MOVER == IMMEDIATE:
        raise Unknown("a constant that the loop sets again and again")
    if code.MULTIPLIER:
        kind = "clamp" if code.MULTIPLIER == MULTIPLY_CLAMP else "multiply"
        sources: tuple[int, ...] = code.MULTIPLIER_A, code.MULTIPLIER_B
        if UNIT in sources:
            kind, sources = _of_table("fraction", sources, kind == "multiply"), ()
        yield _Write(place, kind, sources, code.MULTIPLIER_TARGET)
    if code.ADDER:
        kind = "subtract" if code.ADDER == SUBTRACT else "add"
        sources = code.ADDER_A, code.ADDER_B
        if UNIT in sources:
            kind, sources = _of_table("difference", sources, kind == "subtract"), ()
        yield _Write(place, kind, sources, code.ADDER_TARGET)
    if code.MOVER:
        yield _Write(place, _MOVES[code.MOVER], _moved(code), code.MOVE_TARGET)
    if code.TABLE:
        yield _Write(place, "entry", (code.SELECTOR,), _TABLE_TARGET, code.TABLE)


_MOVES = {MOVE: "move", ABSOLUTE: "absolute", SELECT_NEXT: "select", SELECT_ADDER: "select"}


def _moved(code: SpInstruction) -> tuple[int, ...]:
    if code.MOVER == SELECT_NEXT:
        return code.SELECTOR, code.MOVE_SOURCE, code.MOVE_SOURCE + 1
    if code.MOVER == SELECT_ADDER:
        return code.SELECTOR, code.MOVE_SOURCE, code.ADDER_A
    return (code.MOVE_SOURCE,)


def _of_table(kind: str, sources: tuple[int, ...], is_plain: bool) -> str:
    """A unit whose operands a table gives takes nothing else."""
    if sources != (UNIT, UNIT) or not is_plain:
        raise Unknown("a result of a table, and something else, as operands of one unit")
    return kind


def _selects_with_table(code: SpInstruction) -> bool:
    return bool(code.TABLE) and code.MOVER in (SELECT_NEXT, SELECT_ADDER)


class _Lags:
    """How many rounds behind its element each value is: a union of sets with distances."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))
        self._distances = [0] * count

    def find(self, item: int) -> tuple[int, int]:
        """The set's first member, and how far the item lies behind that."""
        distance = 0
        while self._parents[item] != item:
            distance += self._distances[item]
            item = self._parents[item]
        return item, distance

    def join(self, item: int, other: int, distance: int) -> bool:
        """Let `item` lie `distance` rounds behind `other`; False if that can't be."""
        root, own = self.find(item)
        other_root, base = self.find(other)
        if root == other_root:
            return own == base + distance
        self._parents[root] = other_root
        self._distances[root] = base + distance - own
        return True


_OF_TABLE = ("fraction", "difference")


def flow_of(
    program: SpProgram, vectors: int, registers: Mapping[int, np.float32] = _NO_REGISTERS
) -> Flow:
    """What a program computes on rows of a given number of vectors of the unit's lanes.

    `registers` are what the command puts into R3 to R7 before the program begins.
    Raises `Unknown` for a program that isn't understood.
    """
    return _Analysis(program, vectors, registers).flow()


class _Analysis:
    def __init__(
        self, program: SpProgram, vectors: int, registers: Mapping[int, np.float32]
    ) -> None:
        self._header = header = program.header
        self._vectors = vectors
        self._registers = registers
        self._period = len(program.loop)
        self._complete = program.complete
        if any(_selects_with_table(code) for code in (*program.init, *program.loop)):
            raise Unknown("an instruction that selects and reads a table")
        self._initial = _initial_values(program.init)
        self._loads = _loads(program.init)
        self._writes = [
            write for place, code in enumerate(program.loop) for write in _units(place, code)
        ]
        for number, write in enumerate(self._writes):
            if any(_same(write, other) for other in self._writes[:number]):
                raise Unknown(f"two results of an instruction for register {write.target}")
        self._input_places = sorted({w.place for w in self._writes if STREAM in w.sources})
        self._inputs = min(len(self._input_places), 2 if header.INPUT_SETUP == TWO_INPUTS else 1)
        self._reads = {
            queue: sorted({w.place for w in self._writes if queue in w.sources})
            for queue in (V11, V12)
        }
        self._elements = self._elements_of_round()
        # Behind the results: the element itself, and what is taken from each queue.
        self._element = len(self._writes)
        self._queues = {V11: self._element + 1, V12: self._element + 2}
        self._lags = _Lags(self._element + 3)

    def _elements_of_round(self) -> int:
        """How many elements a round takes up: a loop may be written out more than once."""
        if self._inputs:
            count, rest = divmod(len(self._input_places), self._inputs)
        else:
            count, rest = 1, 0
        for queue, places in self._reads.items():
            if places and len(places) != count:
                raise Unknown(f"a round that takes {len(places)} entries of register {queue}")
        if rest:
            raise Unknown(f"{len(self._input_places)} elements of two inputs in a round")
        return count

    def flow(self) -> Flow:
        ends = self._ends()
        self._meet()
        uses = {queue: self._use(queue, ends.get(queue)) for queue in (V11, V12)}
        nodes = tuple(self._node(n, write, uses) for n, write in enumerate(self._writes))
        _check_initial(nodes, uses)
        outputs = ends.get(STREAM)
        summands = self._summands(outputs, ends.get(UNIT))
        for found in ends.values():
            for number in found[self._step(found) :]:
                same = found[found.index(number) % self._step(found)]
                if not _do_the_same(nodes, same, number, set()):
                    raise Unknown("a round that does different things to its elements")
        return Flow(
            nodes=nodes,
            order=_order(nodes),
            inputs=self._inputs,
            output=outputs[0] if outputs else None,
            summands=summands,
            sums_are_maxima=bool(self._header.SUM_IS_MAXIMUM),
            queues=uses,
            ending=self._ending(nodes, uses),
        )

    def _ending(self, nodes: tuple[Node, ...], uses: dict[int, QueueUse]) -> Ending | None:
        """What instructions behind the loop put into a queue: a register for each vector."""
        if not self._complete:
            return None
        endings = [self._ending_of(nodes, *numbered) for numbered in enumerate(self._complete)]
        first = endings[0]
        queue = uses[first.queue]
        is_alone = queue.resets and queue.writer is None and not queue.is_read
        if not len(endings) == self._elements == self._vectors or not is_alone:
            raise Unknown(f"{len(endings)} instructions behind a loop of {self._elements} vectors")
        kept = first.queue, first.register, _maximum(nodes, first.node).of
        for other in endings[1:]:
            if kept != (other.queue, other.register, _maximum(nodes, other.node).of):
                raise Unknown("instructions behind a loop that do different things")
        return first

    def _ending_of(self, nodes: tuple[Node, ...], place: int, code: SpInstruction) -> Ending:
        others = code.ADDER, code.MOVER, code.TABLE, code.words[1]
        queue, register = code.MULTIPLIER_TARGET, code.MULTIPLIER_A
        if code.MULTIPLIER != MULTIPLY or any(others) or queue not in (V11, V12):
            raise Unknown("an instruction behind the loop that isn't known")
        found = [n for n, write in enumerate(self._writes) if write.target == code.MULTIPLIER_B]
        if register in self._initial or any(w.target == register for w in self._writes):
            raise Unknown(f"register {register} behind the loop")
        if register not in CONSTANT_REGISTERS or len(found) != 1:
            raise Unknown(f"register {code.MULTIPLIER_B} behind the loop")
        if -self._lag(found[0]) % self._elements != place:
            raise Unknown("a vector's register behind the loop, and another vector's place")
        is_late = _maximum(nodes, found[0]).is_late
        # A round more is begun behind the last one.
        if is_late and self._writes[found[0]].place >= self._header.FLUSH_CYCLES:
            raise Unknown("a maximum that the last row doesn't get into")
        return Ending(queue, found[0], register, is_late)

    def _step(self, ends: list[int]) -> int:
        """How many of a round's results each element has."""
        return max(1, len(ends) // self._elements)

    def _summands(self, outputs: list[int] | None, found: list[int] | None) -> tuple[int, ...]:
        header = self._header
        if not header.SUM_CONTROL:
            if found:
                raise Unknown("a program that adds up, and a header that doesn't")
            return ()
        if not (header.SUM_RESET and header.SUM_STORAGE):
            raise Unknown("sums that go on from another command's")
        if not header.SUMS_OF_UNIT:
            found = outputs
            if found and self._lag(found[0]) != header.IGNORED_SUMMANDS:
                raise Unknown(f"{header.IGNORED_SUMMANDS} outputs that aren't added up")
        step = self._step(found or [])
        if not found or step != 1 + header.TWO_SUMS:
            raise Unknown(f"{1 + header.TWO_SUMS} sums of {len(found or [])} results")
        return tuple(found[:step])

    def _ends(self) -> dict[int, list[int]]:
        """Join what leaves the loop with its element; the results by target, in their order."""
        header = self._header
        ignored = {
            STREAM: header.IGNORED_OUTPUTS,
            V11: header.IGNORED_V11_WRITES,
            V12: header.IGNORED_V12_WRITES,
            UNIT: header.IGNORED_SUMMANDS,
        }
        ends = {}
        for target, count in ignored.items():
            found = [n for n, write in enumerate(self._writes) if write.target == target]
            if not found:
                continue
            each, rest = divmod(len(found), self._elements)
            if rest or (each > 1 and target != UNIT) or count % each:
                raise Unknown(f"{len(found)} results of a round for register {target}")
            ends[target] = found
            for position, number in enumerate(found):
                behind = count // each - position // each
                if not self._lags.join(number, self._element, behind):
                    raise Unknown(f"results for register {target} of different elements")
        return ends

    def _meet(self) -> None:
        """Let every value lie as far behind its element as its operands make it."""
        for number, write in enumerate(self._writes):
            if STREAM in write.sources:
                ahead = self._input_places.index(write.place) // self._inputs
                if not self._lags.join(number, self._element, -ahead):
                    raise Unknown("an input that is too late for its output")
            for queue, member in self._queues.items():
                if queue in write.sources:
                    ahead = self._reads[queue].index(write.place)
                    self._lags.join(number, member, -ahead)
        for number, write in enumerate(self._writes):
            for source, rounds in self._sources(write):
                self._lags.join(number, source, rounds * self._elements)
        for member in self._queues.values():
            self._lags.join(member, self._element, 0)
        root = self._lags.find(self._element)[0]
        if any(self._lags.find(number)[0] != root for number in range(len(self._writes))):
            raise Unknown("values that no element has")

    def _sources(self, write: _Write) -> Iterator[tuple[int, int]]:
        """The results that a unit reads, and from how many rounds ago."""
        for register in write.sources:
            if register in (STREAM, V11, V12):
                continue
            found = self._writer(register, write.place)
            if found is not None:
                yield found
        if write.kind in _OF_TABLE:
            yield self._table(write.place)

    def _writer(self, register: int, place: int) -> tuple[int, int] | None:
        """The result that an instruction finds in a register, and from how many rounds ago."""
        found = [
            (self._age(write.place, place), number)
            for number, write in enumerate(self._writes)
            if write.target == register
        ]
        if not found:
            return None
        (rounds, _), number = min(found)
        return number, rounds

    def _table(self, place: int) -> tuple[int, int]:
        found = [
            (self._age(write.place, place), number)
            for number, write in enumerate(self._writes)
            if write.kind == "entry"
        ]
        if not found:
            raise Unknown("a table's result, and no table is read")
        (rounds, _), number = min(found)
        return number, rounds

    def _age(self, written: int, read: int) -> tuple[int, int]:
        """How many rounds ago a result was made that can be read, and its place, latest first."""
        rounds = max(0, -(-(written + LATENCY - read) // self._period))
        return rounds, -written

    def _lag(self, member: int) -> int:
        return self._lags.find(member)[1] - self._lags.find(self._element)[1]

    def _use(self, queue: int, writers: list[int] | None) -> QueueUse:
        header = self._header
        is_v11 = queue == V11
        writer = writers[0] if writers else None
        resets = bool(header.V11_RESET if is_v11 else header.V12_RESET)
        by_row = bool(header.V11_BY_ROW if is_v11 else header.V12_BY_ROW)
        ignored = header.IGNORED_V11_READS if is_v11 else header.IGNORED_V12_READS
        if any(loaded == queue for loaded, _ in self._loads.values()):
            self._check_loads(queue)
            if ignored or resets or by_row or writer is not None or self._reads[queue]:
                raise Unknown(f"register {queue}, which is read in front of the loop and in it")
            return QueueUse(True, False, False, None, False, repeats=True)
        if not self._reads[queue]:
            if ignored:
                raise Unknown(f"register {queue} isn't read, and {ignored} reads of it don't count")
            return QueueUse(False, by_row, False, writer, resets)
        first = ignored - self._lag(self._queues[queue])
        if first not in (0, self._vectors) or (first and (by_row or not resets)):
            raise Unknown(f"the first entry of register {queue} is taken by element {first}")
        if resets and writer is None:
            raise Unknown(f"entries of register {queue}, which is empty")
        return QueueUse(True, by_row, bool(first), writer, resets)

    def _check_loads(self, queue: int) -> None:
        """A row's entries are in as many registers as it has vectors, one for each element."""
        count = sum(other == queue for other, _ in self._loads.values())
        if count < len(self._loads) and self._vectors > 1:
            raise Unknown("registers that are loaded from two queues")
        if not count == self._elements == self._vectors:
            raise Unknown(
                f"{count} loaded registers, {self._elements} elements of a round, "
                f"{self._vectors} vectors of a row"
            )

    def _node(self, number: int, write: _Write, uses: dict[int, QueueUse]) -> Node:
        initial = self._initial.get(write.target, self._registers.get(write.target))
        if sum(write.target == other.target for other in self._writes) > 1:
            initial = None
        if write.kind not in _OF_TABLE:
            operands = [self._operand(number, write, source, uses) for source in write.sources]
            return Node(write.kind, tuple(operands), write.function, initial)
        looked_up, rounds = self._table(write.place)
        if self._from(number, looked_up, rounds).back:
            raise Unknown("a table's result of another element")
        table = self._writes[looked_up]
        argument = self._operand(looked_up, table, table.sources[0], uses)
        return Node(write.kind, (argument,), table.function, initial)

    def _operand(
        self, number: int, write: _Write, register: int, uses: dict[int, QueueUse]
    ) -> Operand:
        if register == STREAM:
            return Operand(source=self._input_places.index(write.place) % self._inputs)
        if register in (V11, V12):
            return self._entry(register, uses[register])
        found = self._writer(register, write.place)
        if found is not None:
            return self._from(number, *found)
        if register in self._initial:
            return Operand(value=self._initial[register])
        if register in self._loads:
            queue, place = self._loads[register]
            # With one vector a row, there is no other element that it could be of.
            if self._vectors > 1 and (
                STREAM not in write.sources or self._input_places.index(write.place) != place
            ):
                raise Unknown(f"register {register} of another element")
            return Operand(queue=queue)
        if register not in CONSTANT_REGISTERS:
            raise Unknown(f"register {register}, which the program doesn't set")
        return Operand(register=register)

    def _entry(self, queue: int, use: QueueUse) -> Operand:
        if use.writer is None or use.by_row:
            return Operand(queue=queue)
        if use.resets and not use.skips_row:
            return Operand(node=use.writer)
        return Operand(node=use.writer, queue=queue, back=1)

    def _from(self, number: int, source: int, rounds: int) -> Operand:
        back = rounds * self._elements + self._lag(source) - self._lag(number)
        if back < 0:
            raise Unknown("a value of an element that is yet to come")
        rows, rest = divmod(back, self._vectors)
        if rest:
            raise Unknown(f"a value of {back} elements ago, where a row has {self._vectors}")
        return Operand(node=source, back=rows)


def _same(write: _Write, other: _Write) -> bool:
    is_table = "entry" in (write.kind, other.kind)
    return write.place == other.place and write.target == other.target and not is_table


def _check_initial(nodes: tuple[Node, ...], uses: dict[int, QueueUse]) -> None:
    """Raise `Unknown` where a first row would have what nobody wrote."""
    for node in nodes:
        for operand in node.operands:
            if not operand.back:
                continue
            if operand.queue is None:
                assert operand.node is not None
                missing = nodes[operand.node].initial is None
            else:
                missing = uses[operand.queue].skips_row and node.initial is None
            if missing and not _selects_alike(nodes, node):
                raise Unknown("a first element that finds a register that was never set")


def _selects_alike(nodes: tuple[Node, ...], node: Node) -> bool:
    """Whether a node selects of what is the same before the first row: its own initial value."""
    if node.kind != "select" or node.initial is None:
        return False
    return all(
        operand.node is not None
        and operand.back > 0
        and operand.queue is None
        and nodes[operand.node].initial == node.initial
        for operand in node.operands[1:]
    )


class _Maximum(NamedTuple):
    """A running maximum: of what, and whether a row's own value comes in a row later."""

    of: tuple[Operand, Operand, np.float32 | None]
    is_late: bool


def _maximum(nodes: tuple[Node, ...], number: int) -> _Maximum:
    """What a node is the running maximum of; raises `Unknown` for one that isn't.

    It selects, by the sign of their difference, a product of the input or what it had before.
    """
    node = nodes[number]
    if node.kind == "select" and None not in [o.node for o in node.operands]:
        asked, value, before = node.operands
        assert asked.node is not None
        assert value.node is not None
        difference, product = nodes[asked.node], nodes[value.node]
        is_late = bool(value.back)
        own = Operand(node=number, back=0 if is_late else 1)
        if (
            (difference.kind, product.kind) == ("subtract", "multiply")
            and (asked.back, value.back) == (is_late, is_late)
            and (before.node, before.queue, before.back) == (number, None, 1)
            and difference.operands == (product.operands[0], own)
            and product.operands[0].source is not None
            and product.operands[1].register is not None
            and node.initial == -np.inf == product.initial
        ):
            source, register = product.operands
            return _Maximum((source, register, node.initial), is_late)
    raise Unknown("what is behind a loop, and no maximum of it")


def _do_the_same(nodes: tuple[Node, ...], one: int, other: int, seen: set[tuple[int, int]]) -> bool:
    """Whether two nodes make the same of their elements."""
    if one == other or (one, other) in seen:
        return True
    seen.add((one, other))
    a, b = nodes[one], nodes[other]
    if (a.kind, a.function, len(a.operands)) != (b.kind, b.function, len(b.operands)):
        return False
    if a.initial != b.initial and any(operand.back for operand in a.operands):
        return False
    return all(
        replace(left, node=None) == replace(right, node=None)
        and (left.node is None) == (right.node is None)
        and (
            left.node is None
            or right.node is None
            or _do_the_same(nodes, left.node, right.node, seen)
        )
        for left, right in zip(a.operands, b.operands, strict=True)
    )


def _initial_values(code: tuple[SpInstruction, ...]) -> dict[int, np.float32]:
    """The constants that are set in front of the loop."""
    values: dict[int, np.float32] = {}
    for instruction in code:
        if instruction.MOVER == IMMEDIATE:
            if instruction.MULTIPLIER or instruction.ADDER or instruction.TABLE:
                raise Unknown("an instruction that sets a constant and does something else")
            values[instruction.MOVE_TARGET] = instruction.immediate
        elif any(instruction.words) and not _is_load(instruction):
            raise Unknown("an instruction in front of the loop that sets no register")
    if set(values) & {STREAM, V11, V12, UNIT}:
        raise Unknown("a constant for a register that holds none")
    return values


def _is_load(code: SpInstruction) -> bool:
    """Whether an instruction only moves a queue's next entry to a register."""
    others = code.MULTIPLIER or code.ADDER or code.TABLE or code.words[0]
    return code.MOVER == MOVE and code.MOVE_SOURCE in (V11, V12) and not others


def _loads(code: tuple[SpInstruction, ...]) -> dict[int, tuple[int, int]]:
    """The registers that get a queue's entries in front of the loop: the queue, and which entry."""
    loads = {}
    for number, instruction in enumerate(filter(_is_load, code)):
        if instruction.MOVE_TARGET in (STREAM, V11, V12, UNIT):
            raise Unknown("an entry of a queue moved in front of the loop, to no register")
        loads[instruction.MOVE_TARGET] = instruction.MOVE_SOURCE, number
    return loads


def _order(nodes: tuple[Node, ...]) -> tuple[int, ...]:
    """An order in which operands of the same element come first."""
    order: list[int] = []
    state = [0] * len(nodes)
    for start in range(len(nodes)):
        stack = [(start, False)]
        while stack:
            number, is_done = stack.pop()
            if is_done:
                state[number] = 2
                order.append(number)
                continue
            if state[number]:
                if state[number] == 1:
                    raise Unknown("a value that is made of itself")
                continue
            state[number] = 1
            stack.append((number, True))
            stack += [
                (operand.node, False)
                for operand in nodes[number].operands
                if operand.node is not None and not operand.back and state[operand.node] != 2
            ]
    return tuple(order)


__all__ = ["LATENCY", "Ending", "Flow", "Node", "Operand", "QueueUse", "flow_of"]
