"""Files whose inputs or outputs are whole numbers, or truth values, by sessions and models."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anynpu

FOLDER = Path(__file__).parents[3] / "data" / "compiled" / "whole_numbers"


def file(name: str) -> bytes:
    """A file of tests/data/compiled/whole_numbers."""
    return lzma.decompress((FOLDER / f"{name}.rknn.xz").read_bytes())


def feed(name: str) -> dict[str, NDArray[Any]]:
    """Inputs for a file, as its ONNX network takes them."""
    random = np.random.default_rng(3)
    if name == "argmax":
        return {"x": random.normal(size=(1, 16, 8, 8)).astype(np.float32)}
    if name == "gather":
        x = np.arange(10, dtype=np.float32) / 2
        return {"x": x, "idx": random.integers(0, 10, (1, 2, 3, 4))}
    if name == "truth":
        return {"c": random.integers(0, 2, (1, 3, 4, 5)) > 0}
    return {key: random.integers(-100, 100, (1, 5)).astype(np.int32) for key in "ab"}


def expected(name: str) -> NDArray[Any]:
    """What the ONNX network makes of `feed`."""
    given = feed(name)
    result: NDArray[Any]
    if name == "argmax":
        result = np.argmax(given["x"].astype(np.float16), 1, keepdims=True)
    elif name == "gather":
        result = given["x"][given["idx"]]
    elif name == "truth":
        result = given["c"].astype(np.float32)
    else:
        result = given["a"] + given["b"]
    return result


def run(name: str) -> dict[str, Any]:
    """The output by a session's calls."""
    with anynpu.InferenceSession(file(name)) as session:
        given = feed(name)
        (node,) = session.get_outputs()
        return {
            "type": node.type,
            "run": session.run(None, given)[0],
            "submit": session.submit(None, given).result()[0],
        }
