"""`anynpu run`: compute a model's outputs once."""

from __future__ import annotations

import argparse
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from . import device, extras, feeds
from .help import HelpFormatter
from .output import Report

_EPILOG = """\
examples:
  anynpu run yolov5s.rknn --input street.jpg
  anynpu run encoder.rknn --input tokens=tokens.npy --input mask=mask.npy --output out.npz
  anynpu run net.onnx --soc rk3566 --raw --json
"""


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "run",
        description="Run a model once, on a board or on the soft NPU, and show its outputs.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("model", help="the .rknn, .nb or .onnx file")
    feeds.add_arguments(parser)
    device.add_arguments(parser)
    parser.add_argument(
        "--output", "-o", metavar="FILE", help="write the outputs to an .npz, or one to an .npy"
    )
    parser.add_argument(
        "--raw", action="store_true", help="the outputs in the model's own dtype, quantised"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, needs=("formats", "tables", "pictures", "soft"))


def run(options: argparse.Namespace) -> int:
    """Run, write the outputs, and print what they are; 0."""
    _check_output(options.output)
    if not options.json:
        extras.require("tables")
    device.apply(options)
    raw = {"output_dtype": "model"} if options.raw else {}
    with device.open_session(options, options.model, **raw) as session:
        runs_on = device.device_of(session)
        feed = feeds.read_feed(session, options, options.model)
        start = time.perf_counter()
        results = session.run(None, feed)
        seconds = time.perf_counter() - start
        outputs = {
            arg.name: result for arg, result in zip(session.get_outputs(), results, strict=True)
        }
    if options.output:
        _write(options.output, outputs)
    described = [_describe(name, array) for name, array in outputs.items()]
    if options.json:
        found = {"device": runs_on.plain(), "seconds": seconds, "outputs": described}
        print(json.dumps(found, indent=2))
        return 0
    report = Report()
    report.line(str(runs_on))
    report.line(f"{feeds.describe(feed, options)}: {seconds * 1000:.2f} ms")
    headings = ("output", "dtype", "shape", "least", "mean", "largest", "largest at")
    report.table("", headings, [_row(each) for each in described], "---rrrr")
    if options.output:
        report.line(f"written to {options.output}")
    return 0


def _check_output(path: str | None) -> None:
    if path and Path(path).suffix not in (".npz", ".npy"):
        raise OptionError(f"--output {path}: it may be an .npz or an .npy file")


def _write(path: str, outputs: dict[str, NDArray[Any]]) -> None:
    if path.endswith(".npz"):
        # np.savez takes names as arguments, and has arguments of its own.
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in outputs.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)
        return
    if len(outputs) != 1:
        raise OptionError(f"--output {path}: {len(outputs)} outputs need an .npz file")
    np.save(path, next(iter(outputs.values())))


def _describe(name: str, array: NDArray[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
    if array.size:
        place = np.unravel_index(int(array.argmax()), array.shape)
        found |= {
            "least": float(array.min()),
            "mean": float(array.mean(dtype=np.float64)),
            "largest": float(array.max()),
            "largest_at": [int(index) for index in place],
        }
    return found


def _row(described: dict[str, Any]) -> list[str]:
    shape = "x".join(map(str, described["shape"]))
    numbers = [f"{described[key]:.6g}" if key in described else "" for key in _NUMBERS]
    place = ",".join(map(str, described.get("largest_at", ())))
    return [described["name"], described["dtype"], shape, *numbers, place]


_NUMBERS = ("least", "mean", "largest")
