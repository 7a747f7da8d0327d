"""The register machine: groups, pointers, tables."""

from __future__ import annotations

import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.rknpu.generations import GENERATIONS, Generation
from anynpu.soft.engines.rknpu.generations.rk3588.cna import CnaDataSize0, CnaDataSize1
from anynpu.soft.engines.rknpu.generations.rk3588.dpu import DpuWidth
from anynpu.soft.engines.rknpu.registers.fields import Field, bits, sign_extend
from anynpu.soft.engines.rknpu.registers.map import RegisterMap

from .commands import run

CNA, DPU = 1, 8
WIDTH, CNA_SIZE = DpuWidth.number, CnaDataSize0.number
DPU_POINTER = 0x4004
PING_PONG, CLEAR = 0xE, 0x30


def test_a_group_keeps_what_later_tasks_do_not_write() -> None:
    states = run([(DPU, [(WIDTH, 5)]), (DPU, [])])
    assert [state.words for state in states] == [{WIDTH: 5}, {WIDTH: 5}]


def test_ping_pong_alternates_between_two_groups() -> None:
    tasks = [
        (DPU, [(DPU_POINTER, PING_PONG), (WIDTH, 1)]),
        (DPU, [(WIDTH, 2)]),
        (DPU, []),
        (DPU, []),
    ]
    assert [state.words[WIDTH] for state in run(tasks)] == [1, 2, 1, 2]


def test_the_convolution_blocks_alternate_from_the_start() -> None:
    states = run([(CNA, [(CNA_SIZE, 1)]), (CNA, [(CNA_SIZE, 2)]), (CNA, [])])
    assert [state.words[CNA_SIZE] for state in states] == [1, 2, 1]


def test_a_block_that_is_not_started_keeps_its_pointer() -> None:
    states = run([(CNA, [(CNA_SIZE, 1)]), (DPU, [(CNA_SIZE, 2)]), (CNA, [])])
    assert CNA_SIZE not in states[1].words
    assert states[2].words[CNA_SIZE] == 2


def test_clearing_the_pointer_turns_ping_pong_off() -> None:
    tasks = [
        (DPU, [(DPU_POINTER, PING_PONG), (WIDTH, 1)]),
        (DPU, [(DPU_POINTER, CLEAR), (WIDTH, 3)]),
        (DPU, []),
    ]
    assert [state.words[WIDTH] for state in run(tasks)] == [1, 3, 3]


def test_relocations_go_with_the_group() -> None:
    states = run([(DPU, [(0x4020, "y")]), (DPU, [(0x4020, 7)])])
    assert states[0].relocations[0x4020].buffer == "y"
    assert 0x4020 not in states[1].relocations


def test_tables_are_loaded_entry_by_entry_and_stay() -> None:
    load = [(0x4100, 1 << 17 | 1 << 16 | 511), (0x4104, 0xFFFF), (0x4104, 5), (0x4104, 9)]
    first, second = run([(DPU, load), (DPU, [(0x4100, 0), (0x4104, 3)])])
    assert first.loads_tables
    assert not second.loads_tables
    for state in (first, second):
        assert state.tables[1][511:].tolist() == [-1, 5]
        assert not state.tables[0].any()
    assert first.tables[0].base is second.tables[0].base
    assert not first.tables[1].flags.writeable


def test_unknown_registers_are_named() -> None:
    with pytest.raises(ModelError, match=r"task 0 of node 0 writes 0x5 to the register 0x4fff"):
        run([(DPU, [(0x4FFF, 5)])])


def test_a_generation_may_drop_registers() -> None:
    (state,) = run([(DPU, [(0x2004, 5), (WIDTH, 2)])], RegisterMap([DpuWidth], {0x2004}, {}))
    assert state.words == {WIDTH: 2}


def test_registers_that_are_zero_in_files_are_dropped_if_they_are() -> None:
    registers = RegisterMap([DpuWidth], (), {}, {0x2810})
    (state,) = run([(DPU, [(0x2810, 0), (WIDTH, 2)])], registers)
    assert state.words == {WIDTH: 2}
    with pytest.raises(ModelError, match=r"writes 0x1 to the register 0x2810"):
        run([(DPU, [(0x2810, 1)])], registers)


def test_fields_take_and_give_bits() -> None:
    field = CnaDataSize1.DATAIN_CHANNEL_REAL
    assert (field.low, field.bits) == (16, 14)
    assert field.of(field.put(77)) == 77
    assert sign_extend(field.put_signed(-3) >> field.low, field.bits) == -3
    assert sign_extend(0x1FFF, 13) == -1


@pytest.mark.parametrize("value", [-1, 1 << 14, 20000])
def test_a_value_that_a_field_cannot_hold_is_refused(value: int) -> None:
    field = CnaDataSize1.DATAIN_CHANNEL_REAL
    with pytest.raises(ModelError, match=rf"CNA_DATA_SIZE1 .*DATAIN_CHANNEL_REAL: {value} .* 14"):
        field.put(value)
    with pytest.raises(ModelError, match="bits 3 to 4 of a register: 4 doesn't fit into 2 bits"):
        bits(3, 4).put(4)
    for outside in (-(1 << 13) - 1, 1 << 13):
        with pytest.raises(ModelError, match="14 bits with a sign"):
            field.put_signed(outside)


def test_a_field_says_a_quantity_in_its_own_unit() -> None:
    assert bits(4, 7, signed=True, plus=1, times=16).value(0xE5) == -16
    assert bits(4, 7, plus=1).value(0xE5) == 15


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=lambda chip: type(chip).__name__)
def test_fields_of_a_register_do_not_overlap(generation: Generation) -> None:
    for register in generation.registers.registers.values():
        used = 0
        for field in register.fields:
            assert isinstance(field, Field)
            assert issubclass(register, field.register)
            assert field.register.number == register.number
            bits = field.mask << field.low
            assert not used & bits, f"{register.title}.{field.name}"
            used |= bits
        assert used == register.known_bits < 1 << 32
