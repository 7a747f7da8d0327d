"""A minute of fuzzing, the same every time, and what once failed.

``python -m tests.fuzz`` goes on with other inputs for as long as one wants.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from . import checks, compiled_files, nbg_files, onnx_files, single_tasks, vip_files
from .inputs import KINDS

CORPUS = Path(__file__).parents[1] / "data" / "hostile"
"""Files that did harm once: <kind>_<what>.xz."""

NUMBERS = {
    "tasks": 3000,
    "compiled": 600,
    "onnx": 200,
    "nbg": 150,
    "vip": 400,
    "rknn-calls": 20,
    "viplite-calls": 20,
}
"""Inputs of each kind."""


@pytest.mark.parametrize("kind", NUMBERS)
def test_damaged_files(kind: str) -> None:
    for number in range(NUMBERS[kind]):
        _, data = KINDS[kind].input(number)
        try:
            KINDS[kind].check(data)
        except Exception as error:
            raise AssertionError(f"input {number}") from error


@pytest.mark.parametrize("name", sorted(path.stem for path in CORPUS.glob("*.xz")))
def test_what_once_did_harm(name: str) -> None:
    data = lzma.decompress((CORPUS / f"{name}.xz").read_bytes())
    KINDS[name.partition("_")[0]].check(data)


def test_sound_files_run() -> None:
    """The fuzzers begin with files that get as far as they can."""
    for target in compiled_files.targets():
        assert checks.compiled_file(target.data) == checks.RAN, target.name
    for task in single_tasks.targets():
        assert checks.run_single_task(task) == checks.RAN, task.file
    for name, data in onnx_files.sound():
        assert checks.onnx_file(data) == checks.RAN, name
    for name, data, _ in nbg_files.sound():
        assert checks.nbg_file(data) == checks.RAN, name
    for file in vip_files.targets():
        assert checks.vip_file(file.data) == checks.RAN, file.name
