"""The exceptions of anynpu.

    AnynpuError
    ├── LibraryError (OSError)            no usable runtime library
    │   ├── LibraryNotFoundError          a board's library was asked for and none loads
    │   └── MissingFunctionError          the library is too old for a call
    ├── ModelError (ValueError)           a model file can't be read, or not be run here
    ├── TensorError (ValueError)          an array doesn't fit a tensor: name, shape, dtype, size
    │   └── TensorIndexError (IndexError) there is no tensor of that number
    ├── OptionError (ValueError, RuntimeError)    an unknown or contradictory option
    ├── StateError (RuntimeError)         called in the wrong order
    │   ├── ClosedError                   used after close()
    │   └── QueueFullError (TimeoutError) no place in a session's queue in time
    ├── ArgumentTypeError (TypeError)     an argument is of a type that means nothing there
    ├── InUseError (BufferError)          an array still shares the memory to be destroyed
    ├── CallError (RuntimeError)          a C call returned an error code
    │   ├── CallTimeoutError (TimeoutError)
    │   ├── CallCancelledError            the device's work was cancelled
    │   ├── OutOfMemoryError (MemoryError)
    │   ├── DeviceError                   no device, a driver that doesn't match, or the wrong chip
    │   ├── InvalidArgumentError (ValueError)
    │   ├── InvalidContextError           a destroyed or foreign handle
    │   └── InvalidModelError (ModelError)
    └── ServerError (RuntimeError)        a model's server answered with an error, or not at all
        ├── ServerUnavailableError (ConnectionError)
        ├── ServerTimeoutError (TimeoutError)
        ├── ServerBusyError (QueueFullError)
        ├── ServerAccessError (PermissionError)   it wants another token or certificate
        ├── ServerAnswerError             an answer that is none to the request
        ├── RejectedRequestError (TensorError)    it refused what the request holds
        └── UnknownModelError (ModelError)        it has no such model

Where users of ONNX Runtime expect a built-in exception, ours derives from it.
`SoftNpuWarning` is what a process gets once when it falls back to the simulated device,
`InputWarning` what a model gives once for values that are probably not what it takes,
`ProviderWarning` what says once that the model runs on the NPU's provider and not on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_LINES_IN_A_MESSAGE = 12
_ON_A_BOARD = "; the library's lines on the standard error stream say more"


class AnynpuError(Exception):
    """Base of every exception that anynpu raises on purpose."""


class LibraryError(AnynpuError, OSError):
    """No usable runtime library."""


class LibraryNotFoundError(LibraryError):
    """A board's library was asked for and none could be loaded.

    `attempts` lists (what was tried, why it failed) in the order of the search.
    """

    def __init__(self, message: str, attempts: Sequence[tuple[str, str]] = ()) -> None:
        self.attempts = tuple(attempts)
        lines = [message, *(f"  {what}: {why}" for what, why in self.attempts)]
        super().__init__("\n".join(lines))


class MissingFunctionError(LibraryError):
    """The loaded library lacks a function that a call needs."""


class ModelError(AnynpuError, ValueError):
    """A model file can't be read, or can't be run on this device."""


class TensorError(AnynpuError, ValueError):
    """An array doesn't fit the tensor it is given for."""


class TensorIndexError(TensorError, IndexError):
    """There is no input or output of that number."""


class OptionError(AnynpuError, ValueError, RuntimeError):
    """An option is unknown, malformed or contradicts another one."""


class StateError(AnynpuError, RuntimeError):
    """A method was called before what has to come first."""


class ClosedError(StateError):
    """An object was used after its `close()`."""


class QueueFullError(StateError, TimeoutError):
    """A request found no place in a session's queue in time."""


class ArgumentTypeError(AnynpuError, TypeError):
    """An argument is of a type that means nothing there."""


class InUseError(AnynpuError, BufferError):
    """Memory was to be destroyed while an array still shares it."""


class CallError(AnynpuError, RuntimeError):
    """A C call returned an error code.

    `call` is the C function's name, `code` its return value, `symbol` the code's name in the
    vendor's interface (such as ``RKNN_ERR_PARAM_INVALID``). `log` has the lines that the library
    logged during the call, the last ones of the message too. It is empty on a board: a vendor's
    library writes them to the standard error stream, from which they can't be told apart safely.
    """

    def __init__(
        self,
        call: str,
        code: int,
        symbol: str,
        meaning: str,
        detail: str = "",
        log: Sequence[str] = (),
    ) -> None:
        self.call = call
        self.code = code
        self.symbol = symbol
        self.log = tuple(log)
        said = "\n".join(self.log[-_LINES_IN_A_MESSAGE:])
        where = "" if said else _ON_A_BOARD
        parts = (f"{call} returned {symbol} ({code}): {meaning}{where}", detail, said)
        super().__init__("\n".join(part for part in parts if part))

    def __reduce__(self) -> tuple[Any, ...]:
        """What another process raises again: its message is made already."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(
    kind: type[CallError], arguments: tuple[Any, ...], state: dict[str, Any]
) -> CallError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


class CallTimeoutError(CallError, TimeoutError):
    """The device did not finish in time."""


class CallCancelledError(CallError):
    """The device's work was cancelled before it ended."""


class OutOfMemoryError(CallError, MemoryError):
    """The device's or the process's memory is exhausted."""


class DeviceError(CallError):
    """The device is missing, or model, driver and chip don't belong together."""


class InvalidArgumentError(CallError, ValueError):
    """The library rejected an argument."""


class InvalidContextError(CallError):
    """The library doesn't know the handle: destroyed, or from elsewhere."""


class InvalidModelError(CallError, ModelError):
    """The library rejected the model file."""


class ServerError(AnynpuError, RuntimeError):
    """A model's server answered with an error, or not at all.

    `address` is the server's, `code` the status code's name in gRPC (such as ``UNAVAILABLE``),
    `text` what the server said, empty where nothing came from it.
    """

    def __init__(self, message: str, address: str = "", code: str = "", text: str = "") -> None:
        self.address, self.code, self.text = address, code, text
        super().__init__(message)


class ServerUnavailableError(ServerError, ConnectionError):
    """No connection, or a server that can't answer now."""


class ServerTimeoutError(ServerError, TimeoutError):
    """A server did not answer in time."""


class ServerBusyError(ServerError, QueueFullError):
    """A server's queue stayed full."""


class ServerAccessError(ServerError, PermissionError):
    """A server wants another token, or another certificate."""


class ServerAnswerError(ServerError):
    """What a server answered is no answer to the request."""


class RejectedRequestError(ServerError, TensorError):
    """A server refused what a request holds."""


class UnknownModelError(ServerError, ModelError):
    """A server has no model of that name or version."""


class InputWarning(UserWarning):
    """Values were given that are probably not what the model takes."""


class ProviderWarning(UserWarning):
    """Execution providers were named that aren't used: the model runs on the NPU's."""


class SoftNpuWarning(UserWarning):
    """No vendor's library was found, so a simulated device runs the model."""
