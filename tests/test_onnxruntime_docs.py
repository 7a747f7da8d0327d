"""docs/onnxruntime.md: each name of ONNX Runtime's classes has a row, and the row is true."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

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
    assert anynpu.__version__ in anynpu.get_build_info()
    anynpu.preload_dlls(cuda=False, directory="")


def test_a_seed_makes_random_operators_repeat_themselves() -> None:
    node = helper.make_node("RandomUniform", [], ["noise"], shape=[1, 64])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xy"]
    graph = helper.make_graph(
        [node, helper.make_node("Add", ["x", "noise"], ["y"])], "noise", values[:1], values[1:]
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    found = []
    for seed in (3, 3, 4):
        anynpu.set_seed(seed)
        with anynpu.InferenceSession(model.SerializeToString()) as session:
            found.append(session.run(None, {"x": np.zeros((1, 64), np.float32)})[0])
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    with pytest.raises(anynpu.OptionError, match="whole number"):
        anynpu.set_seed("3")  # type: ignore[arg-type]
