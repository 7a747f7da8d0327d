"""The page on the RKNN C API is complete, and every test that it names exists."""

from __future__ import annotations

import pytest

from anynpu.declarations import symbol_of
from anynpu.rknn import abi
from anynpu.soft.rknn import IMPLEMENTED
from anynpu.soft.rknn.leniency import CRASHES, LENIENCIES

from .pages import Page

PAGE = Page("rknn-c-api.md", "soft", "soft/rknn", "rknn", "conformance")
NOT_YET = {name for name, (text, _) in PAGE.rows.items() if text == "not yet"}


def test_everything_has_a_row() -> None:
    declared = set(abi.FUNCTIONS)
    for enumeration in (abi.Query, abi.InitFlag, abi.ErrorCode):
        declared |= {symbol_of(enumeration, name) for name in enumeration.__members__}
    assert set(PAGE.rows) == declared


def test_what_is_not_there_yet_is_said() -> None:
    assert {name for name in NOT_YET if name in abi.FUNCTIONS} == set(abi.FUNCTIONS) - set(
        IMPLEMENTED
    )


def test_every_row_names_a_test() -> None:
    for name in set(PAGE.rows) - NOT_YET:
        assert PAGE.rows[name][1], name


@pytest.mark.parametrize("test", sorted(set(PAGE.tests())))
def test_the_tests_exist(test: str) -> None:
    assert PAGE.exists(test)


def table_after(heading: str) -> list[list[str]]:
    """The cells of the only table of a section."""
    section = PAGE.text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def code_of(code: abi.ErrorCode) -> str:
    return f"`{symbol_of(abi.ErrorCode, code.name)}`"


def test_the_table_of_what_a_board_lets_pass() -> None:
    assert table_after("What a board lets pass") == [
        [
            row.situation,
            f"`{row.call}`",
            row.board,
            "the same, and a line in the log" if row.is_logged else "the same",
            code_of(row.code),
        ]
        for row in LENIENCIES.values()
    ]


def test_the_table_of_what_ends_a_program_on_a_board() -> None:
    assert table_after("What ends a program on a board") == [
        [row.situation, f"`{row.call}`", row.board, code_of(row.code)] for row in CRASHES.values()
    ]


def test_what_is_unlike_version_1_5_2_has_tests() -> None:
    for row in table_after("Unlike version 1.5.2"):
        assert PAGE.tests_in(row[-1]), row
