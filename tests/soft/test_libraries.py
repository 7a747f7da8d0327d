"""The libraries that the soft NPU stands in for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import anynpu
from anynpu import soc
from anynpu.soft.cabi import exports
from anynpu.soft.libraries import LIBRARIES, find, of_chip

BUILD = Path(__file__).parents[2] / "CMakeLists.txt"


def test_the_build_makes_all_of_them() -> None:
    (names,) = re.findall(r"foreach\(library IN ITEMS\s+([^)]*)\)", BUILD.read_text())
    assert sorted(names.split()) == sorted(LIBRARIES)


def test_names_of_libraries() -> None:
    assert list(LIBRARIES) == [
        "librknnrt", "librknnmrt", "libVIPlite-v1", "libVIPlite-v2", "libNBGlinker-v3",
        "libawnn_viplite",
    ]  # fmt: skip
    with pytest.raises(anynpu.OptionError, match="no soft library is called 'x'; there is librk"):
        find("x")


@pytest.mark.parametrize(
    ("chip", "files"),
    [
        ("rk3588", ["librknnrt.so"]),
        ("rv1106", ["librknnmrt.so"]),
        ("v853", ["libVIPlite.so", "libawnn_viplite.so"]),
        ("mr527", ["libVIPlite.so", "libawnn_viplite.so"]),
        ("t736", ["libNBGlinker.so", "libawnn_viplite.so"]),
    ],
)
def test_what_a_chip_s_programs_are_linked_with(chip: str, files: list[str]) -> None:
    assert [library.file for library in of_chip(soc.find_any(chip))] == files


@pytest.mark.parametrize("name", LIBRARIES)
def test_exports_are_declared_before_they_are_defined(name: str) -> None:
    text = exports.source(name)
    declarations, marker, definitions = text.partition("#ifdef ANYNPU_EXPORT\n")
    assert marker
    functions = re.findall(r"^ANYNPU_EXPORT(?:_VOID)?\([^(]*?(\w+), \(", definitions, re.MULTILINE)
    assert functions
    for function in functions:
        assert f"{function}(" in declarations, function
