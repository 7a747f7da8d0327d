"""A session's outputs in each layout and dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

import anynpu

OPTIONS: dict[str, dict[str, Any]] = {
    "planes": {},
    "nhwc": {"output_layout": "nhwc"},
    "model's dtype": {"output_dtype": "model"},
    "native": {"output_layout": "native"},
    "native, model's dtype": {"output_layout": "native", "output_dtype": "model"},
    "one core": {"schedule": [0]},
    "no duplicates": {"disable_dup_context": True},
}


def run(path: str) -> dict[str, Any]:
    """The first output for one feed, by each set of options."""
    found: dict[str, Any] = {}
    for name, options in OPTIONS.items():
        given = {"layout": "nhwc", **options}
        with anynpu.InferenceSession(path, provider_options=given) as session:
            random = np.random.default_rng(6)
            feed = {
                node.name: random.integers(0, 90, node.shape).astype(np.float32)
                for node in session.get_inputs()
            }
            found[name] = session.run(None, feed)[0]
    return found
