"""Compile the plain-C helpers with whatever C compiler there is."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..errors import LibraryError

SOURCES = Path(__file__).parent / "source"
"""The C files: a link to the repository's native/ in a checkout, copies in an installation."""

FLAGS_FILE = SOURCES / "flags.txt"
"""The flags of every compilation, CMake's too: a line each."""

_LIBRARIES = ("-ldl", "-lpthread", "-lm")


@cache
def flags() -> tuple[str, ...]:
    """The compiler's flags for a shared library."""
    lines = FLAGS_FILE.read_text().splitlines()
    return (*(line for line in lines if line.startswith("-")), "-shared")


def sources(name: str) -> tuple[Path, ...]:
    """What a helper's build is of: its C file, all headers, the flags."""
    return (SOURCES / f"{name}.c", *sorted(SOURCES.glob("*.h")), FLAGS_FILE)


def find_compiler() -> list[str]:
    """The compiler's command: ``$CC``, else cc, gcc or clang; raises `LibraryError` without one."""
    import shlex
    import shutil

    if named := os.environ.get("CC"):
        return shlex.split(named)
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise LibraryError(
        "no C compiler was found (cc, gcc, clang, $CC); install one, for example with "
        "`apt install gcc`"
    )


def build_identity() -> str:
    """What else than its source makes one build of a library unlike another.

    Machines of several architectures may share a home folder, and one machine may run processes of
    two: the process's architecture and calling conventions, the compiler that was chosen, flags.
    """
    import sysconfig

    abi = (sysconfig.get_config_var("SOABI"), os.uname().machine, sys.maxsize, sys.byteorder)
    return repr((abi, os.environ.get("CC"), flags()))


def compile_shared(source: Path, output: Path, options: Sequence[str] = ()) -> None:
    """Compile one C file to a shared library; raises `LibraryError` with the compiler's words."""
    import shlex
    import subprocess

    command = [*find_compiler(), *flags(), *options, "-o", str(output), str(source), *_LIBRARIES]
    try:
        result = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise LibraryError(
            f"the C compiler can't be run: {shlex.join(command)}: {error}"
        ) from error
    if result.returncode != 0:
        raise LibraryError(f"{shlex.join(command)} failed:\n{result.stderr.strip()}")
