"""The ONNX file of a source."""

from __future__ import annotations

from pathlib import Path

from ....errors import ModelError
from ...formats import rknn as rknn_format
from ..source import ModelSource


def onnx_bytes(source: ModelSource) -> bytes:
    """The ONNX file of a source: the file itself, or what a soft `.rknn` file carries."""
    data = source.read()
    if not rknn_format.is_rknn(data):
        return data
    container = rknn_format.read(data)
    if container.onnx is None:
        raise ModelError(f"this is a compiled file for {container.target}, it has no ONNX file")
    return container.onnx


def onnx_path(source: ModelSource) -> Path | None:
    """Where the ONNX file lies that `onnx_bytes` gives, if that is a file of its own."""
    return None if rknn_format.is_rknn(source.begin()) else source.path
