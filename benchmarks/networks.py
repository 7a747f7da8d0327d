"""The networks that are measured: PP-OCR's, as a PyPI package carries them, and a tiny one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from anynpu.soft.build import BuildOptions, build

PACKAGE = "rapidocr_onnxruntime"
SHAPES = {
    "text detector 480x480": ("ch_PP-OCRv4_det_infer.onnx", (1, 3, 480, 480)),
    "text recogniser 48x320": ("ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
}


def trained() -> Iterator[tuple[str, bytes, np.ndarray]]:
    """(name, ONNX file with a fixed shape, input) of each network."""
    for name, (file, shape) in SHAPES.items():
        model = build(folder() / file, BuildOptions(shapes=[{"x": shape}]))
        yield name, model, np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)


def folder() -> Path:
    """Where the trained networks' files are."""
    spec = find_spec(PACKAGE)
    assert spec is not None, f"pip install {PACKAGE}"
    assert spec.submodule_search_locations, f"{PACKAGE} has no folder"
    return Path(spec.submodule_search_locations[0]) / "models"


def tiny(shape: tuple[int, ...]) -> tuple[bytes, np.ndarray]:
    """A network that does next to nothing, so that what is measured is the way to it."""
    graph = helper.make_graph(
        [helper.make_node("GlobalAveragePool", ["x"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (*shape[:2], 1, 1))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    return model.SerializeToString(), np.ones(shape, np.float32)
