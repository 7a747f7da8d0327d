"""`anynpu detect`: find things in pictures."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from . import pictures
from .help import HelpFormatter

if TYPE_CHECKING:
    from ..vision import Detections

_EPILOG = """\
examples:
  anynpu detect street.jpg --model yolov8n.rknn --save found.jpg
  anynpu detect *.jpg --model yolov8n.rknn --save found
  anynpu detect traffic.mp4 --model yolov5s.rknn --head yolov5 --save found.mp4
  anynpu detect 0 --model yolo11n.rknn --json --frames 100
"""
_HEADS = (
    "yolov3-tiny, yolov5, yolov6, yolov7, yolov8, yolov10, yolo11, yolox, ssd; -seg (v5, v8, 11), "
    "-pose (v8, 11)"
)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "detect",
        description="Find things in pictures, and say what they are and where: boxes are x1, y1, "
        "x2, y2 in the picture's own pixels.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--model", "-m", required=True, help="the detector's .rknn, .nb or .onnx")
    parser.add_argument(
        "--head", help=f"what its outputs are (default: the one that they fit): {_HEADS}"
    )
    parser.add_argument("--names", metavar="FILE", help="the classes' names, one a line")
    parser.add_argument(
        "--threshold", type=float, default=0.25, help="the least score (default: %(default)s)"
    )
    parser.add_argument(
        "--overlap",
        type=float,
        default=0.45,
        help="of boxes of a class that overlap more, the best is kept (default: %(default)s)",
    )
    pictures.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Detect in every frame of the source; 0."""
    with ExitStack() as stack:
        session = pictures.open_session(stack, options, options.model)
        from ..vision import Detector

        detector = Detector(
            session,
            options.head,
            names=options.names,
            threshold=options.threshold,
            overlap=options.overlap,
        )
        width, height = detector.input_size
        about = f"{options.model}: {detector.head_name}, pictures of {width}x{height}"
        task = pictures.Task(
            detector.stream, _as_json, _rows, _draw, ("thing", "score", "box"), "-r-"
        )
        return pictures.process(options, session, task, about)


def _as_json(found: Detections) -> Any:
    return found.as_dicts()


def _rows(found: Detections) -> list[Any]:
    return [
        (each.name, f"{each.score:.2f}", " ".join(f"{value:.0f}" for value in each.box))
        for each in found
    ]


def _draw(pixels: Any, found: Detections) -> Any:
    from ..vision.drawing import draw_detections

    return draw_detections(pixels, found)
