"""Small files of users' networks on which the project once failed, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from anynpu.soft.engines import ModelSource, load
from anynpu.soft.values import store_real

NETWORKS = {
    "min2049": "i8.rk3576",  # a row of 2,049 pixels
    "bh2100": "i8.rk3588",  # 2,100 rows in one task
    "bgemm": "fp16.rk3576",  # a product of 2,100 rows
    "pic64x2048s2": "i8.rk3588",  # a picture 2,048 wide, which is cut
}
FILES = [
    *(f"{name}_{kind}" for name, kind in NETWORKS.items()),
    # Biases that dwarf the range of the input: sums lose bits.
    *(f"clip5_i8.{chip}" for chip in ("rk3576", "rk3588", "rv1106")),
]


@pytest.mark.parametrize("name", FILES)
def test_results_are_those_of_the_source(name: str, compiled_sample: Callable[[str], Path]) -> None:
    path = compiled_sample(f"../reports/{name}")
    program = load(ModelSource(path.read_bytes()))
    instance, variant = program.instance(0), program.variant(0)
    source = path.with_name(name.rpartition("_")[0] + ".onnx")
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = {}
    for given, array, port in zip(
        session.get_inputs(), instance.inputs, variant.inputs, strict=True
    ):
        values = rng.standard_normal(given.shape).astype(np.float16).astype(np.float32)
        if port.quantization is not None:
            stored = rng.integers(-128, 128, given.shape) - port.quantization.zero_point
            values = (stored * port.quantization.scale).astype(np.float32)
        feeds[given.name] = values
        store_real(values.reshape(array.shape), port, array)
    instance.run()
    (held,), (port,) = instance.outputs, variant.outputs
    expected = session.run(None, feeds)[0].reshape(held.shape)
    if port.quantization is None:
        assert np.abs(held - expected).max() <= 0.005 * np.abs(expected).max()
        return
    steps = np.clip(expected / port.quantization.scale + port.quantization.zero_point, -128, 127)
    assert np.abs(held - steps).max() <= 1.01
