"""`anynpu compare`: two models or two devices, output by output, and layer by layer."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ModelError, OptionError
from . import device, extras, feeds
from .compare_nbg_layers import NbgDifference
from .differences import Difference, difference
from .help import HelpFormatter
from .output import Report
from .sides import Side, open_side

if TYPE_CHECKING:
    from .compare_layers import Layers

_EPILOG = """\
examples:
  anynpu compare yolov5s.rknn yolov5s.onnx --input street.jpg
  anynpu compare yolov5s.rknn yolov5s.onnx --input street.jpg --per-layer --plot layers.svg
  anynpu compare net_int8.rknn net_fp16.rknn --tolerance 0.01
  anynpu run net.rknn --input x.npy -o board.npz          # on the board, then anywhere:
  anynpu compare net.rknn board.npz --input x.npy
"""


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "compare",
        description="Compare the outputs of two models for the same input. B may be the ONNX file "
        "that A was made from, which ONNX Runtime computes in float32 with A's normalisation, or "
        "an .npz of outputs that `anynpu run` wrote.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("a", metavar="A", help="a .rknn, .nb or .onnx file")
    parser.add_argument("b", metavar="B", help="another, or an .npz of outputs")
    feeds.add_arguments(parser)
    device.add_arguments(parser)
    parser.add_argument("--library-b", metavar="PATH", help="the library for B (default: A's)")
    parser.add_argument(
        "--per-layer",
        action="store_true",
        help="compare each layer of A, a compiled file, with B, its ONNX source, by the tensors' "
        "names, of a .nb by weights; the worst come first",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="T",
        help="status 1 where 1 - cosine of an output is more than this",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the layers' distances (anynpu[plot])")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, needs=("formats", "tables", "pictures", "soft"))


def run(options: argparse.Namespace) -> int:
    """Compare and print; 0, or 1 where an output is farther off than the tolerance."""
    extras.require(*([] if options.json else ["tables"]), *(["plot"] if options.plot else []))
    if options.plot and not options.per_layer:
        raise OptionError("--plot draws layers: give --per-layer with it")
    if options.per_layer:
        _check_layers(options)
    device.apply(options)
    with device.open_session(options, options.a) as session:
        feed = feeds.read_feed(session, options, options.a)
    a = open_side(options.a, options.library, feed)
    b = open_side(options.b, options.library_b or options.library, feed, partner=options.a)
    outputs = _compare(a, b)
    layers = _layers(options, feed) if options.per_layer else None
    if options.json:
        print(json.dumps(_plain(a, b, outputs, layers), indent=2))
    else:
        _print(options, a, b, outputs, layers, feeds.describe(feed, options))
    return _verdict(options.tolerance, outputs)


def _check_layers(options: argparse.Namespace) -> None:
    from .compare_layers import check_files

    if Path(options.a).is_file() and Path(options.b).is_file():
        check_files(options.a, options.b)


def _compare(a: Side, b: Side) -> list[Difference]:
    names = list(a.outputs)
    partners = names if all(name in b.outputs for name in names) else list(b.outputs)
    if len(partners) != len(names):
        raise ModelError(f"A has the outputs {names}, B {list(b.outputs)}: which belong together?")
    found = []
    for name, partner in zip(names, partners, strict=True):
        one, other = a.outputs[name], b.outputs[partner]
        if one.size != other.size:
            raise ModelError(
                f"output {name!r} of A has the shape {one.shape}, {partner!r} of B {other.shape}"
            )
        found.append(difference(name, one, other, a.quantization.get(name)))
    return found


def _layers(options: argparse.Namespace, feed: feeds.Feed) -> Layers:
    from .compare_layers import compare_layers

    layers = compare_layers(options.a, options.b, feed)
    if options.plot:
        from .plots import plot_layers

        plot_layers(layers.compared, f"{options.a} against {options.b}", options.plot)
    return layers


def _plain(
    a: Side, b: Side, outputs: Sequence[Difference], layers: Layers | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "a": a.about,
        "b": b.about,
        "outputs": [asdict(each) for each in outputs],
    }
    if layers is not None:
        found["layers"] = [asdict(each) for each in layers.compared]
        found["not_compared"] = [asdict(each) for each in layers.not_compared]
    return found


def _print(
    options: argparse.Namespace,
    a: Side,
    b: Side,
    outputs: Sequence[Difference],
    layers: Layers | None,
    source: str,
) -> None:
    report = Report()
    report.line(f"A: {options.a}: {a.about}")
    report.line(f"B: {options.b}: {b.about}")
    report.line(source)
    headings = ("output", "shape", "cosine", "largest error", "mean error", "equal integers")
    report.table("", headings, map(_row, outputs), "--rrrr")
    if layers is None:
        return
    _print_layers(report, layers, headings[1:])
    if options.plot:
        report.line(f"drawn to {options.plot}, in the order in which they run")


def _print_layers(report: Report, layers: Layers, headings: Sequence[str]) -> None:
    worst = sorted(layers.compared, key=lambda each: -each.distance)
    title, first = "Layers, the worst first", ["tensor"]
    rows = [_row(each) for each in worst]
    found = [each for each in worst if isinstance(each, NbgDifference)]
    if found:
        first = ["layer", "step", "tensor"]
        rows = [[*_own(each), *row] for each, row in zip(found, rows, strict=True)]
    report.table(title, (*first, *headings), rows, "-" * len(first) + "-rrrr")
    if layers.not_compared:
        others = [(e.layer, "x".join(map(str, e.shape)), e.reason) for e in layers.not_compared]
        report.table("Layers that aren't compared", ("layer", "writes", "why"), others)


def _own(each: NbgDifference) -> list[str]:
    return [each.layer, "" if each.scale is None else f"{each.scale:.4g}"]


def _row(each: Difference) -> list[str]:
    equal = "" if each.equal is None else f"{each.equal:.2%}"
    shape = "x".join(map(str, each.shape))
    return [
        each.name, shape, f"{each.cosine:.6f}", f"{each.largest:.4g}", f"{each.mean:.4g}", equal,
    ]  # fmt: skip


def _verdict(tolerance: float | None, outputs: Sequence[Difference]) -> int:
    worst = max(outputs, key=lambda each: each.distance)
    if tolerance is None or worst.distance <= tolerance:
        return 0
    print(
        f"anynpu: output {worst.name!r} is {worst.distance:.3g} off, more than {tolerance:g}",
        file=sys.stderr,
    )
    return 1
