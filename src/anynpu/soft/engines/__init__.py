"""Engines compute a model: each takes a model file and gives a `Program`."""

from __future__ import annotations

from ..formats import rknn as rknn_format
from .program import (
    NOT_CUSTOMIZED,
    CustomCall,
    Customization,
    CustomNode,
    Instance,
    Layer,
    LoweredModel,
    MeasuredLayer,
    MissingOperatorError,
    NativeForm,
    Normalization,
    Port,
    Program,
    Refusal,
    Variant,
)
from .source import ModelBytes, ModelSource

__all__ = [
    "NOT_CUSTOMIZED",
    "CustomCall",
    "CustomNode",
    "Customization",
    "Instance",
    "Layer",
    "LoweredModel",
    "MeasuredLayer",
    "MissingOperatorError",
    "ModelBytes",
    "ModelSource",
    "NativeForm",
    "Normalization",
    "Port",
    "Program",
    "Refusal",
    "Variant",
    "load",
]


def load(source: ModelSource, weights: Program | None = None) -> Program:
    """The program of a model file; `weights` has those that were removed from it.

    Takes ONNX files, soft `.rknn` files and compiled ones. Raises `ModelError` for what can't be
    read or run, and OSError for a path that can't be opened.
    """
    # What they need is not there on a board.
    if rknn_format.is_compiled(source.begin()):
        from .compiled.program import CompiledProgram

        return CompiledProgram(source.mapped(), weights)
    from .onnx.program import OnnxProgram

    return OnnxProgram(source, weights)
