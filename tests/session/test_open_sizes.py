"""ONNX files that leave sizes open, as programs for ONNX Runtime have them."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
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


@pytest.mark.parametrize(("rate", "size"), [(16000, 4), (8000, 3)])
def test_a_branch_may_fit_one_size_alone(rate: int, size: int) -> None:
    """An If whose other branch can't take the size of the feed, as in detectors of speech."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 16]>
        net (float[m,n] x, int64 rate) => (float[k,l] y)
        <int64 high = {16000}, float[4,2] four = {1,2,3,4,5,6,7,8}, float[3,1] three = {1,2,3}> {
            is_high = Equal(rate, high)
            y = If(is_high) <
                then_branch = four_of () => (float[a,b] u) { u = MatMul(x, four) },
                else_branch = three_of () => (float[c,d] v) { v = MatMul(x, three) }
            >
        }"""
    ).SerializeToString()
    feed = {"x": values(1, size), "rate": np.array(rate)}
    with anynpu.InferenceSession(model) as session:
        (found,) = session.run(None, feed)
        with pytest.raises(anynpu.CallError, match="MatMul"):
            session.run(None, feed | {"rate": np.array(24000 - rate)})
    (expected,) = onnxruntime.InferenceSession(model).run(None, feed)
    np.testing.assert_array_equal(found, expected)


def test_arrays_without_elements_are_refused(model: Path) -> None:
    with (
        anynpu.InferenceSession(model) as session,
        pytest.raises(anynpu.TensorError, match="no elements"),
    ):
        session.run(None, {"x": values(0, 3)})


def test_a_binding_takes_feeds_of_any_size(model: Path) -> None:
    with anynpu.InferenceSession(model) as session:
        binding = session.io_binding()
        for rows in (2, 5):
            given, target = values(rows, 3), np.zeros((rows, 3), np.float32)
            binding.bind_input("x", "cpu", 0, np.float32, given.shape, given.ctypes.data)
            binding.bind_output("y", "cpu", 0, np.float32, target.shape, target.ctypes.data)
            session.run_with_iobinding(binding)
            np.testing.assert_array_equal(target, given + 1)
            np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], given + 1)
        binding.bind_cpu_input("x", values(4, 3))
        with pytest.raises(anynpu.TensorError, match="bind one that fits"):
            session.run_with_iobinding(binding)
        binding.clear_binding_outputs()
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), values(4, 3) + 1)
        with pytest.raises(anynpu.OptionError, match="one for each set of shapes"):
            binding.bind_output("y", "rknpu2")
        with pytest.raises(anynpu.TensorError, match="there is no output 'z'"):
            binding.bind_output("z")


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
    for refused in (session.profile, lambda: session.network):
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
