"""Engines compute a model: each takes a model file and gives a `Program`."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import ModelError
from ..formats import rknn as rknn_format
from .program import Instance, Normalization, Port, Program

__all__ = ["Instance", "Normalization", "Port", "Program", "load"]


def load(model: bytes | str | os.PathLike[str]) -> Program:
    """The program of a model file, given as bytes or as a path.

    Takes ONNX files and soft `.rknn` files. Raises `ModelError` for what can't be read or run,
    and OSError for a path that can't be opened.
    """
    data = model if isinstance(model, bytes) else Path(model).read_bytes()
    if rknn_format.is_rknn(data):
        container = rknn_format.read(data)
        if container.onnx is None:
            raise ModelError(
                f"this is a compiled file for {container.target}: the soft NPU runs ONNX files "
                f"and soft .rknn files (anynpu build model.onnx -o model.rknn)"
            )
        data = container.onnx
    # Needs ONNX Runtime, which is not there on a board.
    from .onnx import OnnxProgram

    return OnnxProgram(data)
