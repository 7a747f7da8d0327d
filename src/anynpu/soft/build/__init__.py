"""Prepare a model: soft `.rknn` and `.nb` files from ONNX, with calibration and quantisation."""

from .options import BuildOptions
from .rknn_file import build, build_file

__all__ = ["BuildOptions", "build", "build_file"]
