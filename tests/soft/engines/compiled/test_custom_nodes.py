"""A compiled file with a node of an operator that the compiler doesn't know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu.rknn import custom_op
from anynpu.soft.engines.compiled.placement import runners

from .test_networks import archive_of

FILE = Path(__file__).parents[3] / "data" / "compiled" / "rk3588_custom_int8.npz"
"""Conv, cstScale (alpha 0.5, offsets 1 and 2, mode "plain"), Conv; see README.md beside it."""


class Scale:
    """What the simulator computed: x * alpha + 1."""

    attributes: dict[str, Any]

    def __init__(self, node: Any, inputs: Any, outputs: Any) -> None:
        names = ("alpha", "offsets", "mode", "name", "beta")
        Scale.attributes = {name: node.attribute(name, None) for name in names}
        self.alpha = node.attribute("alpha")
        assert [array.dtype for array in (*inputs, *outputs)] == [np.float32] * 2
        assert inputs[0].shape == outputs[0].shape == (1, 8, 8, 8)

    def compute(self, inputs: Any, outputs: Any) -> None:
        np.add(inputs[0] * np.float32(self.alpha), 1, out=outputs[0])


SCALE = custom_op("cstScale")(Scale)


@pytest.fixture(autouse=True)
def soft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_DEVICE", "soft")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    file = tmp_path / "network.rknn"
    file.write_bytes(archive_of(FILE)[0])
    return file


def test_the_operator_sees_real_numbers_and_the_rest_is_computed(network: Path) -> None:
    _, (x,), expected = archive_of(FILE)
    with anynpu.Model(network, custom_ops=[SCALE]) as model:
        model.run(x.transpose(0, 2, 3, 1))
        result, quantization = model.output_f32(0), model.output_attrs[0].quantization
    assert quantization is not None
    np.testing.assert_allclose(result, expected, atol=1.01 * quantization.scale)
    found = Scale.attributes
    assert found["alpha"] == 0.5
    np.testing.assert_array_equal(found["offsets"], [1, 2])
    assert (found["mode"], found["name"], found["beta"]) == ("plain", "scale", None)


def test_without_the_operator_the_log_names_it(
    network: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with anynpu.Model(network) as model, pytest.raises(anynpu.CallError, match="FAIL"):
        model.run(np.zeros((1, 8, 8, 3), np.float32))
    assert "cstScale" in capfd.readouterr().err


def test_inspection_says_who_computes_the_node() -> None:
    (graph,) = runners(archive_of(FILE)[0])
    assert [who for who in graph.by_node if who != "-"] == ["fast", "custom operator", "fast"]
