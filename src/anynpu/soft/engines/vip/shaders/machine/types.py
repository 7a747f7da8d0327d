"""Types of values, as instructions and as tables of products number them."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Kind(IntEnum):
    """What an instruction's type field says."""

    F32 = 0
    S32 = 1
    S8 = 2
    U16 = 3
    F16 = 4
    S16 = 5
    U32 = 6
    U8 = 7


DTYPES: dict[Kind, np.dtype[np.generic]] = {
    kind: np.dtype(dtype)
    for kind, dtype in {
        Kind.F32: np.float32,
        Kind.S32: np.int32,
        Kind.S8: np.int8,
        Kind.U16: np.uint16,
        Kind.F16: np.float16,
        Kind.S16: np.int16,
        Kind.U32: np.uint32,
        Kind.U8: np.uint8,
    }.items()
}

LANE_KINDS = (
    Kind.F32, Kind.F16, Kind.S32, Kind.S16, Kind.S8, Kind.U32, Kind.U16, Kind.U8
)  # fmt: skip
"""The same types in the order in which instructions on lanes, and their tables, number them."""

FLOATS = (Kind.F32, Kind.F16)


def name_of(kind: Kind) -> str:
    return kind.name.lower()
