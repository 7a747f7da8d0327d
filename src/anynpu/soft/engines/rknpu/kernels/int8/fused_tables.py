"""A look-up table and all that follows it, for every whole number that it has entries for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ...memory import Memory
from ...reference.dpu import process
from ...tasks import Dpu, Elementwise, LookupTable, Output

_MOST = 1 << 17


@dataclass(eq=False)
class Results:
    """int8 for `first`, `first` + 1..."""

    first: int
    results: NDArray[np.int8]


_known: WeakValueDictionary[bytes, Results] = WeakValueDictionary()
"""Tasks of a node have the same; they share it as long as one of them lives."""


def tabulate(stage: Elementwise, table: LookupTable, output: Output) -> Results | None:
    """What the reference gives after BS and BN, None where the table has too many places."""
    first, end = table.negative_start, table.positive_end + 1
    if not 0 < end - first <= _MOST:
        return None
    key = _key(stage, table, output)
    known = _known.get(key)
    if known is None:
        places: NDArray[np.int64] = np.arange(first, end).reshape(1, -1, 1)
        memory = Memory(np.empty(0, np.uint8), {})
        results = process(memory, Dpu(False, None, None, stage, None, output), places)
        known = _known[key] = Results(first, results.reshape(-1))
    return known


def _key(stage: Elementwise, table: LookupTable, output: Output) -> bytes:
    digest = sha256(table.negative.tobytes() + table.positive.tobytes())
    none: NDArray[np.float64] = np.empty(0)
    shape = replace(table, negative=none, positive=none)
    digest.update(repr((replace(stage, table=shape), output)).encode())
    return digest.digest()
