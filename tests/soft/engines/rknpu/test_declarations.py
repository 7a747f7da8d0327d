"""Registers are declared once: their maps are whole, and nobody else writes their numbers."""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from pathlib import Path

import pytest

from anynpu.soft.engines.rknpu import generations
from anynpu.soft.engines.rknpu.generations import GENERATIONS, Generation
from anynpu.soft.engines.rknpu.registers.blocks import BLOCKS
from anynpu.soft.engines.rknpu.registers.map import RegisterMap
from anynpu.soft.engines.rknpu.registers.quantities import Quantity

ENGINE = Path(generations.__file__).parents[1]
DECLARATIONS = frozenset(
    [
        "blocks.py",
        "cna.py",
        "core.py",
        "dpu.py",
        "inert.py",
        "map.py",
        "ppu.py",
        "rdma.py",
        "registers.py",
    ]
)
READERS = ("generations", "decode", "registers")
OF_FAMILIES = {
    Quantity.BS_NUMBERS,
    Quantity.BN_NUMBERS,
    Quantity.FETCHED_HEIGHT,
    Quantity.FETCHED_WIDTH,
    Quantity.JOINED_SURFACES,
    Quantity.LAST_BYTES,
    Quantity.ORDER,
    Quantity.PACKED_GROUPS,
}
"""Quantities that only some chips have, which their own functions ask for."""

chips = pytest.mark.parametrize(
    "chip", GENERATIONS.values(), ids=[type(chip).__name__ for chip in GENERATIONS.values()]
)


def sources() -> list[Path]:
    """What reads registers, without what declares them."""
    files = [file for folder in READERS for file in (ENGINE / folder).rglob("*.py")]
    files += [ENGINE / name for name in ("command_stream.py", "graph.py", "task_registers.py")]
    return [file for file in files if file.name not in DECLARATIONS]


def bare_numbers(text: str) -> list[str]:
    """Numbers in a text that are written as registers, masks and words are: in base 16."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        token.string for token in tokens if token.type == tokenize.NUMBER and "x" in token.string
    ]


def test_numbers_of_registers_stand_in_declarations_alone() -> None:
    assert len(sources()) > 30
    found = {
        str(file.relative_to(ENGINE)): numbers
        for file in sources()
        if (numbers := bare_numbers(file.read_text()))
    }
    assert found == {}


def test_rk3576_reads_without_rk3588() -> None:
    files = list((ENGINE / "generations" / "rk3576").glob("*.py"))
    assert len(files) > 5
    assert [file.name for file in files if "rk3588" in file.read_text()] == []


def test_a_bare_number_is_found() -> None:
    assert bare_numbers("words[0x4010] & 3 << 4  # 0x1010\n") == ["0x4010"]


@chips
def test_each_register_and_each_quantity_stands_once(chip: Generation) -> None:
    registers: RegisterMap = chip.registers
    for number, register in registers.registers.items():
        assert register.number == number
        assert number >> 12 in BLOCKS, register.title
        assert not number % 4, register.title
    assert not registers.known & registers.inert
    says = Counter(
        field.says
        for register in registers.registers.values()
        for field in register.fields
        if field.says
    )
    assert [quantity for quantity, count in says.items() if count > 1] == []


@chips
def test_a_chip_says_all_that_decoding_asks_for(chip: Generation) -> None:
    unsaid = {
        quantity
        for quantity in Quantity
        if quantity not in chip.derived and chip.registers.field(quantity) is None
    }
    assert unsaid <= OF_FAMILIES
