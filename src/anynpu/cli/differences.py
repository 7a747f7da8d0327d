"""How far two arrays of real values are from each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Difference:
    """Of a tensor: the cosine of both, and the largest and the mean error.

    `equal` is the share of equal integers where the tensor is quantised, else None.
    """

    name: str
    shape: tuple[int, ...]
    cosine: float
    largest: float
    mean: float
    equal: float | None = None

    @property
    def distance(self) -> float:
        """1 - cosine; infinite where that isn't a number."""
        return 1 - self.cosine if np.isfinite(self.cosine) else float("inf")


def difference(
    name: str, found: NDArray[Any], wanted: NDArray[Any], quantization: tuple[float, int] | None
) -> Difference:
    """Compare arrays of as many elements; `quantization` is (scale, zero point) of the first."""
    a = found.astype(np.float64).ravel()
    b = wanted.astype(np.float64).ravel()
    errors = np.abs(a - b)
    equal = None
    if quantization is not None:
        scale, zero_point = quantization
        integers = [np.rint(values / scale) + zero_point for values in (a, b)]
        equal = float(np.mean(integers[0] == integers[1])) if a.size else 1.0
    return Difference(
        name,
        found.shape,
        cosine(a, b),
        float(errors.max(initial=0.0)),
        float(errors.mean()) if a.size else 0.0,
        equal,
    )


def cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The cosine of the angle between two vectors; 1 where both are zero, 0 where one is."""
    lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if 0.0 in lengths:
        return 1.0 if lengths == (0.0, 0.0) else 0.0
    # Rounding may take it past 1; what is no number stays none.
    return float(np.minimum(1.0, (a / lengths[0]) @ (b / lengths[1])))
