"""`anynpu inspect`: what a model file holds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import OptionError
from ..file_kinds import check_model
from . import extras
from .help import HelpFormatter
from .output import NO_KERNELS_OF_ONNX, Shown

_EPILOG = """\
examples:
  anynpu inspect yolov5s.rknn
  anynpu inspect yolov5s.rknn --layers --kernels
  anynpu inspect yolov5s.rknn --layers --macs
  anynpu inspect yolov5s.rknn --markdown > yolov5s.md
  anynpu inspect yolov5s.onnx --graph yolov5s.svg
  anynpu inspect yolov5s.nb --json | jq .inputs
"""


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "inspect",
        description="Show a model's chip, versions, inputs and outputs, memory, operators and "
        "layers: of a compiled .rknn or .nb file, of a soft one, or of an ONNX file. It needs "
        "neither a board nor the vendor's software.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("model", help="the file")
    parser.add_argument(
        "--layers", action="store_true", help="list every layer, and what runs it here"
    )
    parser.add_argument(
        "--kernels",
        action="store_true",
        help="list every layer, with the C kernels that run a compiled file's tasks here, and in "
        "which form",
    )
    parser.add_argument(
        "--macs",
        action="store_true",
        help="list the multiply-accumulates, weights and memory traffic of each layer",
    )
    parser.add_argument(
        "--graph", metavar="FILE", help="draw the graph (.svg, .png or .pdf; needs anynpu[plot])"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print tables in Markdown")
    parser.set_defaults(run=run, needs=("formats", "tables"))


def run(options: argparse.Namespace) -> int:
    """Print the file's description; 0."""
    check_model(options.model)
    data = Path(options.model).read_bytes()
    extras.require(*_needs(options, data))
    if options.kernels and _is_onnx(data):
        raise OptionError(NO_KERNELS_OF_ONNX)
    _describe(options, data)
    if options.graph:
        from .graph import draw_graph

        draw_graph(options.model, data, options.graph)
        if not options.json:
            from .output import Report

            Report(as_markdown=options.markdown).line(f"drawn to {options.graph}")
    return 0


def _needs(options: argparse.Namespace, data: bytes) -> list[str]:
    """All that is wanted, told before anything is printed."""
    needs = ["formats"]
    if not (options.json or options.markdown):
        needs.append("tables")
    if not extras.missing(needs)[0] and _is_onnx(data):
        needs.append("soft")
    if options.graph:
        needs.append("graph")
    return needs


def _is_onnx(data: bytes) -> bool:
    """Whether a file is ONNX, or a soft `.rknn` file with ONNX inside."""
    from ..soft.formats import rknn
    from ..soft.formats.nbg import is_nbg

    return not (is_nbg(data) or rknn.is_compiled(data) or _is_encrypted(data))


def _is_encrypted(data: bytes) -> bool:
    return b"RKNN" in data[4:8]


def _describe(options: argparse.Namespace, data: bytes) -> None:
    from ..soft.formats import rknn
    from ..soft.formats.nbg import is_nbg

    shown = Shown(
        layers=options.layers or options.kernels,
        kernels=options.kernels,
        macs=options.macs,
        as_json=options.json,
        as_markdown=options.markdown,
    )
    if is_nbg(data):
        from .inspect_nbg import inspect_nbg

        inspect_nbg(options.model, data, shown)
    elif rknn.is_compiled(data) or _is_encrypted(data):
        from .inspect_rknn import inspect_rknn

        inspect_rknn(options.model, data, shown)
    else:
        from .inspect_onnx import inspect_onnx

        inspect_onnx(options.model, data, shown)
