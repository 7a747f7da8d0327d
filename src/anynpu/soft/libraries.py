"""The shared libraries that the soft NPU stands in for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..errors import OptionError
from ..soc import Soc, VipSoc


@dataclass(frozen=True)
class Library:
    """One library: `file` is its name for the loader, `also` are other names that it goes by.

    Two versions of an API may have the same file name, so `name` is what tells them apart.
    `api` is the package beside this module that says what its functions do.
    """

    name: str
    file: str
    api: str
    also: tuple[str, ...] = ()

    @property
    def package(self) -> Any:
        """The API's package: it has `exports(name)` and `function_table(name)`."""
        return import_module(f".{self.api}", __package__)


_LIBRARIES = (
    Library("librknnrt", "librknnrt.so", "rknn"),
    Library("librknnmrt", "librknnmrt.so", "rknn"),
    # A program is linked with both of a pair; the functions are the same wherever it finds them.
    Library("libVIPlite-v1", "libVIPlite.so", "viplite", ("libVIPuser.so",)),
    Library("libVIPlite-v2", "libVIPlite.so", "viplite", ("libVIPuser.so",)),
    Library("libNBGlinker-v3", "libNBGlinker.so", "viplite", ("libVIPhal.so",)),
    Library("libawnn_viplite", "libawnn_viplite.so", "viplite"),
)
LIBRARIES = {library.name: library for library in _LIBRARIES}
_BY_NPU_VERSION = {"v1": "libVIPlite-v1", "v2": "libVIPlite-v2", "v3": "libNBGlinker-v3"}


def find(name: str) -> Library:
    """The library of a name; raises `OptionError`, which lists the names, for an unknown one."""
    if name not in LIBRARIES:
        raise OptionError(f"no soft library is called {name!r}; there is {', '.join(LIBRARIES)}")
    return LIBRARIES[name]


def of_chip(soc: Soc | VipSoc) -> tuple[Library, ...]:
    """The libraries that programs for a chip are linked with."""
    if isinstance(soc, VipSoc):
        return LIBRARIES[_BY_NPU_VERSION[soc.npu_version]], LIBRARIES["libawnn_viplite"]
    return (LIBRARIES[soc.library],)
