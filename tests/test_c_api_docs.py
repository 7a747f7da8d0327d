"""The page on the RKNN C API is complete, and every test that it names exists."""

from __future__ import annotations

import pytest

from anynpu.declarations import symbol_of
from anynpu.rknn import abi
from anynpu.soft.rknn import IMPLEMENTED

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
