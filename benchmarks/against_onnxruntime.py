"""`Model.run` and `InferenceSession.run` against plain ONNX Runtime on the same network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnxruntime
from numpy.typing import NDArray

import anynpu

from . import networks
from .measure import Comparison, compare

GOAL = 1.10


def run(rounds: int) -> Iterator[Comparison]:
    """The ratio is anynpu's time over ONNX Runtime's."""
    for name, data, values in networks.trained():
        yield from _measure(name, data, values, rounds)


def _measure(
    name: str, data: bytes, values: NDArray[np.float32], rounds: int
) -> Iterator[Comparison]:
    plain = onnxruntime.InferenceSession(data)

    def run_plain() -> object:
        return plain.run(None, {"x": values})

    with anynpu.InferenceSession(data, provider_options={"library": "soft"}) as session:
        yield compare(
            f"InferenceSession.run / onnxruntime, {name}",
            lambda: session.run(None, {"x": values}),
            run_plain,
            rounds=rounds,
            goal=GOAL,
        )
    with anynpu.Model(data, library="soft") as model:

        def run_model() -> object:
            model.run(values)
            return model.output_f32(0)

        yield compare(
            f"Model.run / onnxruntime, {name}", run_model, run_plain, rounds=rounds, goal=GOAL
        )
