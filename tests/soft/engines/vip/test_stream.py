"""The stream processor's programs: what their pipelines compute, and which are refused."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anynpu.soft.engines.vip.commands.sp import (
    V11,
    V12,
    SpHeader,
    SpInstruction,
    SpProgram,
    read_program,
)
from anynpu.soft.engines.vip.refusal import Unknown
from anynpu.soft.engines.vip.stream.arithmetic import Reals
from anynpu.soft.engines.vip.stream.evaluation import Binding, Queues, run
from anynpu.soft.engines.vip.stream.flow import flow_of
from anynpu.soft.engines.vip.stream.tables import TABLE_BYTES, read_table

Pair = tuple[int, int]

INF = np.float32(np.inf)


def program(header: Iterable[Pair], init: Iterable[Pair], loop: Iterable[Pair]) -> SpProgram:
    """A program of (high, low) words."""
    return SpProgram(
        SpHeader([word for high, low in header for word in (low, high)]),
        tuple(SpInstruction((low, high)) for high, low in init),
        tuple(SpInstruction((low, high)) for high, low in loop),
    )


ADDITION = program(
    [(0x20000, 0x00020001), (0, 0x603), (0, 0x400)],
    [(0x4580, 0)],
    [(0, 0x21301221), (0, 0x12041025)],
)
"""Two inputs by R3 and R4, added; from the vendor's open kernel of an addition."""

MAXIMA = program(
    [(0, 0x00040004), (0x10, 0x00030602), (0x30000, 0x410)],
    [(0x42FF, 0x08000000), (0x4A00, 0), (0x443F, 0x08000000), (0x49FF, 0x08000000)],
    [(0x2B85, 0x210312AB), (0x1010, 0x2598), (0x2B15, 0x280319AB), (0x1080, 0x2521)],
)
"""The maximum over planes of 256 elements, two elements a round; the input comes out as it is."""

SUMS = program([(0, 0x00010000), (0, 0), (0, 0x15000410)], [], [(0, 0x2F300000)])
FROM_SUMS = program([(0x40000, 0x00010000), (0, 0), (0, 0x400)], [], [(0, 0x103B0000)])
BY_ROW = program([(0, 0x00010000), (0, 0), (0, 0x440)], [], [(0, 0x10B00000)])


def registers(scale: float = 1.0, second: float = 0.0) -> Binding:
    values = {3: scale, 4: second, 5: 0.0, 6: INF, 7: -INF}
    return Binding({number: np.float32(value) for number, value in values.items()}, {})


def rows(*shape: int) -> st.SearchStrategy[Reals]:
    """Numbers from -1000 to 1000."""

    def drawn(seed: int) -> Reals:
        values: Reals = np.random.default_rng(seed).uniform(-1000, 1000, shape).astype(np.float32)
        return values

    return st.integers(0, 2**32 - 1).map(drawn)


@given(rows(3, 40), rows(3, 40))
def test_an_addition_takes_both_inputs_in_turn(a: Reals, b: Reals) -> None:
    flow = flow_of(ADDITION, 3)
    result = run(flow, registers(0.5, 3.0), [a, b], a.shape, {})
    constant = np.float32(np.uint32(0x80000000).view(np.float32))
    expected = (a * np.float32(0.5) + b * np.float32(3)) + constant
    np.testing.assert_array_equal(result, expected)


@given(rows(5, 256))
def test_maxima_over_planes_stay_in_the_queue(values: Reals) -> None:
    queues: Queues = {}
    result = run(flow_of(MAXIMA, 16), registers(), [values], values.shape, queues)
    np.testing.assert_array_equal(result, values)
    np.testing.assert_array_equal(queues[V11], values.max(0))
    assert queues[V12].size == 0


def test_planes_of_another_size_than_the_program_s_are_refused() -> None:
    with pytest.raises(Unknown, match="taken by element 16"):
        flow_of(MAXIMA, 15)


RUNNING_SUM = program(
    [(0, 0x00030001), (0, 0x602), (0, 0x400)],
    [(0x4100, 0)],
    [(0x1020, 0x00001121), (0x1200, 0), (0, 0)],
)
"""R1 = R1 + R2, where R2 is the input of the round before; what comes out is R2."""


def test_a_register_runs_on_over_rows_of_one_vector_alone() -> None:
    flow = flow_of(RUNNING_SUM, 1)
    assert any(operand.back == 1 for node in flow.nodes for operand in node.operands)
    with pytest.raises(Unknown, match="1 elements ago, where a row has 2"):
        flow_of(RUNNING_SUM, 2)


def test_sums_of_rows_are_taken_by_the_next_programs() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    queues: Queues = {}
    assert run(flow_of(SUMS, 1), registers(), [values], values.shape, queues) is None
    np.testing.assert_array_equal(queues[V11], values.sum(1))
    result = run(flow_of(BY_ROW, 1), registers(), [values], values.shape, queues)
    np.testing.assert_array_equal(result, values * values.sum(1, keepdims=True))
    assert queues[V11].size == 0


def test_a_program_may_begin_with_what_a_queue_holds() -> None:
    queues: Queues = {V11: np.array([1, 2, 3], np.float32)}
    result = run(flow_of(FROM_SUMS, 1), registers(0.25), [], (1, 3), queues)
    np.testing.assert_array_equal(result, [[0.25, 0.5, 0.75]])


