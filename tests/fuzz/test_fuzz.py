"""A minute of fuzzing, the same every time, and what once failed.

``python -m tests.fuzz`` goes on with other inputs for as long as one wants.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from . import checks, compiled_files, nbg_files, onnx_files
from .inputs import KINDS

CORPUS = Path(__file__).parents[1] / "data" / "hostile"
"""Files that did harm once: <kind>_<what>.xz."""

few = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@settings(few, max_examples=400)
@given(compiled_files.damaged())
def test_damaged_compiled_files(found: tuple[str, bytes]) -> None:
    checks.compiled_file(found[1])


@settings(few, max_examples=150)
@given(onnx_files.damaged())
def test_damaged_onnx_files(found: tuple[str, bytes]) -> None:
    checks.onnx_file(found[1])


@settings(few, max_examples=100)
@given(nbg_files.damaged())
def test_damaged_nbg_files(found: tuple[str, bytes]) -> None:
    checks.nbg_file(found[1])


@pytest.mark.parametrize("name", sorted(path.stem for path in CORPUS.glob("*.xz")))
def test_what_once_did_harm(name: str) -> None:
    data = lzma.decompress((CORPUS / f"{name}.xz").read_bytes())
    KINDS[name.partition("_")[0]].check(data)


def test_sound_files_run() -> None:
    """The fuzzers begin with files that get as far as they can."""
    for target in compiled_files.targets():
        assert checks.compiled_file(target.data) == checks.RAN, target.name
    for name, data in onnx_files.sound():
        assert checks.onnx_file(data) == checks.RAN, name
    for name, data, _ in nbg_files.sound():
        assert checks.nbg_file(data) == checks.RAN, name
