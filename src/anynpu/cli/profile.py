"""`anynpu profile`: how long each layer of a model takes."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import soc as socs
from ..errors import OptionError
from . import device, extras, feeds
from .help import HelpFormatter
from .output import Report

if TYPE_CHECKING:
    from ..perf import LayerRow
    from ..session import InferenceSession

_EPILOG = """\
examples:
  anynpu profile yolov5s.rknn
  anynpu profile yolov5s.rknn --order --json | jq '.layers[0]'
  anynpu profile yolov5s.rknn --trace trace.json      # open it in https://ui.perfetto.dev
"""
_EDGES = ("InputOperator", "OutputOperator")
"""What a runtime lists as layers and computes nothing."""
_BAR = 20


@dataclass(frozen=True)
class LayerCost:
    """One layer: what it takes by the chip's clock and, on the soft NPU, on this machine.

    Microseconds; `host_us` is None where this machine computes the layer within another one.
    """

    type: str
    name: str
    target: str
    dtype: str
    output: str
    chip_us: int
    host_us: int | None


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "profile",
        description="Show how long each layer takes, the longest first: by a board's own table, or "
        "on the soft NPU by the model clock and on this machine.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("model", help="the .rknn, .nb or .onnx file")
    feeds.add_arguments(parser)
    device.add_arguments(parser)
    parser.add_argument("--order", action="store_true", help="in the order in which they run")
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="write a Perfetto trace of requests on all cores, a track a core",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, needs=("formats", "tables", "pictures", "soft"))


def run(options: argparse.Namespace) -> int:
    """Time the layers, print them, write the trace; 0."""
    if not options.json:
        extras.require("tables")
    device.apply(options)
    with device.open_session(options, options.model) as session:
        runs_on = device.device_of(session)
        is_vip = session.device_type != "rknpu2"
        if is_vip and not runs_on.is_soft:
            raise OptionError(f"{options.model}: VIPLite doesn't time layers")
        feed = feeds.read_feed(session, options, options.model)
        layers = _vip_costs(options, feed) if is_vip else _costs(options, session, feed, runs_on)
        if options.trace:
            from .trace import write_trace

            cores = socs.find_any(runs_on.chip).cores
            pinned = {"schedule": list(range(cores)), "dispatch": "idle"}
            with device.open_session(options, options.model, **pinned) as traced:
                write_trace(options.trace, traced, feed, str(runs_on), layers)
    if not options.order:
        layers.sort(key=lambda layer: -layer.chip_us)
    if options.json:
        found = {"device": runs_on.plain(), "layers": [asdict(layer) for layer in layers]}
        print(json.dumps(found, indent=2))
    else:
        _print(options, runs_on, layers)
    return 0


def _costs(
    options: argparse.Namespace, session: InferenceSession, feed: feeds.Feed, runs_on: device.Device
) -> list[LayerCost]:
    if not runs_on.is_soft:
        return [_cost(row, row.microseconds, None) for row in _table(options, session, feed)]
    with _environment({device.CLOCK: "model", device.COMPUTE: None}):
        chip = _table(options, session, feed)
    with _environment({device.CLOCK: "host", device.COMPUTE: None}):
        host = _table(options, session, feed)
    here = {(row.op_type, row.name): row.microseconds for row in host}
    return [_cost(row, row.microseconds, here.get((row.op_type, row.name))) for row in chip]


def _vip_costs(options: argparse.Namespace, feed: feeds.Feed) -> list[LayerCost]:
    """Of a `.nb` file, whose runtime has no table of layers: by the engine that computes it."""
    from ..soft.engines.nbg import vip
    from ..soft.formats import nbg
    from ..soft.values import store_real
    from .estimate import estimate

    found = estimate(options.model)
    program = vip.load(nbg.read(Path(options.model).read_bytes()), Path(options.model))
    instance = program.instance(program.largest)
    ports = program.variant(program.largest).inputs
    for port, target in zip(ports, instance.inputs, strict=True):
        store_real(feed[port.name], port, target)
    program.profile(instance)  # to warm up
    here = [layer.microseconds for layer in program.profile(instance)]
    return [
        LayerCost(
            layer.op_type,
            layer.name,
            "NPU",
            layer.dtype.name,
            f"({','.join(map(str, layer.output))})",
            round(time.microseconds),
            microseconds,
        )
        for layer, time, microseconds in zip(found.layers, found.times, here, strict=True)
    ]


@contextmanager
def _environment(wanted: Mapping[str, str | None]) -> Iterator[None]:
    """Variables of the environment with other values; None is without."""
    before = {name: os.environ.get(name) for name in wanted}
    try:
        _set_environment(wanted)
        yield
    finally:
        _set_environment(before)


def _set_environment(wanted: Mapping[str, str | None]) -> None:
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _table(
    options: argparse.Namespace, session: InferenceSession, feed: feeds.Feed
) -> list[LayerRow]:
    """The runtime's own table of layers, after a run to warm up."""
    from .. import Model

    with Model(options.model, library=options.library, profile=True) as model:
        arrays = [feed[arg.name] for arg in session.get_inputs()]
        for _ in range(2):
            model.run(*arrays)
        table = model.perf()
    return [row for row in table if row.op_type not in _EDGES]


def _cost(row: Any, chip: int, host: int | None) -> LayerCost:
    return LayerCost(row.op_type, row.name, row.target, row.dtype, row.output_shape, chip, host)


def _print(options: argparse.Namespace, runs_on: device.Device, layers: list[LayerCost]) -> None:
    report = Report()
    report.line(_first_line(runs_on))
    total = sum(layer.chip_us for layer in layers)
    headings = ["type", "name", "runs on", "dtype", "output", "chip us", "share", ""]
    rows = []
    for layer in layers:
        share = layer.chip_us / total if total else 0.0
        row = [
            layer.type,
            layer.name,
            f"{layer.target} !" if layer.target == "CPU" else layer.target,
            layer.dtype,
            layer.output,
            layer.chip_us,
            f"{share:.1%}",
            "█" * round(_BAR * share),
        ]
        if runs_on.is_soft:
            row.insert(6, "" if layer.host_us is None else layer.host_us)
        rows.append(row)
    if runs_on.is_soft:
        headings.insert(6, "here us")
    report.table("", headings, rows, "-----rrr" if runs_on.is_soft else "-----rr")
    on_cpu = [layer for layer in layers if layer.target == "CPU"]
    cpu = sum(layer.chip_us for layer in on_cpu)
    report.line(
        f"{len(layers)} layers, {total / 1000:.3f} ms by the chip's clock"
        + (f"; {len(on_cpu)} of them on the CPU (!), {cpu / 1000:.3f} ms" if on_cpu else "")
    )
    if options.trace:
        report.line(f"trace written to {options.trace}: open it in https://ui.perfetto.dev")


def _first_line(runs_on: device.Device) -> str:
    if not runs_on.is_soft:
        return str(runs_on)
    return (
        f"{runs_on.chip.upper()}, simulated by {runs_on.library}; 'chip us' is estimated by the "
        f"model clock (docs/clock.md), 'here us' is what this machine took"
    )
