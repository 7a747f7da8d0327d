"""libawnn's calls in Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu import Quantization
from anynpu.viplite.awnn import AwnnContext, awnn_init, awnn_uninit
from anynpu.viplite.library import VipliteLibrary
from anynpu.viplite.runtime import runtime_of

from .. import models
from ..soft.viplite.client import network_file, relu

VALUES = np.arange(60, dtype=np.uint8).reshape(1, 3, 4, 5) + 100


def test_init_and_uninit(vip: VipliteLibrary) -> None:
    before = runtime_of(vip).users
    awnn_init(vip)
    assert runtime_of(vip).users == before + 1
    with AwnnContext(relu(), library=vip):
        pass
    awnn_uninit(vip)
    assert runtime_of(vip).users == before


@pytest.mark.parametrize("given", [VALUES, VALUES.tobytes(), bytearray(VALUES.tobytes())])
def test_outputs_as_floats_and_as_they_are(vip: VipliteLibrary, given: object) -> None:
    with AwnnContext(relu(), library=vip) as context:
        (before,) = context.get_output_buffers()
        assert not before.any()
        context.set_input_buffers([given])  # type: ignore[list-item]
        context.run()
        (real,) = context.get_output_buffers()
        assert real is before  # the same memory for the context's life
        raw = context.get_output_buffer(0)
        np.testing.assert_array_equal(raw, np.maximum(VALUES, 125))
        np.testing.assert_array_equal(real, (np.maximum(VALUES, 125) - np.float32(125)) * 0.5)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (Quantization.fixed_point(8), Quantization.fixed_point(-1)),
        (Quantization(0.125, -100), Quantization(0.5, 37)),
    ],
)
def test_every_quantisation_is_converted(
    vip: VipliteLibrary, x: Quantization, y: Quantization
) -> None:
    """Where the original takes affine int16 for fixed point, or cuts a zero point."""
    model = network_file(models.add_one((2, 6)), edges={"x": x, "y": y})
    with AwnnContext(model, library=vip) as context:
        raw = np.full((2, 6), round(24 / x.scale) + x.zero_point, context.inputs[0].dtype.numpy)
        context.set_input_buffers([raw])
        context.run()
        # The step of the output's scale that is nearest to 25, ties to even.
        expected = round(25 / y.scale) * y.scale
        np.testing.assert_array_equal(context.get_output_buffers()[0], np.full((2, 6), expected))


def test_float16_is_converted(vip: VipliteLibrary) -> None:
    with AwnnContext(network_file(models.two_inputs()), library=vip) as context:
        a, b = np.full((2, 3), 1.5, np.float16), np.full((2, 3), 0.25, np.float16)
        context.set_input_buffers([a, b])
        context.run()
        total, difference = context.get_output_buffers()
        assert set(total.ravel()) == {1.75}
        assert set(difference.ravel()) == {1.25}


def test_dumps(vip: VipliteLibrary, tmp_path: Path) -> None:
    with AwnnContext(relu(), library=vip) as context:
        context.set_input_buffers([VALUES])
        context.run()
        context.dump_io(tmp_path / "dump")
        assert (tmp_path / "dump.input_0.txt").read_text() == "".join(
            f"{value}\n" for value in VALUES.ravel()
        )
        lines = (tmp_path / "dump.output_0.txt").read_text().splitlines()
        assert lines[-1] == "17.000000"
        assert len(lines) == 60
        with pytest.raises(OSError, match="nowhere"):
            context.dump_io(tmp_path / "nowhere" / "dump")


def test_misuse(vip: VipliteLibrary) -> None:
    context = AwnnContext(relu(), library=vip)
    with pytest.raises(anynpu.TensorError, match="1 inputs; 2 were given"):
        context.set_input_buffers([VALUES, VALUES])
    with pytest.raises(anynpu.TensorError, match="takes 60 bytes as it is; found 59"):
        context.set_input_buffers([bytes(59)])
    with pytest.raises(IndexError):
        context.get_output_buffer(1)
    context.destroy()
    context.destroy()
    for call in (context.run, lambda: context.dump_io("x"), lambda: context.get_output_buffer(0)):
        with pytest.raises(anynpu.ClosedError):
            call()
    with pytest.raises(anynpu.InvalidModelError):
        AwnnContext(b"VPMN" + bytes(300), library=vip)
