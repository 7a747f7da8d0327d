"""native/vip.h, written from the declarations in `structures`.

``python -m anynpu.soft.engines.vip.header`` writes the file anew in a checkout; with
``--check`` it fails where the file isn't what it would write.
"""

from __future__ import annotations

import sys

from ....c_header import SharedWriter, keep
from ....native.compiler import SOURCES
from .structures import CONSTANTS, ENUMERATIONS, POINTERS, STRUCTURES

FILE = SOURCES / "vip.h"
_COMMAND = "python -m anynpu.soft.engines.vip.header"


def text() -> str:
    """The whole header."""
    writer = SharedWriter(STRUCTURES, POINTERS)
    return writer.header(
        "ANYNPU_VIP_H",
        f"What the engine of .nb files shares with Python; written by {_COMMAND}.",
        (
            writer.constants(CONSTANTS),
            *(writer.numbers(name, members) for name, members in ENUMERATIONS.items()),
            *(writer.shared(structure) for structure in STRUCTURES),
        ),
    )


if __name__ == "__main__":
    sys.exit(keep(FILE, text(), _COMMAND))
