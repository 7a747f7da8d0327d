"""Run a command with native code that sanitizers watch: `python -m tests.sanitize NAME COMMAND`.

The C files are built with a compiler's sanitizers into build/sanitize-NAME, ``$ANYNPU_NATIVE``
names that folder, and the sanitizers' runtime is loaded before everything else, as Python isn't
linked with it. What they find ends the process: a read or write beside an allocation, a use after
free, an overflow, a race. Of what is left at the end only what native code allocated is told of
(tests/data/sanitize/leaks.txt).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_COMPILERS = ("cc", "gcc", "g++", "clang", "aarch64-linux-gnu-gcc")
SUPPRESSIONS = Path(__file__).resolve().parent / "data" / "sanitize"


@dataclass(frozen=True)
class Sanitizer:
    """Compiler flags, the runtimes to load first, and the environment that sets them up."""

    flags: str
    runtimes: tuple[str, ...]
    environment: dict[str, str]


_ADDRESS = "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all"
_ADDRESS_RUNTIMES = ("libasan.so", "libubsan.so")
_ADDRESS_ENVIRONMENT = {
    # The libraries of two chips are one source, and may be loaded together.
    "ASAN_OPTIONS": "malloc_context_size=20:detect_stack_use_after_return=1:detect_odr_violation=0",
    "LSAN_OPTIONS": f"suppressions={SUPPRESSIONS / 'leaks.txt'}:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # Every object is an allocation of its own.
    "PYTHONMALLOC": "malloc",
}

SANITIZERS = {
    "address": Sanitizer(_ADDRESS, _ADDRESS_RUNTIMES, _ADDRESS_ENVIRONMENT),
    # What processors without these vectors run.
    "plain": Sanitizer(
        _ADDRESS, _ADDRESS_RUNTIMES, {**_ADDRESS_ENVIRONMENT, "ANYNPU_KERNELS": "plain"}
    ),
    "thread": Sanitizer(
        "-fsanitize=thread",
        ("libtsan.so",),
        {
            "TSAN_OPTIONS": f"suppressions={SUPPRESSIONS / 'races.txt'}:halt_on_error=1:"
            "ignore_noninstrumented_modules=1:history_size=4"
        },
    ),
}


def main() -> int:
    """Build, and become the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitize", description=__doc__)
    parser.add_argument("name", choices=SANITIZERS)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    folder = build(options.name)
    if options.command:
        os.chdir(ROOT)
        os.execvpe(options.command[0], options.command, environment(options.name, folder))
    print(folder)
    return 0


def build(name: str) -> Path:
    """Build what has changed; the folder."""
    wanted = SANITIZERS[name].flags
    same = next(other for other, each in SANITIZERS.items() if each.flags == wanted)
    folder = ROOT / "build" / f"sanitize-{same}"
    flags = f"-g -fno-omit-frame-pointer {wanted}"
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), f"-DCMAKE_C_FLAGS={flags}"]
    configure += ["-DANYNPU_FLAGS=-O1", "-DCMAKE_BUILD_TYPE=None"]
    configure += [f"-DCMAKE_C_COMPILER={_compiler()}", f"-DPython3_EXECUTABLE={sys.executable}"]
    # That of the environment, where it is installed there.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    for command in (configure, ["cmake", "--build", str(folder), "--parallel"]):
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": path}
        )
    return folder


def environment(name: str, folder: Path) -> dict[str, str]:
    """The variables for a process that is to be watched, and for its children."""
    sanitizer = SANITIZERS[name]
    runtimes = [
        subprocess.run(
            [_compiler(), f"-print-file-name={runtime}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for runtime in sanitizer.runtimes
    ]
    return {
        **os.environ,
        **sanitizer.environment,
        "ANYNPU_NATIVE": str(folder),
        "LD_PRELOAD": ":".join(runtimes),
        "PATH": os.pathsep.join((str(_unwatched_compilers(folder)), os.environ["PATH"])),
    }


def _unwatched_compilers(folder: Path) -> Path:
    """A folder with compilers that no sanitizer watches: linkers keep much until they end."""
    scripts = folder / "compilers"
    scripts.mkdir(exist_ok=True)
    for name in _COMPILERS:
        if found := shutil.which(name):
            script = scripts / name
            script.write_text(f'#!/bin/sh\nexec env -u LD_PRELOAD {shlex.quote(found)} "$@"\n')
            script.chmod(0o755)
    return scripts


def _compiler() -> str:
    """gcc: its runtimes are shared libraries that can be loaded first."""
    return os.environ.get("SANITIZER_CC", "gcc")


if __name__ == "__main__":
    sys.exit(main())
