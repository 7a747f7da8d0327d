"""`InferenceSession`: ONNX Runtime's names on an NPU, many requests in flight, many cores."""

from .binding import SessionIOBinding
from .future import InferenceFuture
from .inference_session import InferenceSession
from .node import ModelMetadata, NodeArg
from .ort_value import OrtValue
from .process_settings import (
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    preload_dlls,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from .profile import Profile, Span, Stage
from .providers import available
from .run_options import RunOptions
from .session_options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    SessionOptions,
)

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceFuture",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "Profile",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "Span",
    "Stage",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]

IOBinding = SessionIOBinding


def get_available_providers() -> list[str]:
    """The execution providers that a session can have: by its model's first bytes."""
    return available()


get_all_providers = get_available_providers


def get_device() -> str:
    """What ONNX Runtime calls the kind of device that it was built for."""
    return "NPU"
