"""The page on the C API is complete, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from anynpu.declarations import symbol_of
from anynpu.rknn import abi
from anynpu.soft.rknn import IMPLEMENTED

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "rknn-c-api.md").read_text()
ROWS = {
    match[1]: (match[2], re.findall(r"`([^`]+)`", match[3]))
    for match in re.finditer(r"^\| `(\w+)` \| (.*?) \|([^|]*)\|$", PAGE, re.MULTILINE)
}
NOT_YET = {name for name, (text, _) in ROWS.items() if text == "not yet"}


def _symbols(enumeration: type) -> set[str]:
    return {symbol_of(enumeration, name) for name in enumeration.__members__}  # type: ignore[attr-defined]


def _tests_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_everything_has_a_row() -> None:
    declared = set(abi.FUNCTIONS)
    for enumeration in (abi.Query, abi.InitFlag, abi.ErrorCode):
        declared |= _symbols(enumeration)
    assert set(ROWS) == declared


def test_what_is_not_there_yet_is_said() -> None:
    assert {name for name in NOT_YET if name in abi.FUNCTIONS} == set(abi.FUNCTIONS) - set(
        IMPLEMENTED
    )


@pytest.mark.parametrize("name", sorted(set(ROWS) - NOT_YET))
def test_the_tests_exist(name: str) -> None:
    _, tests = ROWS[name]
    assert tests
    for test in tests:
        file, _, function = test.partition("::")
        (path,) = TESTS.rglob(file)
        assert function in _tests_of(path), test


def test_tests_in_the_text_exist() -> None:
    for file, function in re.findall(r"`(test_\w+\.py)::(\w+)`", PAGE):
        (path,) = TESTS.rglob(file)
        assert function in _tests_of(path)
