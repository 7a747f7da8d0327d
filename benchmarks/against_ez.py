"""`InferenceSession.run` against a Python peer's, both on the soft NPU's librknnrt.so."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import anynpu
from anynpu.soft.build import BuildOptions, build_file
from anynpu.soft.cabi.build import library_folder

from . import networks
from .measure import Comparison, compare

PEER = "ztu_somemodelruntime_ez_rknn_async"
TINY_SHAPES = ((1, 3, 4, 4), (1, 3, 224, 224), (1, 3, 640, 640))


def run(rounds: int) -> Iterator[Comparison]:
    """The ratio is anynpu's time over the peer's."""
    library = library_folder() / "librknnrt.so"
    os.environ["ZTU_RKNPU2_RUNTIME_LIBRARY"] = str(library)
    cases = [(f"tiny network {s[2]}x{s[3]}", *networks.tiny(s)) for s in TINY_SHAPES]
    for name, data, values in (*cases, *networks.trained()):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.rknn"
            build_file(data, path, BuildOptions())
            yield _measure(name, path, values, library, rounds)


def _measure(
    name: str, path: Path, values: NDArray[np.float32], library: Path, rounds: int
) -> Comparison:
    theirs = importlib.import_module(PEER).InferenceSession(str(path))
    with anynpu.InferenceSession(path, provider_options={"library": library}) as ours:
        return compare(
            f"InferenceSession.run / EZ, {name}",
            lambda: ours.run(None, {"x": values}),
            lambda: theirs.run(None, {"x": values}),
            rounds=rounds,
        )
