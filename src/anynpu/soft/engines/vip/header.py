"""native/vip.h, written from the declarations in `structures`.

``python -m anynpu.soft.engines.vip.header`` writes the file anew in a checkout; with
``--check`` it fails where the file isn't what it would write.
"""

from __future__ import annotations

import sys

from ....c_header import SharedHeader
from ....native.compiler import SOURCES
from .structures import CONSTANTS, ENUMERATIONS, POINTERS, STRUCTURES

HEADER = SharedHeader(
    SOURCES / "vip.h",
    "anynpu.soft.engines.vip.header",
    "the engine of .nb files shares",
    (CONSTANTS,),
    ENUMERATIONS,
    STRUCTURES,
    POINTERS,
)

if __name__ == "__main__":
    sys.exit(HEADER.keep())
