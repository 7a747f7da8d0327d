"""native/arrays.h, written from what the array kernels and matrix products share with Python.

``python -m anynpu.native.header`` writes the file anew in a checkout; with ``--check`` it fails
where the file isn't what it would write.
"""

from __future__ import annotations

import sys

from ..c_header import SharedWriter, keep
from .arrangements import Arrangement, Kind
from .compiler import SOURCES
from .kernels import (
    CONVERSION_NAMES,
    LARGEST_BLOCK,
    Affine,
    Blocks,
    Image,
    Pixels,
    PixelSource,
    PixelTarget,
)
from .matmul import Product
from .transfers import Transfer, TransferKind

FILE = SOURCES / "arrays.h"
STRUCTURES = (Affine, Transfer, Blocks, Image, Arrangement, Pixels, Product)
_COMMAND = "python -m anynpu.native.header"
_POINTERS = {
    "pixels.first": "const float *",
    "pixels.second": "const float *",
    "pixels.table": "const void *",
}


def text() -> str:
    """The whole header."""
    writer = SharedWriter(STRUCTURES, _POINTERS)
    return writer.header(
        "ANYNPU_ARRAYS_H",
        f"What kernels.c and matmul.c share with Python; written by {_COMMAND}.",
        (
            writer.constants({"LARGEST_BLOCK": LARGEST_BLOCK}),
            writer.constants({name: number for number, name in enumerate(CONVERSION_NAMES)}),
            writer.numbers("transfer_kind", TransferKind),
            writer.numbers("arrangement_kind", Kind),
            writer.numbers("pixel_source", PixelSource),
            writer.numbers("pixel_target", PixelTarget),
            *(writer.shared(structure) for structure in STRUCTURES),
        ),
    )


if __name__ == "__main__":
    sys.exit(keep(FILE, text(), _COMMAND))
