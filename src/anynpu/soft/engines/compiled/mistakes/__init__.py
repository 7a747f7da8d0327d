"""What the toolkit is known to have compiled wrongly, told from a file's nodes and tasks.

A board computes what a file says, and so does the engine. A module a kind; each has `mistakes`,
which gives a sentence a node.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import comparisons, constants, fused_relu, limits, maxima, pooling, rows, softmax, states
from .subject import Subject

_KINDS = (comparisons, softmax, fused_relu, limits, constants, maxima, pooling, rows, states)

__all__ = ["Subject", "mistakes"]


def mistakes(subject: Subject) -> Iterator[str]:
    """What is wrong with a graph, as sentences."""
    for kind in _KINDS:
        yield from kind.mistakes(subject)
