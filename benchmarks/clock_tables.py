"""The tables of docs/clock.md: published times beside the model clock's estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from anynpu.soc import SOCS, Soc
from anynpu.soft.clock import estimate
from anynpu.soft.engines.program import LoweredModel

from .clock_networks import profiled
from .published_times import CHIPS, FRAME_RATES, LAYER_TIMES


def frame_rate(model: LoweredModel, soc: Soc) -> float:
    """Frames a second that the clock estimates for one core."""
    return 1e6 / sum(time.microseconds for time in estimate(model.layers, soc))


def deviations(models: Mapping[str, LoweredModel], soc: Soc, chip: str) -> NDArray[np.float64]:
    """The logarithm of estimated over published frame rate, for each network."""
    ratios = [frame_rate(model, soc) / FRAME_RATES[name][chip] for name, model in models.items()]
    return np.log(ratios)


def rates(models: Mapping[str, LoweredModel], socs: Mapping[str, Soc] = SOCS) -> str:
    """Published and estimated frame rate, and how far the second is off, by network and chip."""
    lines = [_row("network", *map(_title, CHIPS)), _row(*["---"] * (1 + len(CHIPS)))]
    for name, model in models.items():
        cells = [_cell(FRAME_RATES[name][chip], frame_rate(model, socs[chip])) for chip in CHIPS]
        lines.append(_row(name, *cells))
    return "\n".join(lines)


def errors(deviations_by_chip: Mapping[str, NDArray[np.float64]]) -> str:
    """The root mean square of the deviations, and the largest, by chip."""
    lines = [_row("chip", "root mean square", "largest"), _row(*["---"] * 3)]
    for chip, values in deviations_by_chip.items():
        mean = math.sqrt(float(np.mean(values**2)))
        largest = math.expm1(float(np.abs(values).max()))
        lines.append(_row(_title(chip), f"{mean:.1%}", f"{largest:.0%}"))
    return "\n".join(lines)


def constants(socs: Mapping[str, Soc] = SOCS) -> str:
    """The fitted constants, by chip."""
    lines = [
        _row("chip", "utilisation", "elements a cycle", "bandwidth", "overhead"),
        _row(*["---"] * 5),
    ]
    for chip in CHIPS:
        cost = socs[chip].cost
        bandwidth, overhead = cost.bandwidth / 1e9, cost.overhead * 1e6
        values = (cost.utilisation, cost.elements_per_cycle, f"{bandwidth:.2f} GB/s")
        lines.append(_row(_title(chip), *map(str, values), f"{overhead:.1f} us"))
    return "\n".join(lines)


def layer_times(soc: Soc = SOCS["rk3588"]) -> str:
    """Published and estimated milliseconds of the profiled network, by kind of layer."""
    lines = [_row("layers", "published", "estimated"), _row(*["---"] * 3)]
    layers = profiled().layers
    estimates = list(zip(layers, estimate(layers, soc), strict=True))
    for kind, published in LAYER_TIMES.items():
        times = [time.microseconds for layer, time in estimates if layer.op_type == kind]
        cells = (f"{microseconds / 1000:.1f} ms" for microseconds in (published, sum(times)))
        lines.append(_row(f"{len(times)} {kind}", *cells))
    return "\n".join(lines)


def _title(chip: str) -> str:
    return "RK3566, RK3568" if chip == "rk3566" else chip.upper()


def _cell(published: float, estimated: float) -> str:
    error = round(estimated / published - 1, 2) + 0.0  # no negative zero
    return f"{published:.1f}, {estimated:.1f} ({error:+.0%})"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
