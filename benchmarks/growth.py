"""How the time of int8 kernels grows with a network, and what they get out of a processor.

Networks of one shape in 20 sizes, 1 to 10,000 million multiply-accumulates: what one of these
takes, over the best of all sizes. And a convolution 3x3 of 64 channels of 56x56, over what the
processor's own instructions could do on registers alone (`reference/int8_peak.c`). All of it on one
thread, in its own time.

    python -m benchmarks.growth docs/pictures/growth.svg    # draws the first, and prints its table
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from anynpu.native import forms
from anynpu.native.compiler import compile_shared, sources
from anynpu.native.threads import ENVIRONMENT_VARIABLE

from .int8_networks import Layer, residual_shape, runner
from .measure import Comparison

SIZES = tuple(10 ** (4 * step / 19) for step in range(20))
"""Millions of multiply-accumulates that networks are to have."""

GOAL, PEAK_GOAL = 2.0, 2.0
_LAYER = Layer(64, 64, 56, 3)
_SOURCE = Path(__file__).parent / "reference" / "int8_peak.c"
_MACS_OF_A_NETWORK = 76
"""For each pixel and channel, squared, of `residual_shape`; about."""

_PEAK_ROUNDS = 1_000_000
_LEAST_SECONDS, _MOST_RUNS, _LEAST_TIMED = 0.05, 200, 2e-4


def run(rounds: int) -> Iterator[Comparison]:
    """Picoseconds for a multiply-accumulate; each is the best of some runs."""
    with _one_thread():
        # The large one comes first: a processor that has rested computes more slowly at first,
        # and small networks would be over by then.
        taken = _best(runner([_LAYER]), rounds) / _LAYER.macs * 1e12
        found = list(measured(rounds))
    best = min(taken for _, taken in found)
    for macs, one in found:
        name = f"int8 network of {macs / 1e6:.1f} MMAC / the best of 20 sizes, for a MAC"
        yield Comparison(name, one, best, one / best, GOAL, "ps")
    peak = peak_picoseconds(rounds)
    if peak:
        name = f"3x3, 64 channels of 56x56 / registers alone ({forms.running()})"
        yield Comparison(name, taken, peak, taken / peak, PEAK_GOAL, "ps")


def measured(rounds: int) -> Iterator[tuple[int, float]]:
    """Each network's multiply-accumulates, and the picoseconds that one of them takes."""
    for size in SIZES:
        layers = network(size)
        macs = sum(layer.macs for layer in layers)
        yield macs, _best(runner(layers), rounds) / macs * 1e12


def network(millions: float) -> list[Layer]:
    """A network of about so many millions, with about as many channels as pixels in a row."""
    wanted = millions * 1e6
    both = math.sqrt(wanted / _MACS_OF_A_NETWORK)
    shapes = [(max(8, round(both / channels)), channels) for channels in range(16, 257, 16)]

    def distance(shape: tuple[int, int]) -> float:
        side, channels = shape
        macs = sum(layer.macs for layer in residual_shape(side, channels))
        return 4 * abs(math.log(macs / wanted)) + abs(math.log(side / channels))

    return residual_shape(*min(shapes, key=distance))


def peak_picoseconds(rounds: int) -> float | None:
    """What a product takes at least in the form that runs; None in the plain one."""
    form = forms.running()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8_peak.so"
        compile_shared(_SOURCE, path, ["-I", str(sources("npu")[0].parent)])
        library = ctypes.CDLL(str(path))
    library.anynpu_form_name.restype = ctypes.c_char_p
    for number in range(library.anynpu_forms()):
        if library.anynpu_form_name(number) == (form or "").encode():
            library.anynpu_use_form(number)
    library.multiply.restype, library.multiply.argtypes = ctypes.c_int64, [ctypes.c_int64]
    products: int = library.multiply(_PEAK_ROUNDS)
    if not products:
        return None
    return _best(lambda: library.multiply(_PEAK_ROUNDS), rounds) / products * 1e12


def draw(path: Path, found: Sequence[tuple[int, float]]) -> None:
    """The sizes and what a multiply-accumulate takes, as a picture."""
    from matplotlib import pyplot

    macs, taken = zip(*found, strict=True)
    pyplot.rcParams["svg.hashsalt"] = "growth"
    figure, axes = pyplot.subplots(figsize=(7, 3.5))
    axes.semilogx([count / 1e6 for count in macs], taken, marker="o")
    axes.axhline(GOAL * min(taken), linestyle=":", color="grey")
    axes.set(xlabel="million multiply-accumulates", ylabel="ps for each", ylim=(0, None))
    axes.set_title(f"int8 networks of 20 sizes ({forms.running()}); dotted: twice the best")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def table(found: Sequence[tuple[int, float]]) -> str:
    """The same in Markdown, in two halves beside each other."""
    cells = [f"{macs / 1e6:,.1f} | {taken:.2f}" for macs, taken in found]
    half = (len(cells) + 1) // 2
    head = ["| million | ps for each | million | ps for each |", "|---|---|---|---|"]
    rows = zip(cells[:half], [*cells[half:], " | "], strict=False)
    return "\n".join([*head, *(f"| {left} | {right} |" for left, right in rows)])


def _best(function: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest of `rounds` runs, or of fewer long ones.

    Short ones are timed some together: reading a thread's clock takes about a microsecond.
    """
    function()
    start = time.perf_counter()
    function()
    together = 1 + int(_LEAST_TIMED / (time.perf_counter() - start))
    best = math.inf
    end = time.perf_counter() + rounds * _LEAST_SECONDS
    for _ in range(_MOST_RUNS):
        start = time.thread_time()
        for _ in range(together):
            function()
        best = min(best, (time.thread_time() - start) / together)
        if time.perf_counter() > end:
            break
    return best


@contextmanager
def _one_thread() -> Iterator[None]:
    before = os.environ.get(ENVIRONMENT_VARIABLE)
    os.environ[ENVIRONMENT_VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[ENVIRONMENT_VARIABLE]
        if before is not None:
            os.environ[ENVIRONMENT_VARIABLE] = before


if __name__ == "__main__":
    with _one_thread():
        points = list(measured(rounds=10))
    draw(Path(sys.argv[1]), points)
    print(table(points))
