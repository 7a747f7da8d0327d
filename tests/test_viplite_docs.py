"""The page on VIPLite is complete, and every test that it names exists."""

from __future__ import annotations

import pytest

from anynpu.declarations import symbol_of
from anynpu.soc import VIP_SOCS
from anynpu.soft.viplite.lifecycle import _VERSIONS
from anynpu.viplite import abi

from .pages import Page

PAGE = Page("viplite.md", "soft", "soft/viplite", "conformance")
ENUMERATIONS = (
    abi.Status,
    abi.NetworkProperty,
    abi.GroupProperty,
    abi.BufferProperty,
    abi.HardwareProperty,
    abi.PowerProperty,
)


def test_everything_has_a_row() -> None:
    declared = set(abi.FUNCTIONS) | set(abi.AWNN_FUNCTIONS)
    for enumeration in ENUMERATIONS:
        declared |= {symbol_of(enumeration, name) for name in enumeration.__members__}
    assert set(PAGE.rows) == declared


def test_every_row_names_a_test() -> None:
    for name, (_, tests) in PAGE.rows.items():
        assert tests, name


@pytest.mark.parametrize("test", sorted(set(PAGE.tests())))
def test_the_tests_exist(test: str) -> None:
    assert PAGE.exists(test)


def test_every_chip_is_named() -> None:
    for chip in VIP_SOCS.values():
        assert f"{chip.npu_version}, 0x{chip.target:X}" in PAGE.text
        assert chip.name in PAGE.text
    for version in _VERSIONS.values():
        assert f"0x{version:08X}" in PAGE.text
