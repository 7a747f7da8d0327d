"""Find and load a Rockchip runtime library, or the soft NPU in its place.

The search of `anynpu.runtime_library`, with ``$ANYNPU_RKNN_LIBRARY``, the dynamic loader's own
search for librknnrt.so and librknnmrt.so, /usr/lib and /vendor/lib64.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from .. import soc as socs
from ..errors import LibraryError
from ..runtime_library import (
    SOFT_MARKER,
    Binder,
    RuntimeLibrary,
    Search,
    from_shared,
    from_table,
)
from .abi import FUNCTIONS

_NAMES = ("librknnrt.so", "librknnmrt.so")
_FOLDERS = (Path("/usr/lib"), Path("/vendor/lib64"))


class RknnLibrary(RuntimeLibrary):
    """A loaded runtime with the functions of `abi.FUNCTIONS`."""

    api = "the RKNN API"

    def __init__(
        self, path: str, bind: Binder, shared: Callable[[], str], *, is_soft: bool
    ) -> None:
        super().__init__(path, FUNCTIONS, bind, is_soft=is_soft)
        self._shared = shared

    def expose(self) -> None:
        """Let shared libraries that are loaded from now on find the runtime's functions.

        Plugins call them by their names. For the soft NPU this builds its shared library where it
        isn't there yet; raises `LibraryError` where that fails.
        """
        try:
            ctypes.CDLL(self._shared(), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise LibraryError(f"{self.path} can't be shared with plugins: {error}") from error


class _RknnSearch(Search[RknnLibrary]):
    vendor = "Rockchip"
    variable = "ANYNPU_RKNN_LIBRARY"
    install_hint = "librknnrt.so"
    kind = RknnLibrary

    def candidates(self) -> Iterator[str]:
        yield from _NAMES
        for folder in _FOLDERS:
            yield from (str(folder / name) for name in _NAMES)

    def open(self, name: str) -> RknnLibrary:
        shared = ctypes.CDLL(name)
        is_soft = hasattr(shared, SOFT_MARKER)
        return RknnLibrary(name, from_shared(shared), lambda: name, is_soft=is_soft)

    def open_soft(self) -> tuple[str, Callable[[], RknnLibrary]]:
        # With its like for the other vendor, the place above the C ABI that knows the soft NPU.
        from ..soft.rknn import function_table, shared_library

        name = (socs.chosen() or socs.DEFAULT).library

        def make() -> RknnLibrary:
            table = from_table(function_table(name))
            shared = partial(shared_library, name)
            return RknnLibrary("the soft NPU", table, shared, is_soft=True)

        return name, make


_search = _RknnSearch()


def load(library: str | os.PathLike[str] | RknnLibrary | None = None) -> RknnLibrary:
    """The runtime library to use.

    `library` is a path or a name for the dynamic loader, ``"soft"`` for the soft NPU, an already
    loaded library, or None for the search that the module describes. Raises
    `LibraryNotFoundError`, which lists what was tried, and why each failed.
    """
    return _search.load(library)
