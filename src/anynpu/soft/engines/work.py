"""A bound on the work of a run, so that no model file keeps a thread forever.

Work is counted in products of a dense int8 convolution, of which the kernels compute some 2 * 10^10
a second on one processor of an AMD EPYC; everything else counts as the products that take as long.
What decides is known when a model is loaded, so that a model with too much of it is refused then.
"""

from __future__ import annotations

import math
import os

from ...errors import ModelError

ENVIRONMENT_VARIABLE = "ANYNPU_SOFT_MAX_WORK"

DEFAULT = 1e12
"""Products: about a minute. YOLOv8x on 640x640 pixels has 1.3e11."""

PER_SECOND = 2e10
"""Products that the kernels compute in a second."""

PER_COMMAND, PER_TASK, PER_CPU_NODE = 1 << 13, 1 << 23, 1 << 27
"""What it takes to load a command, a task, and a node that the CPU computes."""


def most_work() -> float:
    """The bound that the environment asks for; `ModelError` for a word that is no number."""
    word = os.environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if not word:
        return DEFAULT
    try:
        most = float(word)
    except ValueError:
        most = math.nan
    if not most > 0:
        raise ModelError(
            f"${ENVIRONMENT_VARIABLE} is {word!r}; it is a number of products that a run may take "
            f"at most, such as 1e12, or inf"
        )
    return most


class Budget:
    """What is left of the bound for one model; `runs` is how often a run computes all of it."""

    def __init__(self, runs: int = 1) -> None:
        self._most = most_work()
        self._runs = runs
        self.taken = 0.0

    def take(self, work: float, what: str) -> None:
        """Count work; raises `ModelError` that names `what` where that is more than the bound."""
        self.taken += work * self._runs
        if self.taken > self._most:
            raise ModelError(
                f"{what} takes the work of a run to {self.taken:.3g} products, more than "
                f"{self._most:.3g}; ${ENVIRONMENT_VARIABLE} sets another bound"
            )
