"""A stream processor's program: three header words and instructions, each of 64 bits.

An instruction drives a multiplier, an adder, a table and a mover at once. Names of units and
registers are those of the open ovxlib (`vx_spinst.h`, MIT); where the bits lie was read off
programs whose kernels are open, and checked by executing them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..refusal import Unknown
from .fields import Command, bits, inert
from .nn import NnCommand

STREAM, CLAMP_HIGH, CLAMP_LOW, V11, V12, UNIT = 0, 6, 7, 11, 12, 15
"""Registers: the input or output, the clamp's limits, two queues, the table's or accumulator's."""

CONSTANT_REGISTERS = (3, 4, 5, CLAMP_HIGH, CLAMP_LOW)
"""Those that a command sets: two multipliers, an addend, the clamp's limits."""

TWO_INPUTS, FROM_V11, FROM_V12 = 1, 2, 3
"""Where elements come from; otherwise from one input."""

HALF_AWAY, HALF_TO_EVEN = 0, 1
"""How results become whole numbers."""

NONE, MULTIPLY, MULTIPLY_CLAMP = 0, 1, 2
ADD, SUBTRACT = 1, 2
LOADED_TABLE, SIGMOID, TANH = 1, 2, 3
MOVE, SELECT_NEXT, SELECT_ADDER, IMMEDIATE, ABSOLUTE = 1, 2, 3, 4, 5


class SpCommand(NnCommand, length=48):
    """The NN core's command of an operation whose sums, or values, go through a program."""

    FLOAT_OUTPUT = bits(20, 26)
    ADDITION = bits(20, 27)
    LEAKY = bits(20, 28)
    MULTIPLICATION = bits(20, 29)
    RELU = bits(2, 24, only=(0,))
    ROUNDING_MODE = bits(4, 14, 15, only=(HALF_AWAY, HALF_TO_EVEN))
    POOLING = bits(0, 27, 28, only=(0,))
    SCHEDULE_HIGH = inert(27, 20, 27)
    NEGATIVE_SCALE = bits(27, 28)
    NEGATIVE_SECOND_SCALE = bits(27, 29)
    TWO_INPUTS = bits(28, 27)
    ROWS_ARE_LINES = bits(28, 28)
    DEPTH_TO_SPACE = bits(28, 29, only=(0,))
    SECOND_CIRCLE_END = inert(35, 0, 27)
    SECOND_TYPE = bits(35, 28, 31)
    ADDEND = inert(36, 0, 13)


class SpHeader(Command, length=6):
    """How a program runs: words in pairs, the low one first.

    `IGNORED_...` count what a pipeline's first rounds make, or take, before anything has got there.
    """

    INIT_INSTRUCTIONS = bits(0, 0, 15)
    LOOP_INSTRUCTIONS = bits(0, 16, 31)
    COMPLETE_INSTRUCTIONS = bits(1, 0, 15)
    INPUT_SETUP = bits(1, 17, 18)
    IGNORED_OUTPUTS = bits(2, 0, 7)
    FLUSH_CYCLES = bits(2, 8, 15)
    IGNORED_V11_WRITES = bits(2, 16, 23)
    IGNORED_V12_WRITES = bits(2, 24, 31)
    IGNORED_V11_READS = bits(3, 0, 7)
    IGNORED_V12_READS = bits(3, 8, 15)
    V11_READS_IN_FLUSH = bits(3, 16, 23)
    V12_READS_IN_FLUSH = bits(3, 24, 31)
    V11_GATHERS = bits(4, 0, 1, only=(0, 2))
    V12_GATHERS = bits(4, 2, 3, only=(0, 2))
    V11_RESET = bits(4, 4)
    V12_RESET = bits(4, 5)
    V11_BY_ROW = bits(4, 6)
    V12_BY_ROW = bits(4, 7)
    SUMS_OF_UNIT = bits(4, 10)
    IGNORED_SUMMANDS = bits(4, 16, 23)
    SUM_RESET = bits(4, 24)
    SUM_CONTROL = bits(4, 25, 26, only=(0, 2))
    TWO_SUMS = bits(4, 27)
    SUM_STORAGE = bits(4, 28)
    SUM_IS_MAXIMUM = bits(4, 29)
    V11_WRITES_IN_FLUSH = bits(5, 16, 23)
    V12_WRITES_IN_FLUSH = bits(5, 24, 31)


