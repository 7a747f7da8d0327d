"""docs/onnxruntime.md: each name of ONNX Runtime's classes has a row, and the row is true."""

from __future__ import annotations

import re
from pathlib import Path

import onnxruntime
import pytest

import anynpu

PAGE = (Path(__file__).parents[1] / "docs" / "onnxruntime.md").read_text()
CLASSES = ("InferenceSession", "SessionOptions", "RunOptions", "OrtValue")


def rows(name: str) -> dict[str, str]:
    section = PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))


def public(kind: type) -> set[str]:
    made = kind() if kind.__name__ in ("SessionOptions", "RunOptions") else kind
    return {name for name in dir(made) if not name.startswith("_")}


@pytest.mark.parametrize("name", CLASSES)
def test_every_name_has_a_row_that_is_true(name: str) -> None:
    listed = rows(name)
    # Other versions of ONNX Runtime have a few names less or more.
    assert len(public(getattr(onnxruntime, name)) - set(listed)) <= 3
    ours = public(getattr(anynpu, name))
    for each, state in listed.items():
        assert (each in ours) == (state != "-"), each


@pytest.mark.parametrize("name", ["SessionOptions", "RunOptions"])
def test_hints_change_nothing_and_may_be_set(name: str) -> None:
    options = getattr(anynpu, name)()
    for each, state in rows(name).items():
        if state.startswith("hint") and not callable(getattr(options, each)):
            setattr(options, each, getattr(options, each))


def test_the_module_s_functions() -> None:
    listed = rows("Functions of the module")
    for each, state in listed.items():
        assert callable(getattr(onnxruntime, each)), each
        assert hasattr(anynpu, each) == (state != "-"), each
    anynpu.set_default_logger_severity(3)
    with pytest.raises(anynpu.OptionError, match="to 4"):
        anynpu.set_default_logger_severity(7)
    assert anynpu.IOBinding is anynpu.SessionIOBinding
