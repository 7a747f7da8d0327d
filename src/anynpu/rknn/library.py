"""Find and load a Rockchip runtime library, or the soft NPU in its place.

The search: the explicit argument, ``$ANYNPU_RKNN_LIBRARY``, the dynamic loader's own search for
librknnrt.so and librknnmrt.so, /usr/lib, /vendor/lib64, then the soft NPU. ``$ANYNPU_DEVICE``
decides what may be used: ``board`` (a vendor's library or an error), ``soft`` (the soft NPU
unless a library is given as an argument) or ``auto`` (the default: whatever comes first).
"""

from __future__ import annotations

import ctypes
import enum
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .. import soc as socs
from ..errors import (
    LibraryError,
    LibraryNotFoundError,
    MissingFunctionError,
    OptionError,
    SoftNpuWarning,
)
from .abi import FUNCTIONS, Function

LIBRARY_VARIABLE = "ANYNPU_RKNN_LIBRARY"
DEVICE_VARIABLE = "ANYNPU_DEVICE"
SOFT = "soft"
SOFT_MARKER = "anynpu_soft_npu"
"""A symbol that only the soft NPU's own shared library exports."""

_NAMES = ("librknnrt.so", "librknnmrt.so")
_FOLDERS = (Path("/usr/lib"), Path("/vendor/lib64"))


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


class RknnLibrary:
    """A loaded runtime; each function of `abi.FUNCTIONS` is an attribute, typed and callable.

    A function that the library lacks raises `MissingFunctionError` when it is used. Functions
    release the GIL while they run. May be shared between threads.
    """

    def __init__(
        self,
        path: str,
        bind: Callable[[Function], Callable[..., int] | None],
        is_soft: bool,
        shared: Callable[[], str],
    ) -> None:
        self.path = path
        self.is_soft = is_soft
        self._bind = bind
        self._shared = shared

    def __getattr__(self, name: str) -> Callable[..., int]:
        try:
            function = FUNCTIONS[name]
        except KeyError:
            raise AttributeError(f"the RKNN API has no function {name!r}") from None
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

    def expose(self) -> None:
        """Let shared libraries that are loaded from now on find the runtime's functions.

        Plugins call them by their names. For the soft NPU this builds its shared library where it
        isn't there yet; raises `LibraryError` where that fails.
        """
        try:
            ctypes.CDLL(self._shared(), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise LibraryError(f"{self.path} can't be shared with plugins: {error}") from error

    def __repr__(self) -> str:
        return f"<RknnLibrary {self.path}>"


_lock = threading.Lock()
_loaded: dict[str, RknnLibrary] = {}
_warned = False


def load(library: str | os.PathLike[str] | RknnLibrary | None = None) -> RknnLibrary:
    """The runtime library to use.

    `library` is a path or a name for the dynamic loader, ``"soft"`` for the soft NPU, an already
    loaded library, or None for the search that the module describes. Raises
    `LibraryNotFoundError`, which lists what was tried, and why each failed.
    """
    if isinstance(library, RknnLibrary):
        return library
    device = Device.chosen()
    if library is not None:
        return _load_named(os.fspath(library), "the library argument")
    if device is Device.SOFT:
        return _soft()
    if named := os.environ.get(LIBRARY_VARIABLE):
        return _load_named(named, f"${LIBRARY_VARIABLE}", board_only=device is Device.BOARD)
    return _search(device)


def _load_named(name: str, where: str, board_only: bool = False) -> RknnLibrary:
    if name == SOFT and not board_only:
        return _soft()
    try:
        return _open(name, board_only)
    except OSError as error:
        raise LibraryNotFoundError(
            f"the runtime library named by {where} can't be loaded", [(name, str(error))]
        ) from error


def _search(device: Device) -> RknnLibrary:
    attempts: list[tuple[str, str]] = []
    for candidate in _candidates():
        try:
            return _open(candidate, board_only=device is Device.BOARD)
        except OSError as error:
            attempts.append((candidate, str(error)))
    if device is Device.BOARD:
        raise LibraryNotFoundError(
            f"${DEVICE_VARIABLE} asks for a board, but no runtime library can be loaded; "
            f"install librknnrt.so, or name it in ${LIBRARY_VARIABLE}. Tried:",
            attempts,
        )
    _warn_of_soft_npu()
    return _soft()


def _candidates() -> Iterator[str]:
    yield from _NAMES
    for folder in _FOLDERS:
        yield from (str(folder / name) for name in _NAMES)


def _open(name: str, board_only: bool) -> RknnLibrary:
    with _lock:
        library = _loaded.get(name)
        if library is None:
            shared = ctypes.CDLL(name)
            is_soft = hasattr(shared, SOFT_MARKER)
            library = _loaded[name] = RknnLibrary(name, _binder(shared), is_soft, lambda: name)
    if board_only and library.is_soft:
        raise OSError("this is anynpu's soft NPU, not a vendor's library")
    return library


def _binder(shared: ctypes.CDLL) -> Callable[[Function], Callable[..., int] | None]:
    def bind(function: Function) -> Callable[..., int] | None:
        try:
            bound: Callable[..., int] = function.prototype((function.name, shared))
        except AttributeError:
            return None
        return bound

    return bind


def _soft() -> RknnLibrary:
    # The one place above the C ABI that knows of the soft NPU.
    from ..soft.rknn import function_table, shared_library

    name = (socs.chosen() or socs.DEFAULT).library
    with _lock:
        library = _loaded.get(f"{SOFT} {name}")
        if library is None:
            library = _loaded[f"{SOFT} {name}"] = RknnLibrary(
                "the soft NPU",
                _table_binder(function_table(name)),
                is_soft=True,
                shared=lambda: shared_library(name),
            )
    return library


def _table_binder(
    table: Mapping[str, int],
) -> Callable[[Function], Callable[..., int] | None]:
    def bind(function: Function) -> Callable[..., int] | None:
        address = table.get(function.name)
        if address is None:
            return None
        bound: Callable[..., int] = function.prototype(address)
        return bound

    return bind


def _warn_of_soft_npu() -> None:
    global _warned
    with _lock:
        if _warned:
            return
        _warned = True
    warnings.warn(
        "no Rockchip runtime library was found: models run on anynpu's soft NPU, a simulation. "
        f"Set {DEVICE_VARIABLE}=soft to choose it silently, or {DEVICE_VARIABLE}=board to make "
        "this an error.",
        SoftNpuWarning,
        stacklevel=4,
    )
