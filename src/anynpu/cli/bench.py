"""`anynpu bench`: a model's latency and throughput, measured or estimated."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..errors import OptionError
from . import device, extras, feeds
from .help import HelpFormatter
from .measure import WAYS, Measured, measure
from .output import Report, progress

_EPILOG = """\
examples:
  anynpu bench yolov5s.rknn
  anynpu bench yolov5s.rknn --input street.jpg --duration 30 --plot bench.svg
  anynpu bench yolov5s.rknn --cores 0 --cores 0,1,2 --depth 3 --depth 12
  anynpu bench yolov5s.rknn --estimate --min-fps 25       # the chip's rate, without a board
"""
_SECONDS = 2.0
_WARM_UP = 3


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "bench",
        description="Measure how long a run takes and how many there are in a second: one by one, "
        "and with all cores busy. With --estimate the chip's rate by the model clock, without "
        "computing.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("model", help="the .rknn, .nb or .onnx file")
    feeds.add_arguments(parser)
    device.add_arguments(parser)
    parser.add_argument(
        "--duration",
        type=float,
        default=_SECONDS,
        metavar="SECONDS",
        help=f"how long each way is measured (default: {_SECONDS:g})",
    )
    parser.add_argument(
        "--way",
        action="append",
        choices=WAYS,
        help="how to run; may be given several times (default: all)",
    )
    parser.add_argument(
        "--cores",
        action="append",
        metavar="N,...",
        help="the cores to use; may be given several times (default: the session's choice)",
    )
    parser.add_argument(
        "--depth",
        action="append",
        type=int,
        metavar="N",
        help="places in the queue; may be given several times (default: 3)",
    )
    parser.add_argument(
        "--estimate", action="store_true", help="the chip's rate by the model clock"
    )
    parser.add_argument(
        "--min-fps", type=float, metavar="N", help="status 1 where the best way is slower"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw latencies and rates (anynpu[plot])")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, needs=("formats", "tables", "pictures", "soft"))


def run(options: argparse.Namespace) -> int:
    """Measure or estimate; 0, or 1 where it is slower than asked for."""
    extras.require(*_needs(options))
    if not options.duration > 0:
        raise OptionError(f"--duration is {options.duration:g}; it takes seconds above 0")
    device.apply(options)
    rate = _estimate(options) if options.estimate else _bench(options)
    if options.min_fps is not None and rate < options.min_fps:
        print(
            f"anynpu: {rate:.1f} runs a second, {options.min_fps:g} were asked for", file=sys.stderr
        )
        return 1
    return 0


def _needs(options: argparse.Namespace) -> list[str]:
    needs = [] if options.json else ["tables"]
    return [*needs, *(["plot"] if options.plot else [])]


def _estimate(options: argparse.Namespace) -> float:
    from .estimate import estimate

    found = estimate(options.model)
    chip, cores = found.soc.name, found.soc.cores
    if options.json:
        plain = {
            "device": {"chip": chip, "clock": "model", "computed": False},
            "layers": len(found.layers),
            "milliseconds": found.seconds * 1000,
            "fps_one_core": found.rate,
            "cores": cores,
            "fps_all_cores": found.rate_of_all,
            "milliseconds_all_cores_together": found.together * 1000,
            "error": found.error,
        }
        print(json.dumps(plain, indent=2))
        return found.rate_of_all
    report = Report()
    report.line(f"{chip.upper()}, estimated by the model clock; nothing is computed")
    rows = [("one core", f"{found.seconds * 1000:.2f}", f"{found.rate:.1f}")]
    if cores > 1:
        rows += [
            (
                f"{cores} cores, a request on each (at the most)",
                f"{found.seconds * 1000:.2f}",
                f"{found.rate_of_all:.1f}",
            ),
            (
                f"{cores} cores together on a request",
                f"{found.together * 1000:.2f}",
                f"{1 / found.together:.1f}",
            ),
        ]
    report.table("", ("", "ms a run", "runs a second"), rows, "-rr")
    report.line(f"The NPU's {len(found.layers)} layers alone; {found.error}.")
    return found.rate_of_all


def _bench(options: argparse.Namespace) -> float:
    ways = options.way or list(WAYS)
    settings = [
        (cores, depth) for cores in options.cores or [None] for depth in options.depth or [3]
    ]
    measured: list[Measured] = []
    runs_on, source = None, ""
    with progress("measuring", len(settings) * len(ways)) as bar:
        for cores, depth in settings:
            more: dict[str, Any] = {"max_queue_size": depth}
            if cores is not None:
                more["schedule"] = cores
            with device.open_session(options, options.model, **more) as session:
                runs_on = device.device_of(session)
                feed = feeds.read_feed(session, options, options.model)
                source = feeds.describe(feed, options)
                for _ in range(_WARM_UP):
                    session.run(None, feed)
                for way in ways:
                    measured.append(measure(session, feed, way, options.duration, cores, depth))
                    if bar is not None:
                        bar.advance(bar.task_ids[0])
    assert runs_on is not None, "there is a setting"
    if options.plot:
        from .plots import plot_bench

        plot_bench(measured, str(runs_on), options.plot)
    if options.json:
        plain = {
            "device": runs_on.plain(),
            "input": source,
            "results": [each.plain() for each in measured],
        }
        print(json.dumps(plain, indent=2))
    else:
        _print(str(runs_on), source, measured)
        if options.plot:
            Report().line(f"drawn to {options.plot}")
    return max(each.rate for each in measured)


def _print(runs_on: str, source: str, measured: list[Measured]) -> None:
    report = Report()
    report.line(runs_on)
    report.line(f"{source}, after {_WARM_UP} runs to warm up")
    headings = (
        "way", "cores", "depth", "runs", "runs a second", "least ms", "mean", "p50", "p90", "p99",
    )  # fmt: skip
    rows = [
        [
            each.way,
            each.cores or f"all {each.workers}",
            each.depth,
            each.runs,
            f"{each.rate:.1f}",
            *(_digits(value * 1000) for value in each.latency),
        ]
        for each in measured
    ]
    report.table("", headings, rows, "--rrrrrrrr")
    stages = measured[0].stages
    total = sum(mean for name, mean in stages.items() if name not in ("total", "callback"))
    rows = [
        [name, f"{mean / 1000:.3f}", f"{mean / total:.0%}"]
        for name, mean in stages.items()
        if name not in ("total", "callback")
    ]
    report.table(f"Stages of {measured[0].way}", ("stage", "mean ms", "share"), rows, "-rr")
    best = max(measured, key=lambda each: each.rate)
    report.line(_limit(best))


def _digits(milliseconds: float) -> str:
    """With as many decimals as make four digits, but no more than three."""
    decimals = 3 if milliseconds < 10 else 2 if milliseconds < 100 else 1
    return f"{milliseconds:.{decimals}f}"


def _limit(best: Measured) -> str:
    """Whether the device or the host is what limits the best way."""
    busy = best.busy
    text = f"The best is {best.way}, {best.rate:.1f} runs a second, with the device busy {busy:.0%}"
    if busy < _MOSTLY_BUSY:
        return f"{text}: this machine is the limit, by what it does before and after the runs."
    return f"{text}: the device is the limit."


_MOSTLY_BUSY = 0.85
