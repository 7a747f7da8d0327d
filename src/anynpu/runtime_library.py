"""How a vendor's runtime library is found, or the soft NPU in its place.

The search is every vendor's: the explicit argument, the vendor's own variable, the names and
folders where its library usually is, then the soft NPU. ``$ANYNPU_DEVICE`` decides what may be
used: ``board`` (a vendor's library or an error), ``soft`` (the soft NPU unless a library is given
as an argument) or ``auto`` (the default: whatever comes first).
"""

from __future__ import annotations

import ctypes
import enum
import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from . import process
from .call_status import CallStatus
from .declarations import Function
from .errors import (
    CallError,
    LibraryError,
    LibraryNotFoundError,
    MissingFunctionError,
    OptionError,
    SoftNpuWarning,
)

DEVICE_VARIABLE = "ANYNPU_DEVICE"
SOFT = "soft"
SOFT_MARKER = "anynpu_soft_npu"
"""A symbol that only the soft NPU's own shared library exports."""

Binder = Callable[[Function], Callable[..., int] | None]
"""Gives a function as Python calls it, None where the library lacks it."""


class Device(enum.Enum):
    """What ``$ANYNPU_DEVICE`` may say."""

    AUTO = "auto"
    BOARD = "board"
    SOFT = "soft"

    @classmethod
    def chosen(cls) -> Device:
        """The device asked for by the environment; raises `OptionError` for another word."""
        word = os.environ.get(DEVICE_VARIABLE, "").strip().lower() or cls.AUTO.value
        try:
            return cls(word)
        except ValueError:
            known = ", ".join(member.value for member in cls)
            raise OptionError(f"${DEVICE_VARIABLE} is {word!r}; it may be {known}") from None


class RuntimeLibrary:
    """A loaded runtime; each function declared for it is an attribute, typed and callable.

    A function that the library lacks raises `MissingFunctionError` when it is used. Functions
    release the GIL while they run. May be shared between threads.
    """

    api: str
    """What error messages call the C API."""
    status: CallStatus
    """What its codes mean."""

    def __init__(
        self, path: str, functions: Mapping[str, Function], bind: Binder, *, is_soft: bool
    ) -> None:
        self.path = path
        self.is_soft = is_soft
        self._functions = functions
        self._bind = bind

    def __getattr__(self, name: str) -> Callable[..., int]:
        try:
            function = self._functions[name]
        except KeyError:
            raise AttributeError(f"{self.api} has no function {name!r}") from None
        bound = self._bind(function)
        if bound is None:
            raise MissingFunctionError(
                f"{self.path} has no {name}; it comes with version {function.since} of the "
                f"runtime library, update the library to use it"
            )
        setattr(self, name, bound)
        return bound

    def has(self, name: str) -> bool:
        """Whether the library exports a function."""
        try:
            getattr(self, name)
        except MissingFunctionError:
            return False
        return True

    def address_of(self, name: str) -> int:
        """Where a function is, for C to call it."""
        address = ctypes.cast(getattr(self, name), ctypes.c_void_p).value
        assert address, "a bound function has an address"
        return address

    def check(self, call: str, code: int, detail: str = "") -> None:
        """Raise the exception for a code that a call on this thread returned, unless it is 0."""
        if code != 0:
            raise self.error_for(call, code, detail)

    def error_for(
        self, call: str, code: int, detail: str = "", span: tuple[int, int] | None = None
    ) -> CallError:
        """The exception for a code that a call on this thread returned; `detail` says more.

        A call on another thread was between two times, in nanoseconds of `time.monotonic`. `call`
        may have a note in parentheses after the function's name.
        """
        log = self._log_of(call.partition("(")[0], code, span) if self.is_soft else ()
        return self.status.error_for(call, code, detail, log)

    def _log_of(self, call: str, code: int, span: tuple[int, int] | None) -> tuple[str, ...]:
        """What the soft NPU logged during a call."""
        return ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"


def from_shared(shared: ctypes.CDLL) -> Binder:
    """The functions that a shared library exports."""

    def bind(function: Function) -> Callable[..., int] | None:
        try:
            bound: Callable[..., int] = function.prototype((function.name, shared))
        except AttributeError:
            return None
        return bound

    return bind


