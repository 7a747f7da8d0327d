"""native/arrays.h, written from what the array kernels and matrix products share with Python.

``python -m anynpu.native.header`` writes the file anew in a checkout; with ``--check`` it fails
where the file isn't what it would write.
"""

from __future__ import annotations

import sys

from ..c_header import SharedHeader
from .arrangements import Arrangement, Kind
from .compiler import SOURCES
from .kernels import (
    CONVERSION_NAMES,
    LARGEST_BLOCK,
    MOST_LANES,
    Affine,
    Blocks,
    CellElement,
    Image,
    Pixels,
    PixelSource,
    PixelTarget,
    Threshold,
)
from .matmul import Product
from .transfers import Transfer, TransferKind

HEADER = SharedHeader(
    SOURCES / "arrays.h",
    "anynpu.native.header",
    "kernels.c and matmul.c share",
    (
        {"LARGEST_BLOCK": LARGEST_BLOCK, "MOST_LANES": MOST_LANES},
        {name: number for number, name in enumerate(CONVERSION_NAMES)},
    ),
    {
        "transfer_kind": TransferKind,
        "arrangement_kind": Kind,
        "pixel_source": PixelSource,
        "pixel_target": PixelTarget,
        "cell_element": CellElement,
    },
    (Affine, Transfer, Blocks, Image, Arrangement, Pixels, Threshold, Product),
    {
        "pixels.first": "const float *",
        "pixels.second": "const float *",
        "pixels.table": "const void *",
    },
)

if __name__ == "__main__":
    sys.exit(HEADER.keep())
