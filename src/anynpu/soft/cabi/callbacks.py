"""Turn Python functions into C function pointers that never let an exception out."""

from __future__ import annotations

import _thread
import ctypes
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...rknn.abi import ErrorCode, Function
from .. import faults
from ..rknn import log
from ..rknn.failure import Failure

_REDELIVERY_DELAY = 0.001


def make_table(
    functions: Mapping[str, Function], implementations: Mapping[str, Callable[..., Any]]
) -> tuple[dict[str, int], list[Any]]:
    """(address by name, objects that must live as long as the addresses are used)."""
    callbacks = {
        name: functions[name].callback(_guard(functions[name], implementation))
        for name, implementation in implementations.items()
    }
    addresses = {
        name: ctypes.cast(callback, ctypes.c_void_p).value or 0
        for name, callback in callbacks.items()
    }
    return addresses, list(callbacks.values())


def _guard(function: Function, implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an implementation: its `Failure` becomes a code, any other exception RKNN_ERR_FAIL.

    A function with another result than a code gets NULL instead.
    """
    returns_code = function.result is ctypes.c_int

    def call(*arguments: Any) -> Any:
        try:
            # What the caller's program wants to hear of NumPy's warnings is for its own arrays.
            with np.errstate(all="ignore"):
                faults.check(function.name)
                result = implementation(*arguments)
            return (result or 0) if returns_code else result
        except Failure as failure:
            write = log.warning if failure.is_warning else log.error
            write(f"{function.name}, {failure.message}")
            return int(failure.code) if returns_code else None
        except MemoryError:
            log.error(f"{function.name}, out of memory")
            return int(ErrorCode.MALLOC_FAIL) if returns_code else None
        except KeyboardInterrupt:
            # C is between us and the program that Ctrl-C is meant for.
            threading.Timer(_REDELIVERY_DELAY, _thread.interrupt_main).start()
        except BaseException:
            log.error(f"{function.name}, internal error:\n{traceback.format_exc()}")
        return int(ErrorCode.FAIL) if returns_code else None

    return call