def from_table(table: Mapping[str, int]) -> Binder:
    """The functions whose addresses a table has."""

    def bind(function: Function) -> Callable[..., int] | None:
        address = table.get(function.name)
        if address is None:
            return None
        bound: Callable[..., int] = function.prototype(address)
        return bound

    return bind


_LibraryT = TypeVar("_LibraryT", bound=RuntimeLibrary)


class Search(ABC, Generic[_LibraryT]):
    """A vendor's search. `variable` may name its library in the environment."""

    vendor: str
    variable: str
    install_hint: str
    """What to install for a board."""
    kind: type[_LibraryT]

    def __init__(self) -> None:
        self._lock = process.forkable(threading.RLock())
        self._loaded: dict[str, _LibraryT] = {}
        self._has_warned = False

    @abstractmethod
    def candidates(self) -> Iterator[str]:
        """Names and paths where the library usually is, for the dynamic loader."""

    @abstractmethod
    def open(self, name: str) -> _LibraryT:
        """Load a library; raises OSError, or `LibraryError` where that ends the search."""

    @abstractmethod
    def open_soft(self) -> tuple[str, Callable[[], _LibraryT]]:
        """The soft NPU that the environment asks for: what tells it from others, how to make it."""

    def load(self, library: str | os.PathLike[str] | _LibraryT | None) -> _LibraryT:
        """The runtime library to use.

        `library` is a path or a name for the dynamic loader, ``"soft"`` for the soft NPU, an
        already loaded library, or None for the search. Raises `LibraryNotFoundError`, which lists
        what was tried, and why each failed.
        """
        if isinstance(library, RuntimeLibrary):
            return self._of_this_kind(library)
        device = Device.chosen()
        if library is not None:
            return self._load_named(os.fspath(library), "the library argument")
        if device is Device.SOFT:
            return self._soft()
        if named := os.environ.get(self.variable):
            return self._load_named(named, f"${self.variable}", device is Device.BOARD)
        return self._search(device)

    def _of_this_kind(self, library: RuntimeLibrary) -> _LibraryT:
        if not isinstance(library, self.kind):
            raise OptionError(
                f"{library!r} isn't a library for {self.kind.api}, which the model needs"
            )
        return library

    def _load_named(self, name: str, where: str, board_only: bool = False) -> _LibraryT:
        if name == SOFT and not board_only:
            return self._soft()
        try:
            return self._open(name, board_only)
        except LibraryError:
            raise
        except OSError as error:
            raise LibraryNotFoundError(
                f"the runtime library named by {where} can't be loaded; check the path, and that "
                f"it is for this process's architecture ({os.uname().machine})",
                [(name, str(error))],
            ) from error

    def _search(self, device: Device) -> _LibraryT:
        attempts: list[tuple[str, str]] = []
        for candidate in self.candidates():
            try:
                return self._open(candidate, device is Device.BOARD)
            except LibraryError:
                raise
            except OSError as error:
                attempts.append((candidate, str(error)))
        if device is Device.BOARD:
            raise LibraryNotFoundError(
                f"${DEVICE_VARIABLE} asks for a board, but no runtime library can be loaded; "
                f"install {self.install_hint}, or name it in ${self.variable}. Tried:",
                attempts,
            )
        self._warn_of_soft_npu()
        return self._soft()

    def _open(self, name: str, board_only: bool) -> _LibraryT:
        library = self._once(name, lambda: self.open(name))
        if board_only and library.is_soft:
            raise OSError("this is anynpu's soft NPU, not a vendor's library")
        return library

    def _soft(self) -> _LibraryT:
        process.check()
        what, make = self.open_soft()
        return self._once(f"{SOFT} {what}", make)

    def _once(self, key: str, make: Callable[[], _LibraryT]) -> _LibraryT:
        with self._lock:
            library = self._loaded.get(key)
            if library is None:
                library = self._loaded[key] = make()
        return library

    def _warn_of_soft_npu(self) -> None:
        with self._lock:
            if self._has_warned:
                return
            self._has_warned = True
        warnings.warn(
            f"no {self.vendor} runtime library was found: models run on anynpu's soft NPU, a "
            f"simulation. Set {DEVICE_VARIABLE}=soft to choose it silently, or "
            f"{DEVICE_VARIABLE}=board to make this an error.",
            SoftNpuWarning,
            stacklevel=5,
        )
