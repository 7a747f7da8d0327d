"""In which of their forms the C kernels run: plain, or with vectors that this processor has.

native/cpu.h finds out what there is and names it; a kernel gives the same bytes in each form, but
for sums of float16 products, which have no order of their own. The best form runs, unless
``$ANYNPU_KERNELS`` names another (``plain`` is what runs on processors without these vectors), or
`use` does.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from typing import Any

from ..errors import OptionError
from .library import load

ENVIRONMENT_VARIABLE = "ANYNPU_KERNELS"
PLAIN = "plain"

_loaded: list[Any] = []
_chosen: str | None = None


def load_kernels(name: str) -> ctypes.CDLL | None:
    """The library of kernels built from the C file of that name, in the form that is asked for.

    None where `load` has none. Raises `OptionError` where the form isn't there.
    """
    library = load(name)
    if library is not None:
        _choose(library)
        _warn_where_narrow(library)
        _loaded.append(library)
    return library


def _warn_where_narrow(library: Any) -> None:
    """Say that a build lacks vectors that the processor has: it is several times slower."""
    if list(_numbers(library)) == [PLAIN] and _processor_has("avx2"):
        warnings.warn(
            "anynpu's C kernels were built without AVX2, which this processor has, and are several "
            "times slower: install a wheel of anynpu, or build it with gcc or clang",
            RuntimeWarning,
            stacklevel=4,
        )


@cache
def _processor_has(flag: str) -> bool:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return any(flag in line.split() for line in file if line.startswith("flags"))
    except OSError:
        return False


def available() -> tuple[str, ...]:
    """The forms that this processor has, the best one last; none where there are no kernels."""
    library = _any_library()
    return () if library is None else tuple(_numbers(library))


def running() -> str | None:
    """The form that runs; None where NumPy does the work."""
    library = _any_library()
    return None if library is None else running_in(library)


def running_in(library: Any) -> str:
    """The form in which a library's kernels run."""
    return next(name for name, form in _numbers(library).items() if form == library.anynpu_form())


def use(name: str | None) -> None:
    """Let all kernels run in another form from now on; None is what the environment asks for.

    Call it while no kernel runs. Raises `OptionError` where the form isn't there.
    """
    global _chosen
    before, _chosen = _chosen, name
    try:
        for library in _loaded:
            _choose(library)
    except OptionError:
        _chosen = before
        raise


def _choose(library: Any) -> None:
    numbers = _numbers(library)
    best = list(numbers)[-1]
    asked = _chosen or os.environ.get(ENVIRONMENT_VARIABLE, "").strip().lower() or best
    if asked not in numbers:
        raise OptionError(
            f"kernels can't run as {asked!r} here: this processor has {', '.join(numbers)}; "
            f"set ${ENVIRONMENT_VARIABLE} to one of them, or unset it"
        )
    library.anynpu_use_form(numbers[asked])


def _numbers(library: Any) -> dict[str, int]:
    """The forms that this processor has, the best one last, with the library's numbers for them."""
    library.anynpu_form_name.restype = ctypes.c_char_p
    names = {number: library.anynpu_form_name(number) for number in range(library.anynpu_forms())}
    return {name.decode(): number for number, name in names.items() if name}


@cache
def _any_library() -> ctypes.CDLL | None:
    return _loaded[0] if _loaded else load_kernels("kernels")
