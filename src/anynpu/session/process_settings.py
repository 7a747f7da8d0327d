"""ONNX Runtime's functions for a whole process."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec

from .._version import __version__
from ..errors import OptionError

_SEVERITIES = range(5)


def set_default_logger_severity(severity: int) -> None:
    """Take the least severity that ONNX Runtime would log, 0 to 4; the vendors' log is their own.

    ``RKNN_LOG_LEVEL`` chooses for the RKNN runtime. Raises `OptionError` for other numbers.
    """
    if severity not in _SEVERITIES:
        raise OptionError(f"severity is {severity!r}; it takes 0 (verbose) to 4 (fatal)")


def set_default_logger_verbosity(verbosity: int) -> None:
    """Take how much ONNX Runtime would log of what is verbose."""


def enable_telemetry_events() -> None:
    """Nothing: nothing is ever sent."""


def disable_telemetry_events() -> None:
    """Nothing: nothing is ever sent."""


def set_seed(seed: int) -> None:
    """Seed the random operators of ONNX files, which the soft NPU computes by ONNX Runtime.

    It is for sessions made afterwards, and nothing where ONNX Runtime isn't installed: compiled
    models have no such operators. Raises `OptionError` for what is no whole number.
    """
    if not isinstance(seed, int):
        raise OptionError(f"a seed is a whole number; found {seed!r}")
    if find_spec("onnxruntime") is not None:
        import onnxruntime

        onnxruntime.set_seed(seed)


def get_build_info() -> str:
    """What this is: the version, the processor's architecture, the form of its C kernels."""
    from ..native import forms

    kernels = forms.running() or "not built"
    return f"anynpu {__version__}, {platform.machine()}, C kernels: {kernels}"


def preload_dlls(
    cuda: bool = True,
    cudnn: bool = True,
    msvc: bool = True,
    directory: str | os.PathLike[str] | None = None,
) -> None:
    """Nothing: no NPU needs libraries of CUDA's."""
