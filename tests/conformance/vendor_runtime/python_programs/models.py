"""`Model` on one file: what it tells of it, and what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np

import anynpu


def describe(path: str) -> dict[str, Any]:
    """The library's version and the tensors of a file."""
    with anynpu.Model(path) as model:
        return {
            "inputs": [str(attr) for attr in model.input_attrs],
            "outputs": [str(attr) for attr in model.output_attrs],
        }


def run(path: str, dtype: str, seed: int = 7) -> dict[str, Any]:
    """Outputs of one run on random inputs of a dtype, as the device has them and as float32."""
    random = np.random.default_rng(seed)
    with anynpu.Model(path) as model:
        inputs = [random.integers(0, 100, attr.shape).astype(dtype) for attr in model.input_attrs]
        model.run(*inputs)
        return {
            f"{kind}{index}": np.array(read(index))
            for index in range(len(model.output_attrs))
            for kind, read in (("raw", model.output_raw), ("real", model.output_f32))
        }
