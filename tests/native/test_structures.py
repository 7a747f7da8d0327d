"""Structures that Python and C share: the C compiler finds every field where ctypes has it."""

from __future__ import annotations

import ctypes
import importlib
import pkgutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import anynpu.native
import anynpu.soft.driver
import anynpu.soft.engines
from anynpu.c_header import SharedHeader, tag_of
from anynpu.native.compiler import SOURCES
from anynpu.native.header import HEADER as ARRAYS_HEADER
from anynpu.native.matmul import Weights
from anynpu.native.pump import RequestRecord
from anynpu.native.threads import thread_count
from anynpu.rknn import abi as rknn
from anynpu.soft.engines.rknpu.kernels.header import HEADER as NPU_HEADER
from anynpu.soft.engines.vip.header import HEADER as VIP_HEADER
from anynpu.structures import Structure, Union
from anynpu.viplite import abi as viplite

_SOURCES_OF = {
    "anynpu.native.arrangements": "arrays.h",
    "anynpu.native.kernels": "arrays.h",
    "anynpu.native.transfers": "arrays.h",
    "anynpu.native.matmul": "arrays.h",
    "anynpu.native.pump.c_threads": "pump.c",
    "anynpu.native.pump.interface": "pump.c",
    "anynpu.native.steps": "steps.c",
    "anynpu.soft.driver.messages": "driver/engine.c",
    "anynpu.soft.engines.rknpu.kernels.structures": "npu.h",
    "anynpu.soft.engines.vip.structures": "vip.h",
}
_C_NAMES = {
    ("pump.c", "request_record"): "request",
    ("steps.c", "entry"): "step",
    ("driver/engine.c", "submit"): "rknpu_submit",
    ("driver/engine.c", "sub_list"): "rknpu_sub_list",
}


def declared(package: object) -> Iterator[type[ctypes.Structure]]:
    """The structures that a package's own modules declare."""
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):  # type: ignore[attr-defined]
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            is_structure = isinstance(value, type) and issubclass(value, ctypes.Structure)
            if is_structure and value.__module__ == info.name and hasattr(value, "_fields_"):
                yield value


def c_source(structure: type[ctypes.Structure]) -> str:
    """The C file that a structure is shared with."""
    return _SOURCES_OF[structure.__module__]


PACKAGES = (anynpu.native, anynpu.soft.driver, anynpu.soft.engines)
NATIVE = [structure for package in PACKAGES for structure in declared(package)]


def test_all_structures_are_found() -> None:
    names = {structure.__name__ for structure in NATIVE}
    assert {
        "RequestRecord",
        "Product",
        "Entry",
        "Transfer",
        "Dense",
        "Copy",
        "Reduction",
        "Submit",
    } <= names
    assert len(NATIVE) >= 30


@pytest.mark.parametrize("source", sorted({c_source(structure) for structure in NATIVE}))
def test_sizes_and_offsets_are_those_of_c(source: str, c_compiler: str, tmp_path: Path) -> None:
    lines = ["#include <stddef.h>", f'#include "{SOURCES / source}"']
    for structure in (each for each in NATIVE if c_source(each) == source):
        own = tag_of(structure)
        name = f"struct {_C_NAMES.get((source, own), own)}"
        lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(structure)}, "{name}");')
        for field, *_ in structure._fields_:
            offset = getattr(structure, field).offset
            text = f"offsetof({name}, {field}) == {offset}"
            lines.append(f'_Static_assert({text}, "{name} {field}");')
    file = tmp_path / "structures.c"
    file.write_text("\n".join(lines) + "\n")
    command = [c_compiler, "-std=gnu11", "-w", "-fsyntax-only", str(file)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "header", [ARRAYS_HEADER, NPU_HEADER, VIP_HEADER], ids=lambda header: header.file.name
)
def test_headers_are_those_of_the_declarations(header: SharedHeader) -> None:
    assert header.file.read_text() == header.text()


def test_a_header_with_another_layout_does_not_compile(c_compiler: str, tmp_path: Path) -> None:
    """The sizes and offsets that were compiled in are asserted."""
    text = NPU_HEADER.text()
    header = tmp_path / "npu.h"
    command = [c_compiler, "-std=gnu11", "-fsyntax-only", "-x", "c", str(header)]
    for damage, found in (
        (("    int64_t lanes;\n", ""), "features"),
        (("    float padding;\n", "    double padding;\n    int64_t more;\n"), "window"),
    ):
        assert damage[0] in text
        header.write_text(text.replace(*damage, 1))
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        assert result.returncode != 0
        assert found in result.stderr
    header.write_text(text)
    subprocess.run(command, check=True)


@pytest.mark.parametrize(
    "structure",
    [*NATIVE, *(v for api in (rknn, viplite) for v in vars(api).values() if isinstance(v, type))],
)
def test_only_fields_may_be_set(structure: type) -> None:
    if not issubclass(structure, ctypes.Structure | ctypes.Union):
        return
    assert issubclass(structure, Structure | Union)
    if structure in (Structure, Union):
        return
    with pytest.raises(AttributeError):
        structure(no_such_field=1)
    with pytest.raises(AttributeError):
        structure().no_such_field = 1


def test_c_is_told_how_many_threads_multiply() -> None:
    """As many as there may be, where there is work for them."""
    import numpy as np

    few = Weights(np.empty(1), 16, 16).for_rows(1)
    many = Weights(np.empty(1), 4096, 4096).for_rows(256)
    assert few.threads == 1
    assert many.threads == thread_count()


def test_a_request_takes_no_unknown_field() -> None:
    with pytest.raises(AttributeError, match="is_reportd"):
        RequestRecord(is_reportd=1)
