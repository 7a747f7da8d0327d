"""A session's outputs in each layout and dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

import anynpu

OPTIONS: dict[str, dict[str, Any]] = {
    "nhwc": {"output_layout": "nhwc"},
    "model's dtype": {"output_dtype": "model"},
    "native": {"output_layout": "native"},
    "native, model's dtype": {"output_layout": "native", "output_dtype": "model"},
    "software": {"layout": "original_software"},
    "one core": {"schedule": [0]},
    "no duplicates": {"disable_dup_context": True},
}


def run(path: str) -> dict[str, Any]:
    """The first output for one feed, by each set of options."""
    found: dict[str, Any] = {}
    for name, options in OPTIONS.items():
        with anynpu.InferenceSession(path, provider_options=options) as session:
            random = np.random.default_rng(6)
            feed = {
                node.name: random.integers(0, 90, node.shape).astype(np.float32)
                for node in session.get_inputs()
            }
            found[name] = session.run(None, feed)[0]
    return found


def in_device_memory(path: str) -> dict[str, Any]:
    """A binding whose tensors live in the device's memory."""
    with anynpu.InferenceSession(path) as session:
        random = np.random.default_rng(6)
        binding = session.io_binding()
        for node in session.get_inputs():
            value = random.integers(0, 90, node.shape).astype(np.float32)
            binding.bind_cpu_input(node.name, value)
        for node in session.get_outputs():
            binding.bind_output(node.name)
        session.run_with_iobinding(binding)
        outputs = binding.copy_outputs_to_cpu()
        return {str(place): value for place, value in enumerate(outputs)}
