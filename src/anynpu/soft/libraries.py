"""The shared libraries that the soft NPU stands in for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..errors import OptionError
from ..soc import Soc, VipSoc
from ..viplite.abi import Interface


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


def _of_interface(interface: Interface) -> Library:
    # A program is linked with both of a pair; the functions are the same wherever it finds them.
    other, file = interface.libraries
    name = f"{file.removesuffix('.so')}-{interface.npu_version}"
    return Library(name, file, "viplite", (other,))


VIPLITE = {interface: _of_interface(interface) for interface in Interface}
"""The library of each of VIPLite's interfaces."""

AWNN = Library("libawnn_viplite", "libawnn_viplite.so", "viplite")
_RKNN = (
    Library("librknnrt", "librknnrt.so", "rknn"),
    Library("librknnmrt", "librknnmrt.so", "rknn"),
)
LIBRARIES = {library.name: library for library in (*_RKNN, *VIPLITE.values(), AWNN)}


def find(name: str) -> Library:
    """The library of a name; raises `OptionError`, which lists the names, for an unknown one."""
    if name not in LIBRARIES:
        raise OptionError(f"no soft library is called {name!r}; there is {', '.join(LIBRARIES)}")
    return LIBRARIES[name]


def of_chip(soc: Soc | VipSoc) -> tuple[Library, ...]:
    """The libraries that programs for a chip are linked with."""
    if isinstance(soc, VipSoc):
        interface = Interface.of_npu(soc.npu_version)
        return VIPLITE[interface], AWNN
    return (LIBRARIES[soc.library],)
