"""`anynpu classify`: tell what pictures show."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from . import pictures
from .help import HelpFormatter

if TYPE_CHECKING:
    from ..vision import Classification

_EPILOG = """\
examples:
  anynpu classify cup.jpg --model mobilenet.rknn --names imagenet.txt
  anynpu classify holiday/ --model efficientnet.onnx --mean 127 --std 128 --names imagenet.txt
"""


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "classify",
        description="Tell what pictures show: the likeliest classes and their probabilities.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--model", "-m", required=True, help="the classifier's .rknn, .nb or .onnx")
    parser.add_argument("--names", metavar="FILE", help="the classes' names, one a line")
    parser.add_argument(
        "--top", type=int, default=5, help="how many classes to show (default: %(default)s)"
    )
    parser.add_argument("--bgr", action="store_true", help="the network was trained on BGR")
    for name, what in (("mean", "subtracted"), ("std", "divided by")):
        parser.add_argument(
            f"--{name}",
            metavar="NUMBER[,NUMBER,NUMBER]",
            help=f"what is {what} for a model that doesn't normalise pixels itself",
        )
    pictures.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Classify every frame of the source; 0."""
    mean, std = (_numbers(name, getattr(options, name)) for name in ("mean", "std"))
    with ExitStack() as stack:
        session = pictures.open_session(stack, options, options.model)
        from ..vision import Classifier

        classifier = Classifier(
            session, names=options.names, top=options.top, is_bgr=options.bgr, mean=mean, std=std
        )
        width, height = classifier.input_size
        about = f"{options.model}: {len(classifier.names)} classes, pictures of {width}x{height}"
        task = pictures.Task(
            classifier.stream, _as_json, _rows, _draw, ("class", "probability"), "-r"
        )
        return pictures.process(options, session, task, about)


def _numbers(name: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3) or (name == "std" and 0 in numbers):
        raise OptionError(f"--{name} {text}: expected a number, or three such as 123,117,104")
    return numbers


def _as_json(found: Classification) -> Any:
    return found.as_dicts()


def _rows(found: Classification) -> list[Any]:
    return [(name, f"{score:.1%}") for name, score in zip(found.names, found.scores, strict=True)]


def _draw(pixels: Any, found: Classification) -> Any:
    from ..vision.drawing import draw_classification

    return draw_classification(pixels, found)
