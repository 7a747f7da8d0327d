"""ONNX Runtime's functions for a whole process: they are taken, and change no result."""

from __future__ import annotations

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
