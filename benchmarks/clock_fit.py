"""Fit the model clock's constants to published frame rates: `python -m benchmarks.clock_fit`.

For each chip, least squares of the logarithms of estimated over published rates give four
constants. Then each network is left out once, to see how well the others' constants tell its rate.
Prints the constants for `anynpu/soc.py` and the tables of `docs/clock.md`, which a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from anynpu.soc import SOCS, Cost, Soc
from anynpu.soft.engines.program import LoweredModel

from . import clock_tables
from .clock_networks import rebuilt, unseen
from .clock_tables import deviations
from .published_times import CHIPS

START = (0.8, 1.0, 5.0, 5.0)
LIMITS = ((0.1, 0.01, 0.1, 0.0), (1.0, 100.0, 100.0, 100.0))
"""Of utilisation, elements a cycle, GB/s and microseconds a layer."""
DIGITS = (2, 2, 2, 1)


def fit(models: Mapping[str, LoweredModel], chip: str) -> Soc:
    """The chip with the constants that fit the published rates of `models` best."""

    def residuals(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return deviations(models, _with(SOCS[chip], values), chip)

    result = least_squares(residuals, START, bounds=LIMITS, x_scale=START)
    return _with(SOCS[chip], [round(v, d) for v, d in zip(result.x, DIGITS, strict=True)])


def _with(soc: Soc, values: NDArray[np.float64] | list[float]) -> Soc:
    utilisation, elements, gigabytes, microseconds = map(float, values)
    cost: Cost = replace(
        soc.cost,
        utilisation=utilisation,
        elements_per_cycle=elements,
        bandwidth=gigabytes * 1e9,
        overhead=microseconds * 1e-6,
    )
    return replace(soc, cost=cost)


def left_out(chip: str) -> NDArray[np.float64]:
    """The deviation of each network under the constants fitted to all others."""
    models = dict(rebuilt())
    found = []
    for name, model in models.items():
        others = {other: models[other] for other in models if other != name}
        found.append(deviations({name: model}, fit(others, chip), chip))
    return np.concatenate(found)


def main() -> None:
    """Fit, and print what the project's files should say."""
    socs = {chip: fit(rebuilt(), chip) for chip in CHIPS}
    for chip, soc in socs.items():
        mark = "" if soc.cost == SOCS[chip].cost else "  <- soc.py says otherwise"
        print(f"{chip}: {soc.cost}{mark}")
    print()
    print(clock_tables.constants(socs))
    print("\nPublished and estimated frames a second:\n")
    print(clock_tables.rates(rebuilt(), socs))
    print("\nThe fit's own error:\n")
    print(clock_tables.errors({c: deviations(rebuilt(), socs[c], c) for c in CHIPS}))
    print("\nEach network under the constants fitted to the others:\n")
    print(clock_tables.errors({chip: left_out(chip) for chip in CHIPS}))
    print("\nNetworks that the fit hasn't seen:\n")
    print(clock_tables.rates(unseen(), socs))
    print("\nA profiled network, by kind of layer:\n")
    print(clock_tables.layer_times(socs["rk3588"]))
    print("\nSingle layers:\n")
    print(clock_tables.single_layers(socs["rk3588"]))
    print("\nCycles that the vendor's compiler predicts:\n")
    print(clock_tables.predicted_cycles())


if __name__ == "__main__":
    main()
