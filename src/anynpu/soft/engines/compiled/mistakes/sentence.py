"""How a mistake of the toolkit is told: which node, what it does, and what helps."""

from __future__ import annotations


def mistake(node: str, fault: str, advice: str) -> str:
    """A sentence of what a node does other than its source model, and one of how to avoid it."""
    return (
        f"node {node!r} {fault}: so the toolkit has compiled it, and a board computes the same. "
        f"{advice}"
    )
