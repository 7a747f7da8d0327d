"""A model of several input shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

import anynpu

SIZES = (24, 32, 16, 24)


def by_session(path: str) -> dict[str, Any]:
    """A session takes every shape of the file, in any order; one feed after another."""
    random = np.random.default_rng(3)
    with anynpu.InferenceSession(path, provider_options={"layout": "nhwc"}) as session:
        name = session.get_inputs()[0].name
        found: dict[str, Any] = {"shape": session.get_inputs()[0].shape}
        for place, size in enumerate(SIZES):
            value = random.uniform(-2, 2, (1, size, size, 16)).astype(np.float32)
            found[f"{place} {size}"] = session.run(None, {name: value})[0]
        return found
