"""What VIPLite's error codes mean, as exceptions: `VipliteLibrary.check` goes round every call."""

from __future__ import annotations

from ..call_status import CallStatus
from ..errors import (
    CallCancelledError,
    CallError,
    CallTimeoutError,
    DeviceError,
    InvalidArgumentError,
    InvalidModelError,
    OutOfMemoryError,
)
from .abi import Status

_MEANINGS: dict[Status, tuple[type[CallError], str]] = {
    Status.TIMEOUT: (
        CallTimeoutError,
        "the NPU did not finish in time; where every run ends so, the kernel driver and the user "
        "library are of different versions",
    ),
    Status.IO: (DeviceError, "reading, writing or talking to the driver failed"),
    Status.INVALID_ARGUMENTS: (InvalidArgumentError, "an argument is invalid"),
    Status.NOT_SUPPORTED: (CallError, "this library or NPU doesn't support it"),
    Status.OUT_OF_RESOURCE: (OutOfMemoryError, "the driver's resources are exhausted"),
    Status.OUT_OF_MEMORY: (OutOfMemoryError, "memory for the device could not be allocated"),
    Status.INVALID_NETWORK: (
        InvalidModelError,
        "the network binary is damaged, or not of a kind that this library reads",
    ),
    Status.MISSING_INPUT_OUTPUT: (CallError, "an input or output has no buffer"),
    Status.NETWORK_NOT_PREPARED: (CallError, "the network is not prepared"),
    Status.NETWORK_INCOMPATIBLE: (
        InvalidModelError,
        "the network binary is for another NPU than this one; convert the model for this chip",
    ),
    Status.FAILURE: (CallError, "it failed"),
    Status.POWER_OFF: (DeviceError, "the NPU is powered off"),
    Status.POWER_STOP: (DeviceError, "the NPU is stopped, or broken"),
    Status.RECOVERY: (DeviceError, "the NPU hung and was reset; run again"),
    Status.CANCELED: (CallCancelledError, "the network was cancelled"),
    Status.NAN_INF: (CallError, "a result is infinite or no number"),
    Status.FUSA: (DeviceError, "the NPU's safety checks found a fault"),
}

STATUS = CallStatus(Status, _MEANINGS, "not in the VIPLite API 2.0")
error_for, check = STATUS.error_for, STATUS.check
