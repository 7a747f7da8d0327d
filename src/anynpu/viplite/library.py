"""Find and load an Allwinner runtime library, or the soft NPU in its place.

The search of `anynpu.runtime_library`, with ``$ANYNPU_VIPLITE_LIBRARY``, the dynamic loader's own
search for libNBGlinker.so and libVIPlite.so, /usr/lib and /vendor/lib64. The library that it needs
(libVIPhal.so, libVIPuser.so) is loaded first, from the same folder where it is there.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from .. import soc as socs
from ..errors import LibraryError, OptionError
from ..runtime_library import (
    SOFT_MARKER,
    Binder,
    RuntimeLibrary,
    Search,
    from_shared,
    from_table,
)
from .abi import FUNCTIONS, Interface, version_text
from .status import STATUS

KERNEL_NODES = (Path("/dev/vipcore"), Path("/dev/galcore"))
"""What the kernel's driver offers, under its newer and its older name."""

INTERFACE_VARIABLE = "ANYNPU_VIPLITE_INTERFACE"
"""Names the interface of a library whose version doesn't tell: those of old ones aren't on record.
"""

_LABELS = ", ".join(interface.label for interface in Interface)
_NEEDED = {linked: needed for needed, linked in (each.libraries for each in Interface)}
_NAMES = tuple(reversed(_NEEDED))
_FOLDERS = (Path("/usr/lib"), Path("/vendor/lib64"))


class VipliteLibrary(RuntimeLibrary):
    """A loaded runtime with the functions of `abi.FUNCTIONS`, in its interface's forms.

    `version` is what `vip_get_version` returns, `interface` what that stands for.
    """

    api = "the VIPLite API"
    status = STATUS

    def __init__(self, path: str, bind: Binder, *, is_soft: bool) -> None:
        forms = {name: function.form(Interface.V2_0) for name, function in FUNCTIONS.items()}
        super().__init__(path, forms, bind, is_soft=is_soft)
        if not self.has("vip_get_version"):
            raise LibraryError(f"{path} has no vip_get_version: it isn't a VIPLite runtime library")
        self.version = int(self.vip_get_version())
        self.interface = self._known_interface()
        self._functions = {name: f.form(self.interface) for name, f in FUNCTIONS.items()}

    def _log_of(self, call: str, code: int, span: tuple[int, int] | None) -> tuple[str, ...]:
        from ..soft.viplite import log_of_failed_call

        return log_of_failed_call(call, code, span)

    @property
    def version_text(self) -> str:
        """The version as people write it, such as 2.0.3."""
        return version_text(self.version)

    def _known_interface(self) -> Interface:
        named = None if self.is_soft else _named_interface()
        interface = named or Interface.of_version(self.version)
        if interface is None:
            raise LibraryError(
                f"{self.path} is VIPLite {self.version_text} ({self.version:#010x}); anynpu knows "
                f"the interfaces {_LABELS}, and later ones have other structures: use the "
                f"libraries of the vendor's SDK for this chip's NPU"
            )
        return interface


def _named_interface() -> Interface | None:
    """What ``$ANYNPU_VIPLITE_INTERFACE`` says; raises `OptionError` for another word."""
    name = os.environ.get(INTERFACE_VARIABLE, "").strip()
    if not name:
        return None
    for interface in Interface:
        if interface.label.lower() == name.lower():
            return interface
    raise OptionError(f"${INTERFACE_VARIABLE} is {name!r}; it may be {_LABELS}")


def missing_kernel_node() -> str:
    """Why a board's driver can't be reached, as a sentence; empty where its node is there."""
    if any(node.exists() for node in KERNEL_NODES):
        return ""
    names = " nor ".join(map(str, KERNEL_NODES))
    return (
        f"there is neither {names}: the NPU's kernel driver isn't loaded, as on mainline kernels; "
        f"load the vendor's module (vipcore)"
    )


class _VipliteSearch(Search[VipliteLibrary]):
    vendor = "Allwinner"
    variable = "ANYNPU_VIPLITE_LIBRARY"
    install_hint = "libVIPlite.so and libVIPuser.so, or libNBGlinker.so and libVIPhal.so,"
    kind = VipliteLibrary

    def candidates(self) -> Iterator[str]:
        yield from _NAMES
        for folder in _FOLDERS:
            yield from (str(folder / name) for name in _NAMES)

    def open(self, name: str) -> VipliteLibrary:
        _load_needed(Path(name))
        shared = ctypes.CDLL(name)
        is_soft = hasattr(shared, SOFT_MARKER)
        return VipliteLibrary(name, from_shared(shared), is_soft=is_soft)

    def open_soft(self) -> tuple[str, Callable[[], VipliteLibrary]]:
        # With its like for the other vendor, the place above the C ABI that knows the soft NPU.
        from ..soft.viplite import function_table

        interface = _chosen_interface()
        name = f"{Path(interface.libraries[-1]).stem}-{interface.npu_version}"

        def make() -> VipliteLibrary:
            try:
                table = function_table(name)
            except ImportError as error:
                raise LibraryError(
                    f"the soft NPU needs packages that aren't there ({error}): "
                    f"pip install 'anynpu[soft]'"
                ) from error
            return VipliteLibrary("the soft NPU", from_table(table), is_soft=True)

        return name, make


def _load_needed(path: Path) -> None:
    """Load what a library needs, for all to see: the vendor's don't always say that they do."""
    needed = _NEEDED.get(path.name)
    if needed is None:
        return
    beside = path.with_name(needed)
    has_folder = path.parent != Path()
    try:
        ctypes.CDLL(str(beside if has_folder else needed), ctypes.RTLD_GLOBAL)
    except OSError:
        # It may be linked in, or be found by the dynamic loader; else loading what needs it fails.
        if has_folder and beside.exists():
            raise


def _chosen_interface() -> Interface:
    """That of the chip in ``$ANYNPU_SOC``; the newest one can do what the others can."""
    chip = socs.chosen_vip()
    version = chip.npu_version if chip is not None else Interface.V2_0.npu_version
    return Interface.of_npu(version)


_search = _VipliteSearch()


def load(library: str | os.PathLike[str] | VipliteLibrary | None = None) -> VipliteLibrary:
    """The runtime library to use.

    `library` is a path or a name for the dynamic loader, ``"soft"`` for the soft NPU, an already
    loaded library, or None for the search that the module describes. Raises
    `LibraryNotFoundError`, which lists what was tried and why each failed, and `LibraryError` for
    a library of an interface that isn't known here.
    """
    return _search.load(library)
