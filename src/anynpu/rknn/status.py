"""What RKNN's error codes mean, as exceptions: `RknnLibrary.check` goes round every C call."""

from __future__ import annotations

from ..call_status import CallStatus
from ..errors import (
    CallError,
    CallTimeoutError,
    DeviceError,
    InvalidArgumentError,
    InvalidContextError,
    InvalidModelError,
    OutOfMemoryError,
)
from .abi import ErrorCode

_MEANINGS: dict[ErrorCode, tuple[type[CallError], str]] = {
    ErrorCode.FAIL: (CallError, "execution failed"),
    ErrorCode.TIMEOUT: (CallTimeoutError, "the device did not finish in time"),
    ErrorCode.DEVICE_UNAVAILABLE: (
        DeviceError,
        "no NPU is available; check that the driver is loaded and /dev/dri is accessible",
    ),
    ErrorCode.MALLOC_FAIL: (OutOfMemoryError, "memory for the device could not be allocated"),
    ErrorCode.PARAM_INVALID: (InvalidArgumentError, "an argument is invalid"),
    ErrorCode.MODEL_INVALID: (
        InvalidModelError,
        "the model is damaged, or not of a kind that this library reads",
    ),
    ErrorCode.CTX_INVALID: (InvalidContextError, "the context was destroyed or never initialised"),
    ErrorCode.INPUT_INVALID: (InvalidArgumentError, "an input is invalid or was not set"),
    ErrorCode.OUTPUT_INVALID: (InvalidArgumentError, "an output is invalid or not yet computed"),
    ErrorCode.DEVICE_UNMATCH: (
        DeviceError,
        "driver and library versions don't match; update the older one",
    ),
    ErrorCode.INCOMPATILE_PRE_COMPILE_MODEL: (
        InvalidModelError,
        "the model is precompiled for another driver; convert it again",
    ),
    ErrorCode.INCOMPATILE_OPTIMIZATION_LEVEL_VERSION: (
        InvalidModelError,
        "the model's optimisation level doesn't fit this driver; convert it again",
    ),
    ErrorCode.TARGET_PLATFORM_UNMATCH: (
        DeviceError,
        "the model or the request is for another chip than this one: convert the model for this "
        "chip (the soft NPU is the one that $ANYNPU_SOC names)",
    ),
}

STATUS = CallStatus(ErrorCode, _MEANINGS, "not in the RKNN API 2.3.2")
error_for, check = STATUS.error_for, STATUS.check
