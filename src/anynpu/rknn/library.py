"""Find and load a Rockchip runtime library, or the soft NPU in its place.

The search of `anynpu.runtime_library`, with ``$ANYNPU_RKNN_LIBRARY``, the dynamic loader's own
search for librknnrt.so and librknnmrt.so, /usr/lib and /vendor/lib64.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from functools import cache, partial
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
from .status import STATUS

_NAMES = ("librknnrt.so", "librknnmrt.so")
_FOLDERS = (Path("/usr/lib"), Path("/vendor/lib64"))


class RknnLibrary(RuntimeLibrary):
    """A loaded runtime with the functions of `abi.FUNCTIONS`."""

    api = "the RKNN API"
    status = STATUS

    def __init__(
        self,
        path: str,
        bind: Binder,
        shared: Callable[[], str],
        *,
        is_soft: bool,
        of_chip: Callable[[socs.Soc], RknnLibrary] | None = None,
    ) -> None:
        super().__init__(path, FUNCTIONS, bind, is_soft=is_soft)
        self._shared = shared
        self._of_chip = of_chip

    def for_chip(self, chip: socs.Soc) -> RknnLibrary:
        """The library as that of a chip: a board's is what it is, the soft NPU becomes that chip.

        What is created through it may be used through this one.
        """
        return self if self._of_chip is None else self._of_chip(chip)

    @property
    def is_small(self) -> bool:
        """Whether it is the runtime of RV1103 and RV1106, which has no functions for cores."""
        return not self.has("rknn_set_core_mask")

    def _log_of(self, call: str, code: int, span: tuple[int, int] | None) -> tuple[str, ...]:
        from ..soft.rknn import log_of_failed_call

        return log_of_failed_call(call, code, span)

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
        of_chip = partial(_soft, Path(name).stem.split(".")[0]) if is_soft else None
        bind = from_shared(shared)
        return RknnLibrary(name, bind, lambda: name, is_soft=is_soft, of_chip=of_chip)

    def open_soft(self) -> tuple[str, Callable[[], RknnLibrary]]:
        name = (socs.chosen() or socs.DEFAULT).library
        return name, partial(_soft, name, None)


@cache
def _soft(name: str, chip: socs.Soc | None) -> RknnLibrary:
    """The soft NPU in the place of a runtime, as a chip or as whichever the environment says."""
    # With its like for the other vendor, the place above the C ABI that knows the soft NPU.
    from ..soft.rknn import function_table, shared_library

    table, shared = from_table(function_table(name, chip)), partial(shared_library, name)
    return RknnLibrary("the soft NPU", table, shared, is_soft=True, of_chip=partial(_soft, name))


_search = _RknnSearch()


def load(library: str | os.PathLike[str] | RknnLibrary | None = None) -> RknnLibrary:
    """The runtime library to use.

    `library` is a path or a name for the dynamic loader, ``"soft"`` for the soft NPU, an already
    loaded library, or None for the search that the module describes. Raises
    `LibraryNotFoundError`, which lists what was tried, and why each failed.
    """
    return _search.load(library)
