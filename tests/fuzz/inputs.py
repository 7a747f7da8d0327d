"""What can be fuzzed: how inputs of a kind are made, and what is done with each."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis.strategies import SearchStrategy

from . import checks, compiled_files, nbg_files, onnx_files


@dataclass(frozen=True)
class Inputs:
    """`strategy` makes (name, bytes); `check` says what became of the bytes, or raises."""

    strategy: Callable[[], SearchStrategy[tuple[str, bytes]]]
    check: Callable[[bytes], str]


def _compiled() -> SearchStrategy[tuple[str, bytes]]:
    return compiled_files.damaged(Path(os.environ.get("ANYNPU_FUZZ", compiled_files.FOLDER)))


KINDS: dict[str, Inputs] = {
    "compiled": Inputs(_compiled, checks.compiled_file),
    "nbg": Inputs(nbg_files.damaged, checks.nbg_file),
    "onnx": Inputs(onnx_files.damaged, checks.onnx_file),
}
