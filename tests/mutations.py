"""Whether tests notice when kernels aren't used: `python -m tests.mutations`, in `make nightly`.

Each mutation takes one kind of kernels away, so that others, or the reference, do its work and give
the same bytes. Some test that is for those kernels has to fail then; where none does, this ends
with 1. As a plugin of pytest, ``-p tests.mutations``, it makes the one that is named in the
environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from anynpu.native import forms, kernels, matmul
from anynpu.soft.engines.rknpu.kernels import KernelKind
from anynpu.soft.engines.rknpu.kernels.plan import PLANNERS

_VARIABLE = "MUTATION"
_ENGINE = ("tests/soft/engines/rknpu", "tests/soft/engines/compiled/test_chips.py")


@dataclass(frozen=True)
class Mutation:
    """What is taken away, and the tests of which one has to notice."""

    apply: Callable[[], None]
    tests: tuple[str, ...]


def _without(kind: KernelKind) -> Mutation:
    return Mutation(lambda: PLANNERS.update({kind: {}}), _ENGINE)


def _without_arrays() -> None:
    kernels.is_built = lambda: False


def _without_products() -> None:
    matmul.is_built = lambda: False
    matmul._is_written = lambda *_: False


def _without_plain() -> None:
    forms.use = lambda name: None


MUTATIONS = {
    "no int8 kernels": _without(KernelKind.INT8),
    "no general kernels": _without(KernelKind.GENERAL),
    "no kernels that copy": _without(KernelKind.COPIES),
    "no array kernels": Mutation(_without_arrays, ("tests/native",)),
    "no matrix products in C": Mutation(_without_products, ("tests/native",)),
    "one form of the kernels": Mutation(_without_plain, ("tests/native/test_forms.py",)),
}


def pytest_configure() -> None:
    """Make the mutation that the environment names."""
    MUTATIONS[os.environ[_VARIABLE]].apply()


def _first_failures(name: str, mutation: Mutation) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--maxfail=3", "-p", "tests.mutations"]
    result = subprocess.run(
        [*command, *mutation.tests],
        env={**os.environ, _VARIABLE: name},
        check=False,
        capture_output=True,
        text=True,
    )
    lines = result.stdout.splitlines()
    return [line.partition(" - ")[0] for line in lines if line.startswith("FAILED")]


def main() -> int:
    """Try all mutations; 1 where one goes unnoticed."""
    code = 0
    for name, mutation in MUTATIONS.items():
        failed = _first_failures(name, mutation)
        print(f"{name}: {'noticed' if failed else 'UNNOTICED'}", *failed, sep="\n  ", flush=True)
        code = code or int(not failed)
    return code


if __name__ == "__main__":
    sys.exit(main())
