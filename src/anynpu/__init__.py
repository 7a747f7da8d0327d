"""anynpu: one Python runtime for the NPUs of edge SoCs.

    import anynpu

    session = anynpu.InferenceSession("model.rknn")     # or a .nb
    outputs = session.run(None, {"images": images})

    with anynpu.Model("model.rknn") as model:
        model.run(image)
        scores = model.output_f32(0)

On a board both run through the vendor's library, elsewhere on the soft NPU. Names are loaded when
they are first used, so importing the package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import compat, errors, rknn, viplite
    from .backends.rknn.options import RknnProviderOptions, make_provider_options
    from .backends.viplite.options import VipliteProviderOptions
    from .errors import (
        AnynpuError,
        CallCancelledError,
        CallError,
        CallTimeoutError,
        ClosedError,
        DeviceError,
        InUseError,
        InvalidArgumentError,
        InvalidContextError,
        InvalidModelError,
        LibraryError,
        LibraryNotFoundError,
        MissingFunctionError,
        ModelError,
        OptionError,
        OutOfMemoryError,
        ProviderWarning,
        QueueFullError,
        RejectedRequestError,
        ServerAccessError,
        ServerAnswerError,
        ServerBusyError,
        ServerError,
        ServerTimeoutError,
        ServerUnavailableError,
        SoftNpuWarning,
        StateError,
        TensorError,
        UnknownModelError,
    )
    from .layouts import (
        dequantize_affine,
        dequantize_nc1hwc2,
        nc1hwc2_to_nchw,
        nchw_to_nc1hwc2,
        quantize_affine,
    )
    from .model import Model
    from .rknn.matmul import matmul
    from .session import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        InferenceFuture,
        InferenceSession,
        IOBinding,
        ModelMetadata,
        NodeArg,
        OrtValue,
        Profile,
        RunOptions,
        SessionIOBinding,
        SessionOptions,
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_available_providers,
        get_build_info,
        get_device,
        preload_dlls,
        set_default_logger_severity,
        set_default_logger_verbosity,
        set_seed,
    )
    from .tensor import DType, Layout, Quantization, TensorInfo

__all__ = [
    "AnynpuError",
    "CallCancelledError",
    "CallError",
    "CallTimeoutError",
    "ClosedError",
    "DType",
    "DeviceError",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InUseError",
    "InferenceFuture",
    "InferenceSession",
    "InvalidArgumentError",
    "InvalidContextError",
    "InvalidModelError",
    "Layout",
    "LibraryError",
    "LibraryNotFoundError",
    "MissingFunctionError",
    "Model",
    "ModelError",
    "ModelMetadata",
    "NodeArg",
    "OptionError",
    "OrtValue",
    "OutOfMemoryError",
    "Profile",
    "ProviderWarning",
    "Quantization",
    "QueueFullError",
    "RejectedRequestError",
    "RknnProviderOptions",
    "RunOptions",
    "ServerAccessError",
    "ServerAnswerError",
    "ServerBusyError",
    "ServerError",
    "ServerTimeoutError",
    "ServerUnavailableError",
    "SessionIOBinding",
    "SessionOptions",
    "SoftNpuWarning",
    "StateError",
    "TensorError",
    "TensorInfo",
    "UnknownModelError",
    "VipliteProviderOptions",
    "__version__",
    "compat",
    "dequantize_affine",
    "dequantize_nc1hwc2",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "errors",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "make_provider_options",
    "matmul",
    "nc1hwc2_to_nchw",
    "nchw_to_nc1hwc2",
    "preload_dlls",
    "quantize_affine",
    "rknn",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
    "viplite",
]

_MODULES = ("compat", "errors", "rknn", "viplite")

_HOMES = {
    "backends.rknn.options": ("RknnProviderOptions", "make_provider_options"),
    "backends.viplite.options": ("VipliteProviderOptions",),
    "layouts": (
        "dequantize_affine",
        "dequantize_nc1hwc2",
        "nc1hwc2_to_nchw",
        "nchw_to_nc1hwc2",
        "quantize_affine",
    ),
    "model": ("Model",),
    "rknn.matmul": ("matmul",),
    "session": (
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
    ),
    "tensor": ("DType", "Layout", "Quantization", "TensorInfo"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    value = getattr(import_module(f".{_HOME_OF.get(name, 'errors')}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
