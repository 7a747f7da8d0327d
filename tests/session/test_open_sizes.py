"""ONNX files that leave sizes open, as programs for ONNX Runtime have them."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import anynpu

from .. import models


def values(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    file.write_bytes(models.add_one(("n", 3), {"author": "somebody"}))
    return file


def test_each_set_of_shapes_has_a_network(model: Path) -> None:
    with anynpu.InferenceSession(model) as session:
        for rows in (2, 5, 2, *range(1, 12)):
            given = values(rows, 3)
            (output,) = session.run(["y"], {"x": given})
            np.testing.assert_array_equal(output, given + 1)


def test_it_says_what_the_file_says(model: Path) -> None:
    with anynpu.InferenceSession(model) as session:
        assert isinstance(session, anynpu.InferenceSession)
        (x,), (y,) = session.get_inputs(), session.get_outputs()
        assert (x.name, x.shape, x.type) == ("x", ["n", 3], "tensor(float)")
        assert (y.name, y.shape) == ("y", ["n", 3])
        assert session.get_modelmeta().custom_metadata_map == {"author": "somebody"}
        assert session.get_providers() == ["RKNPU2ExecutionProvider"]
        assert "open sizes: x" in repr(session)


def test_every_way_to_run(model: Path) -> None:
    given = values(2, 3)
    with anynpu.InferenceSession(model) as session:
        assert np.array_equal(session.submit(None, [given]).result()[0], given + 1)
        assert np.array_equal(asyncio.run(session.run_awaitable(None, given))[0], given + 1)
        done: list[Any] = []
        session.run_async(None, {"x": given}, lambda *answer: done.append(answer), "mine")
        feeds = [{"x": values(rows, 3)} for rows in (1, 2, 3)]
        for feed, (output,) in zip(feeds, session.map(feeds), strict=True):
            assert np.array_equal(output, feed["x"] + 1)
    assert [(answer[1], answer[2]) for answer in done] == [("mine", "")]
    assert np.array_equal(done[0][0][0], given + 1)


def test_one_name_may_stand_for_different_sizes() -> None:
    """Some exporters call all open sizes by one name."""
    node = helper.make_node("Relu", ["x"], ["y"])
    shape = ("?", 3, "?", "?")
    data = models.save([node], [("x", TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, shape)])
    with anynpu.InferenceSession(data) as session:
        given = values(1, 3, 4, 8)
        np.testing.assert_array_equal(session.run(None, {"x": given})[0], given)


def test_its_end_and_its_mistakes(model: Path) -> None:
    session = anynpu.InferenceSession(model)
    with pytest.raises(anynpu.TensorError, match=r"missing \['x'\]"):
        session.run(None, {"z": values(2, 3)})
    for wrong in ((2, 4), (3,), (1, 2, 3)):
        with pytest.raises(anynpu.TensorError, match=r"takes the shape \['n', 3\]"):
            session.run(None, {"x": values(*wrong)})
    for refused in (session.io_binding, session.profile, lambda: session.network):
        with pytest.raises(anynpu.OptionError, match="needs one set of shapes"):
            refused()
    session.close()
    session.close()
    with pytest.raises(anynpu.ClosedError):
        session.run(None, {"x": values(2, 3)})
    with pytest.raises(anynpu.OptionError, match="unknown provider"):
        anynpu.InferenceSession(model, providers=["FlyingExecutionProvider"])


def test_it_pickles(model: Path) -> None:
    with (
        anynpu.InferenceSession(model) as session,
        pickle.loads(pickle.dumps(session)) as other,
    ):
        np.testing.assert_array_equal(other.run(None, {"x": values(2, 3)})[0], values(2, 3) + 1)
