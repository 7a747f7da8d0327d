"""Turn Python functions into C function pointers that never let an exception out."""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import soc as socs
from ...declarations import Function, ctype
from ...soc import Soc, VipSoc
from .. import call_log, faults
from ..failure import Conventions, Failure
from . import doors


def make_table(
    functions: Mapping[str, Function],
    implementations: Mapping[str, Callable[..., Any]],
    conventions: Conventions,
    chip: Soc | VipSoc | None = None,
) -> tuple[dict[str, int], list[Any]]:
    """(address by name, objects that must live as long as the addresses are used).

    Calls are made as of the chip, if one is given.
    """
    if chip is not None:
        implementations = {n: _on_chip(chip, each) for n, each in implementations.items()}
    callbacks = {
        name: functions[name].callback(_guard(functions[name], implementation, conventions))
        for name, implementation in implementations.items()
    }
    addresses = {
        name: doors.through(
            ctypes.cast(callback, ctypes.c_void_p).value or 0,
            _refusal(functions[name], conventions),
        )
        for name, callback in callbacks.items()
    }
    return addresses, list(callbacks.values())


def _refusal(function: Function, conventions: Conventions) -> int | None:
    return int(conventions.unavailable) if function.returns_code else no_result(function)


def _on_chip(chip: Soc | VipSoc, implementation: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with socs.using(chip):
            return implementation(*arguments)

    return call


def _told(name: str, message: str) -> str:
    """A message that names its call, once."""
    return message if f"{name}, " in message else f"{name}, {message}"


def no_result(function: Function) -> int | None:
    """What a function that failed returns, where that is no code: 0, or NULL."""
    result = ctype(function.result)
    is_number = result is not None and issubclass(result, ctypes.c_uint32)
    return 0 if is_number else None


def _guard(
    function: Function, implementation: Callable[..., Any], conventions: Conventions
) -> Callable[..., Any]:
    """Wrap an implementation: its `Failure` becomes a code, any other exception the internal one.

    A function with another result than a code gets 0 or NULL instead.
    """
    log, nothing, returns_code = conventions.log, no_result(function), function.returns_code

    def fail(code: int) -> int | None:
        call_log.failed(function.name, int(code) if returns_code else None)
        return int(code) if returns_code else nothing

    def guarded(arguments: tuple[Any, ...]) -> Any:
        try:
            # What the caller's program wants to hear of NumPy's warnings is for its own arrays.
            with np.errstate(all="ignore"):
                faults.check(function.name)
                result = implementation(*arguments)
            if not returns_code:
                return result
            return fail(result) if result else 0
        except Failure as failure:
            write = log.warning if failure.is_warning else log.error
            write(_told(function.name, failure.message))
            return fail(failure.code)
        except MemoryError:
            log.error(f"{function.name}, out of memory")
            return fail(conventions.out_of_memory)
        except ModuleNotFoundError as error:
            log.error(
                f"{function.name}, the soft NPU needs a package that isn't installed: {error}; "
                f"pip install 'anynpu[soft]'"
            )
        except BaseException:
            log.error(f"{function.name}, internal error:\n{traceback.format_exc()}")
        return fail(conventions.internal)

    def call(*arguments: Any) -> Any:
        outer = call_log.begin()
        try:
            return guarded(arguments)
        finally:
            call_log.end(outer)

    return call
