"""Draw how a picture lies in memory and how values are quantised: `make pictures`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

PICTURES = Path(__file__).parents[1] / "pictures"
_CHANNELS = {"R": "#e07a5f", "G": "#81b29a", "B": "#5f8dd3"}
_PADDING, _INK, _MARK = "#dddddd", "#2a6f97", "#c1121f"
_BLOCK = 16
_PIXELS = range(4)
_NCHW = [(channel, pixel) for channel in _CHANNELS for pixel in _PIXELS]
_NHWC = [(channel, pixel) for pixel in _PIXELS for channel in _CHANNELS]


def draw_memory() -> None:
    """The 2 x 2 pixels of three channels in each layout, a byte a square."""
    figure = Figure(figsize=(8.6, 5.4), layout="constrained")
    axes = figure.subplots()
    y = _heading(axes, 0, "NCHW: a plane a channel, as in the model's source")
    y = _row(axes, y, _NCHW)
    y = _heading(axes, y, "NHWC: a pixel's channels together, as cameras give them")
    y = _row(axes, y, _NHWC)
    y = _heading(
        axes, y, f"NC1HWC2 of int8, C2 = {_BLOCK}: a pixel has {_BLOCK} channels in a block"
    )
    for pixel in _PIXELS:
        named = [(channel, pixel) for channel in _CHANNELS]
        y = _row(axes, y, [*named, *[("", pixel)] * (_BLOCK - len(named))])
    axes.set_xlim(-0.2, _BLOCK + 0.2)
    axes.set_ylim(y - 0.4, 0.2)
    axes.set_aspect("equal")
    axes.axis("off")
    figure.savefig(PICTURES / "memory.svg")


def _heading(axes: Any, y: float, words: str) -> float:
    axes.text(0, y - 0.75, words, fontsize=11, va="center")
    return y - 1.3


def _row(axes: Any, y: float, cells: list[tuple[str, int]]) -> float:
    for x, (channel, pixel) in enumerate(cells):
        colour = _CHANNELS.get(channel, _PADDING)
        axes.add_patch(Rectangle((x, y - 1), 1, 1, facecolor=colour, edgecolor="white"))
        if channel:
            axes.text(x + 0.5, y - 0.5, f"{channel}{pixel}", ha="center", va="center", fontsize=9)
    return y - 1.15


def draw_quantisation(scale: float = 0.25, zero_point: int = -3) -> None:
    """The integers that real values become, and the real values that they stand for."""
    figure = Figure(figsize=(8.6, 3.8), layout="constrained")
    axes = figure.subplots()
    real = np.linspace(-2.6, 2.6, 4001)
    # Four bits, so that steps can be seen.
    integers = np.clip(np.rint(real / scale) + zero_point, -8, 7)
    axes.plot(real, real, color="#bbbbbb", linewidth=1, label="the real value")
    axes.plot(
        real, (integers - zero_point) * scale, color=_INK, label="what its integer stands for"
    )
    least, most = (np.array([-8, 7]) - zero_point) * scale
    for edge in (least, most):
        axes.axvline(edge, color=_MARK, linewidth=1, linestyle=":")
    axes.text(least - 0.06, 1.6, "saturates at -8", color=_MARK, ha="right", fontsize=9)
    axes.text(most - 0.06, -1.6, "saturates at 7", color=_MARK, ha="right", fontsize=9)
    axes.annotate(
        f"zero point: 0.0 is the integer {zero_point}", (0, 0), (0.5, -0.7), fontsize=9,
        arrowprops={"arrowstyle": "->"},
    )  # fmt: skip
    axes.annotate(
        f"scale: a step is {scale}", (0.875, 0.9), (-0.6, 1.5), fontsize=9,
        arrowprops={"arrowstyle": "->"},
    )  # fmt: skip
    axes.set_xlabel("real value")
    axes.set_ylabel("after quantising and dequantising")
    axes.set_ylim(-1.9, 2.9)
    axes.legend(loc="upper left", frameon=False, fontsize=9)
    figure.savefig(PICTURES / "quantisation.svg")


if __name__ == "__main__":
    draw_memory()
    draw_quantisation()
