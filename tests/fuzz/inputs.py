"""What can be fuzzed: how inputs of a kind are made, and what is done with each."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import (
    calls,
    checks,
    compiled_files,
    nbg_files,
    onnx_files,
    rknn_calls,
    single_tasks,
    vip_calls,
    vip_files,
)


@dataclass(frozen=True)
class Inputs:
    """`damaged` makes (name, bytes); `check` says what became of the bytes, or raises.

    `sound` makes what both need, once.
    """

    damaged: Callable[[random.Random], tuple[str, bytes]]
    check: Callable[[bytes], str]
    sound: Callable[[], object]

    def input(self, number: int) -> tuple[str, bytes]:
        """The input of a number: always the same one."""
        return self.damaged(random.Random(number))


def _folder() -> Path:
    return Path(os.environ.get("ANYNPU_FUZZ", compiled_files.FOLDER))


KINDS: dict[str, Inputs] = {
    "compiled": Inputs(
        lambda source: compiled_files.damaged(source, _folder()),
        checks.compiled_file,
        lambda: compiled_files.targets(_folder()),
    ),
    "tasks": Inputs(single_tasks.damaged, checks.single_task, single_tasks.targets),
    "nbg": Inputs(nbg_files.damaged, checks.nbg_file, nbg_files.sound),
    "vip": Inputs(vip_files.damaged, checks.vip_file, vip_files.targets),
    "onnx": Inputs(onnx_files.damaged, checks.onnx_file, onnx_files.sound),
    # Nothing is made before processes are forked: a child of one that has called gets errors alone.
    "rknn-calls": Inputs(calls.damaged, calls.rknn_calls, rknn_calls.valid),
    "viplite-calls": Inputs(calls.damaged, calls.vip_calls, vip_calls.valid),
}