class SpInstruction(Command, length=2):
    """One instruction; its units take their operands before any of them gives a result."""

    ADDER_A = bits(0, 0, 3)
    ADDER_B = bits(0, 4, 7)
    ADDER_TARGET = bits(0, 8, 11)
    ADDER = bits(0, 12, 15, only=(NONE, ADD, SUBTRACT))
    MULTIPLIER_A = bits(0, 16, 19)
    MULTIPLIER_B = bits(0, 20, 23)
    MULTIPLIER_TARGET = bits(0, 24, 27)
    MULTIPLIER = bits(0, 28, 31, only=(NONE, MULTIPLY, MULTIPLY_CLAMP))
    SELECTOR = bits(1, 0, 3)
    MOVE_SOURCE = bits(1, 4, 7)
    MOVE_TARGET = bits(1, 8, 11)
    MOVER = bits(1, 12, 15, only=(NONE, MOVE, SELECT_NEXT, SELECT_ADDER, IMMEDIATE, ABSOLUTE))
    TABLE = bits(1, 16, 19, only=(NONE, LOADED_TABLE, SIGMOID, TANH))

    @property
    def immediate(self) -> np.float32:
        """The constant of an instruction that moves one: the other units' operands are its bits."""
        low, high = self.words
        value = (high & 0xFF) << 24 | (low >> 16 & 0xFFF) << 12 | (low & 0xFFF)
        real: np.float32 = np.uint32(value).view(np.float32)
        return real


@dataclass(frozen=True)
class SpProgram:
    """A program: what runs once, what runs for every element, and what runs once at the end."""

    header: SpHeader
    init: tuple[SpInstruction, ...]
    loop: tuple[SpInstruction, ...]
    complete: tuple[SpInstruction, ...] = ()

    @property
    def targets(self) -> frozenset[int]:
        """The registers that the loop's units may write."""
        return frozenset(
            target
            for code in self.loop
            for target in (code.ADDER_TARGET, code.MULTIPLIER_TARGET, code.MOVE_TARGET)
        )


_START, _LOW, _HIGH = 0x396C, 0x3970, 0x3974
"""Registers: where a program begins in the unit's store, and its words' halves."""
_LOAD_STATE = 1

_LONGEST = 128
"""Words of a program; those of the public toolkit have fewer than 32."""


def read_program(state: bytes) -> SpProgram:
    """The program that a list of register loads sends; each of two cores may get it.

    Raises `Unknown` for a list that sends none, and for anything in it without a known meaning.
    """
    return program_of(sent_words(state))


def sent_words(state: bytes) -> tuple[int, ...]:
    """The words of that program, the low one of each pair first; raises `Unknown` likewise."""
    words = np.frombuffer(state[: len(state) // 4 * 4], "<u4").tolist()
    programs: list[list[list[int]]] = []
    position = 0
    while position < len(words):
        command = words[position]
        if command >> 27 != _LOAD_STATE:
            position += 2
            continue
        count, register = command >> 16 & 0x3FF, (command & 0xFFFF) * 4
        values = words[position + 1 : position + 1 + count]
        position += 1 + count + (count + 1) % 2
        if register not in (_START, _LOW, _HIGH):
            continue
        if len(values) != 1:
            raise Unknown(f"{len(values)} words at once of a stream processor's program")
        if register == _START:
            programs.append([[], []])
        elif not programs:
            raise Unknown("a program that begins nowhere")
        else:
            programs[-1][register == _HIGH].append(values[0])
    if not programs:
        raise Unknown("it sends no program to the stream processor")
    low, high = programs[0]
    if any(other != programs[0] for other in programs[1:]):
        raise Unknown("two cores of the stream processor with different programs")
    if len(low) != len(high) or len(low) < 3:
        raise Unknown(f"a program of {len(low)} low and {len(high)} high words")
    if len(low) > _LONGEST:
        raise Unknown(f"a program of {len(low)} words, more than {_LONGEST}")
    return tuple(word for pair in zip(low, high, strict=True) for word in pair)


def program_of(words: Sequence[int]) -> SpProgram:
    """A program from its words; raises `Unknown` for what isn't known of it."""
    pairs = list(zip(words[::2], words[1::2], strict=True))
    header = SpHeader([word for pair in pairs[:3] for word in pair])
    init, loop = header.INIT_INSTRUCTIONS, header.LOOP_INSTRUCTIONS
    complete = header.COMPLETE_INSTRUCTIONS
    if init + loop + complete != len(pairs) - 3 or not loop:
        raise Unknown(
            f"{len(pairs) - 3} instructions, of which {init} run once, {loop} again, "
            f"{complete} at the end"
        )
    code = [SpInstruction(pair) for pair in pairs[3:]]
    return SpProgram(
        header, tuple(code[:init]), tuple(code[init : init + loop]), tuple(code[init + loop :])
    )
