"""Pictures of measurements, by Matplotlib without a display."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .differences import Difference
    from .measure import Measured

_INK, _MARK = "#2a6f97", "#c1121f"
_BARS = 40


def plot_bench(measured: Sequence[Measured], runs_on: str, path: str) -> None:
    """Runs a second of each way, and how the latencies are spread."""
    figure = _figure(10, 1.2 + 0.9 * max(3, len(measured)))
    rates, spread = figure.subplots(1, 2)
    names = [_name(each) for each in measured]
    places = np.arange(len(names))[::-1]
    bars = rates.barh(places, [each.rate for each in measured], color=_INK)
    rates.bar_label(bars, fmt="%.1f", padding=3)
    rates.set_yticks(places, names)
    rates.set_xlabel("runs a second")
    rates.margins(x=0.18)
    spread.boxplot(
        [np.array(each.latencies) * 1000 for each in measured],
        positions=places, orientation="horizontal", whis=(1, 99), showfliers=False, widths=0.5,
    )  # fmt: skip
    spread.set_yticks(places, names)
    spread.set_xlabel("latency in ms (whiskers: 1 % and 99 %)")
    spread.set_xlim(left=0)
    _finish(figure, runs_on, path, (rates, spread))


def plot_layers(layers: Sequence[Difference], title: str, path: str) -> None:
    """The distance of each layer's output from the source's, in the order of execution."""
    figure = _figure(max(8.0, 0.18 * len(layers)), 5)
    axes = figure.subplots()
    distance = np.maximum([1 - each.cosine for each in layers], 1e-9)
    places = np.arange(len(layers))
    axes.bar(places, distance, color=_INK)
    axes.set_yscale("log")
    axes.set_ylim(bottom=min(1e-9, distance.min()) if len(layers) else 1e-9)
    axes.set_xticks(places, [each.name for each in layers], rotation=90, fontsize=6)
    axes.set_ylabel("1 - cosine (0 is equal)")
    _finish(figure, title, path, (axes,))


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["svg.hashsalt"] = "anynpu"
    return Figure(figsize=(width, height), layout="constrained")


def _finish(figure: Figure, title: str, path: str, axes: Sequence[Axes]) -> None:
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=9)
    save(figure, path)


def save(figure: Any, path: str) -> None:
    """Write a figure; `OptionError` for a format that Matplotlib doesn't write."""
    from ..errors import OptionError

    try:
        figure.savefig(path)
    except ValueError as error:
        raise OptionError(f"{path}: {error}") from None


def _name(measured: Measured) -> str:
    cores = measured.cores or f"all {measured.workers}"
    return f"{measured.way}\ncores {cores}, depth {measured.depth}"
