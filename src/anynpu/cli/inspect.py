"""`anynpu inspect`: what a model file holds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import ModelError

_EPILOG = """\
examples:
  anynpu inspect yolov5.nb
  anynpu inspect yolov5.nb --layers
  anynpu inspect yolov5.nb --json | jq .inputs
"""


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "inspect",
        help="show what a .nb file holds",
        description="Show a .nb file's NPU, inputs and outputs, memory and layers. It needs "
        "neither a board nor the vendor's software.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="the file")
    parser.add_argument("--layers", action="store_true", help="list every layer")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the file's description; 0."""
    from ..soft.formats.nbg import is_nbg
    from .inspect_nbg import inspect_nbg

    data = Path(options.model).read_bytes()
    if not is_nbg(data):
        raise ModelError(f"{options.model} is no .nb file")
    inspect_nbg(options.model, data, layers=options.layers, as_json=options.json)
    return 0