@pytest.mark.parametrize(
    ("header", "init", "loop", "reason"),
    [
        # One output too early for its element.
        (
            [(0, 0x00020000), (0, 0x300), (0, 0x400)],
            [],
            [(0, 0x21300000), (0, 0x10110000)],
            "never set",
        ),
        # R8 is never written.
        ([(0, 0x00010000), (0, 0), (0, 0x400)], [], [(0, 0x10800000)], "register 8"),
        # A multiplier's operation 5.
        ([(0, 0x00010000), (0, 0), (0, 0x400)], [], [(0, 0x50300000)], "MULTIPLIER"),
        # Entries of a queue that begins empty.
        ([(0, 0x00010000), (0, 0), (0, 0x410)], [], [(0, 0x10B00000)], "empty"),
        # A constant in the loop.
        ([(0, 0x00010000), (0, 0), (0, 0x400)], [], [(0x4180, 0)], "constant"),
    ],
)
def test_what_is_not_understood_is_refused(
    header: list[Pair], init: list[Pair], loop: list[Pair], reason: str
) -> None:
    with pytest.raises(Unknown, match=reason):
        flow_of(program(header, init, loop), 1)


def test_a_header_s_bits_without_a_meaning_are_refused() -> None:
    with pytest.raises(Unknown, match="0x00000800"):
        program([(0, 0x00010000), (0, 0), (0, 0xC00)], [], [(0, 0x10300000)])


def loads(words: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(
        struct.pack("<II", 1 << 27 | 1 << 16 | register >> 2, value) for register, value in words
    )


def test_a_program_is_sent_word_by_word_and_to_two_cores() -> None:
    pairs = [(0x00010000, 0), (0, 0), (0x400, 0), (0x20300000, 0)]
    once = [(0x396C, 0)]
    for low, high in pairs:
        once += [(0x3970, low), (0x3974, high)]
    found = read_program(loads(once + once))
    assert [code.words for code in found.loop] == [(0x20300000, 0)]
    with pytest.raises(Unknown, match="1 low and 0 high"):
        read_program(loads(once[:2]))
    with pytest.raises(Unknown, match="no program"):
        read_program(b"")


def exponential() -> bytes:
    """A table of exp as the public toolkit makes one: a sign, four bits of exponent, five more."""
    words = []
    for place in range(1024):
        exponent = (place >> 5 & 15) - 16 if place & 256 else (place >> 5 & 15)
        magnitude = 2.0 ** (exponent + 1) * (1 + (place & 31) / 32)
        value = np.exp(-magnitude if place & 512 else magnitude)
        words.append(_small_float(float(np.clip(value, 2.0**-14, 65535))))
    return struct.pack("<1027I", *words, 0x347F8000, 0, 0x3F8000)


def _small_float(value: float) -> int:
    mantissa, exponent = np.frexp(value)
    whole = round((float(mantissa) * 2 - 1) * 32768)
    return (int(exponent) - 1 + 15 << 15) + whole


@given(rows(50))
def test_a_table_is_linear_between_its_entries(values: Reals) -> None:
    argument = (values * np.float32(0.0045) - np.float32(2.5)).astype(np.float32)
    table = read_table(exponential())
    found = table.entry(argument) + table.fraction(argument) * table.difference(argument)
    np.testing.assert_allclose(found, np.exp(argument), rtol=6e-3, atol=1e-4)


def test_arguments_beyond_a_table_have_their_values() -> None:
    table = read_table(exponential())
    assert table.entry(np.array([-600, 600], np.float32)).tolist() == [0, np.inf]


def reciprocal() -> bytes:
    """A table of 1/x as the public toolkit makes one: six bits of exponent, four more, no sign."""
    words = []
    for place in range(1024):
        exponent = (place >> 4) - 64 if place & 512 else place >> 4
        value = 1 / (2.0 ** (exponent + 1) * (1 + (place & 15) / 16))
        mantissa, power = np.frexp(value)
        words.append((int(power) - 1 + 127 << 12) + round((float(mantissa) * 2 - 1) * 4096))
    return struct.pack("<1027I", *words, 0x069E8864, 0x5E8000, 0xBE8000)


@given(rows(50))
def test_a_reciprocal_keeps_the_sign(values: Reals) -> None:
    argument = np.where(values == 0, np.float32(1), values).astype(np.float32)
    table = read_table(reciprocal())
    found = table.entry(argument) + table.fraction(argument) * table.difference(argument)
    np.testing.assert_allclose(found, 1 / argument, rtol=2e-3)


def test_the_reciprocal_of_nothing_is_a_large_number_of_its_sign() -> None:
    table = read_table(reciprocal())
    assert table.entry(np.array([0.0, -0.0], np.float32)).tolist() == [2.0**31, -(2.0**31)]


def test_equal_tables_are_one_while_they_are_held() -> None:
    first = read_table(exponential())
    assert read_table(bytes(bytearray(exponential()))) is first
    assert read_table(reciprocal()) is not first


def test_a_table_that_is_cut_off_is_refused() -> None:
    with pytest.raises(Unknown, match="1026 words"):
        read_table(bytes(TABLE_BYTES - 4))
