"""`anynpu inspect`: what a model file holds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import ModelError

_EPILOG = """\
examples:
  anynpu inspect yolov5s.rknn
  anynpu inspect yolov5s.rknn --layers
  anynpu inspect yolov5s.nb --json | jq .inputs
"""


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "inspect",
        help="show what a .rknn or .nb file holds",
        description="Show a compiled model's chip, versions, inputs and outputs, memory and "
        "layers. It needs neither a board nor the vendor's software.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="the file")
    parser.add_argument(
        "--layers", action="store_true", help="list every layer, and what runs it here"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, extra="soft,cli")


def run(options: argparse.Namespace) -> int:
    """Print the file's description; 0."""
    from ..soft.formats.nbg import is_nbg
    from .inspect_nbg import inspect_nbg
    from .inspect_rknn import inspect_rknn

    data = Path(options.model).read_bytes()
    if is_nbg(data):
        inspect_nbg(options.model, data, layers=options.layers, as_json=options.json)
    elif b"RKNN" in data[:8]:  # an encrypted file has it behind other letters
        inspect_rknn(options.model, data, layers=options.layers, as_json=options.json)
    else:
        raise ModelError(f"{options.model} is neither a .rknn nor a .nb file")
    return 0
