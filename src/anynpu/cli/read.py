"""`anynpu read`: read the text in pictures."""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from . import pictures
from .help import HelpFormatter

if TYPE_CHECKING:
    from ..vision import TextLine

_EPILOG = """\
examples:
  anynpu read page.png --detector det.rknn --model rec.rknn --characters characters.txt
  anynpu read plate.jpg --model rec.onnx
"""


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "read",
        description="Read the text in pictures with PP-OCR's networks: the detector finds lines, "
        "the recogniser reads each. Without a detector a picture is one line.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--model", "-m", required=True, help="the recogniser's .rknn or .onnx")
    parser.add_argument("--detector", metavar="MODEL", help="the detector's .rknn or .onnx")
    parser.add_argument(
        "--characters",
        metavar="FILE",
        help="the recogniser's characters, one a line (default: those that an ONNX file, or a soft "
        ".rknn made of one, has in its metadata)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.5,
        help="the least confidence of a line (default: %(default)s)",
    )
    pictures.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read every frame of the source; 0."""
    characters = options.characters or _characters_of(options.model)
    with ExitStack() as stack:
        recogniser = pictures.open_session(stack, options, options.model)
        detector = None
        if options.detector:
            detector = pictures.open_session(stack, options, options.detector)
        from ..vision import TextReader

        reader = TextReader(
            recogniser, detector, characters=characters, least_confidence=options.threshold
        )

        def read(pixels: Iterable[Any]) -> Iterator[list[TextLine]]:
            return map(reader, pixels)

        about = f"{options.model} reads" + (
            f" what {options.detector} finds" if options.detector else " each picture as a line"
        )
        task = pictures.Task(read, _as_json, _rows, _draw, ("text", "confidence"), "-r")
        return pictures.process(options, recogniser, task, about)


def _characters_of(model: str) -> list[str]:
    """What an ONNX file's metadata says, as PP-OCR's conversions keep it."""
    from ..rknn import file_tables
    from ..rknn.onnx_metadata import read_metadata

    try:
        onnx = file_tables.onnx_of(Path(model).read_bytes())
        found = read_metadata(onnx).get("character") if onnx is not None else None
    except (ValueError, LookupError, struct.error):
        found = None
    if not found:
        raise OptionError(
            f"{model} doesn't say which characters it reads: name a file that does, one a line, "
            f"with --characters"
        )
    return found.splitlines()


def _as_json(lines: list[TextLine]) -> Any:
    return [line.as_dict() for line in lines]


def _rows(lines: list[TextLine]) -> list[Any]:
    return [(line.text, f"{line.confidence:.1%}") for line in lines]


def _draw(pixels: Any, lines: list[TextLine]) -> Any:
    from ..vision.drawing import draw_lines

    return draw_lines(pixels, lines)
