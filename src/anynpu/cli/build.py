"""`anynpu build`: prepare an ONNX model for the soft NPU."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import soc as socs
from ..errors import OptionError
from ..file_kinds import check_model
from .help import HelpFormatter

if TYPE_CHECKING:
    from ..soft.engines import Port, Program

_EPILOG = """\
examples:
  anynpu build yolo.onnx -o yolo.rknn --mean 0,0,0 --std 255,255,255
  anynpu build det.onnx -o det.onnx --shape x=1,3,640,640 --soc rk3566
  anynpu build net.onnx -o net_int8.rknn --quantize calibration/
  anynpu build net.onnx -o net.nb --soc t527 --quantize calibration/
"""


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "build",
        description="Write an ONNX file (or a soft .rknn or .nb file round it) that the soft NPU "
        "runs as a compiled model: normalisation, chip and quantisation included.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("model", help="the ONNX file")
    parser.add_argument(
        "-o", "--output", required=True, help="the .onnx, .rknn or .nb file to write"
    )
    parser.add_argument(
        "--soc",
        help=f"the chip (default: {socs.DEFAULT.name}, for .nb files {socs.VIP_DEFAULT.name})",
    )
    parser.add_argument(
        "--mean",
        action="append",
        default=[],
        metavar="[INPUT=]M,...",
        help="the mean of each channel, subtracted by the runtime",
    )
    parser.add_argument(
        "--std",
        action="append",
        default=[],
        metavar="[INPUT=]S,...",
        help="the standard deviation of each channel, divided by after the mean",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="INPUT=N,...[;INPUT=N,...]",
        help="fix the shapes of inputs; given several times, the model is dynamic",
    )
    parser.add_argument("--quantize", metavar="FOLDER", help="quantise; images or .npy/.npz files")
    parser.add_argument(
        "--quantize-type",
        default="int8",
        choices=("int8", "int16"),
        help="what to quantise to; int16 (dynamic fixed point at the edges) is for .nb files",
    )
    parser.add_argument("--bgr", action="store_true", help="read calibration images as BGR")
    parser.add_argument("--custom-string", default="", help="text for RKNN_QUERY_CUSTOM_STRING")
    parser.add_argument(
        "--remove-weights",
        action="store_true",
        help="leave the weights out, for RKNN_FLAG_SHARE_WEIGHT_MEM with a model that has them",
    )
    parser.set_defaults(run=run, needs=("formats", "soft"))


def run(options: argparse.Namespace) -> int:
    """Build, and print the inputs and outputs of what was written."""
    from ..soft.build import BuildOptions, build_file

    check_model(options.model)
    program = build_file(
        options.model,
        options.output,
        BuildOptions(
            soc=options.soc,
            mean=_channels(options.mean, "--mean", options.model),
            std=_channels(options.std, "--std", options.model),
            shapes=[_shapes(text) for text in options.shape],
            quantize=options.quantize,
            bgr=options.bgr,
            custom_string=options.custom_string,
            remove_weights=options.remove_weights,
            quantize_type=options.quantize_type,
        ),
    )
    _print(options.output, program)
    return 0


def _channels(texts: Sequence[str], option: str, model: str) -> dict[str, list[float]]:
    """The numbers of each input; without a name they are for the model's only input."""
    result = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")
        name = name or _only_input(model, option)
        try:
            result[name] = [float(number) for number in numbers.split(",")]
        except ValueError:
            raise OptionError(f"{option} {text}: expected numbers such as 127.5,127.5,127.5") from (
                None
            )
    return result


def _only_input(model: str, option: str) -> str:
    from ..soft.build.rknn_file import load_onnx
    from ..soft.engines.onnx.boundary import fed_inputs

    names = [info.name for info in fed_inputs(load_onnx(model).graph)]
    if len(names) != 1:
        raise OptionError(f"{option} needs an input's name, as NAME=...; the model has {names}")
    return str(names[0])


def _shapes(text: str) -> dict[str, list[int]]:
    shapes = {}
    for part in text.split(";"):
        name, equals, sizes = part.rpartition("=")
        try:
            shapes[name] = [int(size) for size in sizes.split(",")]
        except ValueError:
            equals = ""
        if not equals or min(shapes[name]) < 1:
            raise OptionError(f"--shape {text}: expected INPUT=1,3,640,640")
    return shapes


def _print(output: str, program: Program) -> None:
    print(f"{output}: {program.framework} for {program.soc}")
    shapes = program.variant(program.largest)
    for side, ports in (("input", shapes.inputs), ("output", shapes.outputs)):
        for port in ports:
            print(f"  {side:6} {port.name}: {_describe(port)}")


def _describe(port: Port) -> str:
    text = f"{port.dtype.name} {'x'.join(map(str, port.shape))}"
    if port.quantization:
        text += f", scale {port.quantization.scale:.6g}, zero point {port.quantization.zero_point}"
    if port.normalization:
        mean = ",".join(f"{value:g}" for value in port.normalization.mean)
        std = ",".join(f"{value:g}" for value in port.normalization.std)
        text += f", mean {mean}, std {std}"
    return text
