"""Time two things in turns, so that a machine's moods hit both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Both, as medians, and the median of the ratios of neighbouring runs."""

    name: str
    ours: float
    theirs: float
    ratio: float
    goal: float | None
    unit: str = "ms"

    def line(self) -> str:
        """A row of text."""
        goal = f"(goal <= {self.goal:.2f})" if self.goal is not None else ""
        times = f"{self.ours:9.3f} {self.unit} {self.theirs:9.3f} {self.unit}"
        return f"{self.name:66} {times}   x{self.ratio:.3f} {goal}"


SPINNING = 0.05
"""Seconds after which ONNX Runtime's threads have stopped spinning for more work."""


def compare(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    rounds: int,
    goal: float | None = None,
    repeat: int = 1,
    pause: float = 0,
) -> Comparison:
    """Call both in turns; each round times `repeat` calls of one, then of the other.

    Before each it waits `pause` seconds, in which the other's threads stop spinning for more work.
    """
    for function in (ours, theirs):
        for _ in range(3):
            function()
    pairs = [(_time(ours, repeat, pause), _time(theirs, repeat, pause)) for _ in range(rounds)]
    return Comparison(
        name,
        1000 * statistics.median(a for a, _ in pairs),
        1000 * statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
        goal,
    )


def _time(function: Callable[[], object], repeat: int, pause: float) -> float:
    time.sleep(pause)
    start = time.perf_counter()
    for _ in range(repeat):
        function()
    return (time.perf_counter() - start) / repeat
