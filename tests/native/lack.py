"""Each allocation and each mapping fails once: ``LD_PRELOAD=... python -m tests.native.lack KIND``.

Opens, runs and closes sessions, models and products for every number of a call until there are no
more calls. Each time it works or ends in an error that says so, and afterwards all works.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Callable

import numpy as np

import anynpu
from anynpu import InferenceSession, Model
from anynpu.rknn import Matmul

from .. import models
from ..soft.viplite.client import relu

SHAPE = (1, 3, 4, 5)
VALUES = np.ones(SHAPE, np.float32)
KINDS = {"allocations": 1, "mappings": 2}
_fail = ctypes.CDLL(None).fail


def _session(data: bytes, expected: float) -> bool:
    options = {"library": "soft", "dispatch": "round_robin"}
    with InferenceSession(data, provider_options=options) as session:
        results = [session.run(None, VALUES), session.submit(None, VALUES).result()]
        results += list(session.map([VALUES] * 4))
        return all((result[0] == expected).all() for result in results)


def _model(data: bytes, expected: float) -> bool:
    with Model(data, library="soft") as model:
        model.run(np.ones(model.input_attrs[0].shape, np.float32))
        return bool((model.output_f32(0) == expected).all())


def _product() -> bool:
    with Matmul(8, 64, 64, library="soft") as product:
        found = product.run(np.ones((8, 64), np.int8), np.ones((64, 64), np.int8))
        return bool((found == 64).all())


USES: dict[str, Callable[[], bool]] = {
    "session": lambda: _session(models.add_one(), 2),
    "VIPLite session": lambda: _session(relu(), 1),
    "model": lambda: _model(models.add_one(SHAPE), 2),
    "VIPLite model": lambda: _model(relu(), 1),
    "product": _product,
}


def attempt(use: Callable[[], bool]) -> str:
    """What became of a use: "right", "wrong", or the error."""
    try:
        return "right" if use() else "wrong"
    except (anynpu.AnynpuError, MemoryError, RuntimeError, OSError) as error:
        return f"{type(error).__name__}: {error}"


def main() -> int:
    """Run the command line; returns 1 where something was lost."""
    kind = KINDS[sys.argv[1]]
    os.environ["ANYNPU_DEVICE"] = "soft"
    warnings.simplefilter("ignore")
    for name, use in USES.items():
        assert attempt(use) == "right"
        number, errors = 0, 0
        while True:
            number += 1
            _fail(kind, number)
            outcome = attempt(use)
            count = _fail(0, 0)
            if outcome == "wrong":
                print(f"{name}: call {number} of {kind} made a wrong result")
                return 1
            errors += outcome != "right"
            if attempt(use) != "right":
                print(f"{name}: nothing works after call {number} failed ({outcome})")
                return 1
            if count < number:
                break
        print(f"{name}: {number - 1} calls failed one by one, {errors} errors", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
