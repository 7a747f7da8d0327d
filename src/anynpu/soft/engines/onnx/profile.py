"""Time the layers of a run with ONNX Runtime's profiler."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ....errors import ModelError
from ..program import CustomNode, MeasuredLayer
from . import runtime as onnxruntime
from .limits import Limits

_KERNEL = "_kernel_time"
_SIZES = ("activation_size", "parameter_size", "output_size")


def profiled_run(
    open_session: Callable[[onnxruntime.SessionOptions], onnxruntime.InferenceSession],
    options: onnxruntime.SessionOptions,
    feeds: Mapping[str, NDArray[Any]],
    limits: Limits,
) -> tuple[MeasuredLayer, ...]:
    """Run twice in a session of its own, and return the layers of the second run in order.

    The first run warms the session up: it would count allocations. Raises `ModelError` where the
    run fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = open_session(options)
        try:
            for _ in range(2):
                run_options = onnxruntime.RunOptions()
                with limits.watched(run_options).run():
                    session.run(None, dict(feeds), run_options)
        except Exception as error:  # ONNX Runtime's errors have no base of their own
            raise ModelError(f"ONNX Runtime: {error}") from error
        events = json.loads(Path(session.end_profiling()).read_text())
    kernels = [event for event in events if event["name"].endswith(_KERNEL)]
    return tuple(_layer(event) for event in kernels[len(kernels) // 2 :])


def custom_layer(node: CustomNode, microseconds: int) -> MeasuredLayer:
    """A node that an operator from outside computed."""
    ports = (*node.inputs, *node.outputs)
    return MeasuredLayer(
        name=node.name,
        op_type=node.op_type,
        inputs=tuple(port.shape for port in node.inputs),
        output=next((port.shape for port in node.outputs), ()),
        dtype=next((port.dtype.name.lower() for port in node.outputs), ""),
        microseconds=microseconds,
        kilobytes=sum(port.dtype.size_of(port.elements) for port in ports) / 1024,
        on_cpu=True,
    )


def _layer(event: dict[str, Any]) -> MeasuredLayer:
    details = event["args"]
    inputs, outputs = details.get("input_type_shape", []), details.get("output_type_shape", [])
    return MeasuredLayer(
        name=event["name"].removesuffix(_KERNEL),
        op_type=details.get("op_name", ""),
        inputs=tuple(shape for entry in inputs for shape in _shapes(entry)),
        output=next((shape for entry in outputs for shape in _shapes(entry)), ()),
        dtype=next((name for entry in outputs for name in entry), ""),
        microseconds=int(event["dur"]),
        kilobytes=sum(int(details.get(key, 0)) for key in _SIZES) / 1024,
    )


def _shapes(entry: dict[str, list[int]]) -> list[tuple[int, ...]]:
    return [tuple(shape) for shape in entry.values()]
