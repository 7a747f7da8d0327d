"""ONNX Runtime's own classes, from where they are defined.

A program may have put anynpu's in their place (``onnxruntime.InferenceSession =
anynpu.InferenceSession``); here it is the originals that compute.
"""

from __future__ import annotations

from onnxruntime.capi._pybind_state import (
    ExecutionMode,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession, OrtValue

__all__ = [
    "ExecutionMode",
    "GraphOptimizationLevel",
    "InferenceSession",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
]
