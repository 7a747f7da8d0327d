"""A MaxPool whose kernel is larger than its picture, compiled as one maximum for all of it.

The toolkit makes a global maximum of it, and repeats that. Both have names of the compiler's own
("to a global maximum"), by which they are known from a model that asks for just that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .sentence import mistake
from .subject import Subject

_REPEATED = re.compile(r"Expand:(.+)_mp_tile(#\d+)?$")
_GLOBAL = re.compile(r"MaxPool:(.+)#\d+_2gmp(_tile\d+)?$")


def mistakes(subject: Subject) -> Iterator[str]:
    """The nodes, as sentences."""
    found = (_GLOBAL.match(node.name) for node in subject.nodes if node.op_type == "MaxPool")
    replaced = {match[1] for match in found if match}
    for node in subject.nodes:
        match = _REPEATED.match(node.name) if node.op_type == "Expand" else None
        if match and match[1] in replaced:
            yield mistake(
                f"MaxPool:{match[1]}",
                "has a kernel that is larger than its picture, and gives the greatest value of "
                "all of it everywhere",
                "It is right only where the kernel reaches over the whole picture from every "
                "place; else take smaller kernels, one after another",
            )
