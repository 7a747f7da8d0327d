"""`anynpu demo`: read a page of text on a simulated NPU."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import soc as socs
from ..lifetime import Closeable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    from ..session import InferenceSession
    from ..vision.text import Line

_HALVES = (127.5, 127.5, 127.5)
_PAGE_SIDE = 736
_LINE_HEIGHT, _LINE_WIDTH = 48, 1024
_READABLE = 0.5
_INK = (220, 30, 30)


@dataclass(frozen=True)
class _Networks:
    """PP-OCR's two networks as a package carries them, with the detector's own normalisation.

    The recogniser's is (x - 127.5) / 127.5; both are for pictures in BGR.
    """

    package: str
    detector: str
    recogniser: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


_NETWORKS = (
    _Networks(
        "rapidocr_onnxruntime",  # no release for Python 3.13 and later
        "ch_PP-OCRv4_det_infer.onnx",
        "ch_PP-OCRv4_rec_infer.onnx",
        (123.675, 116.28, 103.53),
        (58.395, 57.12, 57.375),
    ),
    _Networks("rapidocr", "PP-OCRv6_det_small.onnx", "PP-OCRv6_rec_small.onnx", _HALVES, _HALVES),
)


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "demo",
        description="Find and read the lines of text in a picture with PP-OCR's networks, built "
        "for a simulated chip.",
    )
    parser.add_argument("picture", nargs="?", help="default: scikit-image's page.png")
    parser.add_argument("--soc", default=socs.DEFAULT.name, help="the chip to simulate")
    parser.add_argument("-o", "--output", default="page-read.png", help="the picture to write")
    parser.set_defaults(run=run, needs=("formats", "soft", "tables", "pictures", "demo"))


def run(options: argparse.Namespace) -> int:
    """Build both networks, find the lines, read them, print them, draw them."""
    times = _Times()
    chip = socs.find(options.soc)
    picture = _open_picture(options.picture)
    with times.measure("build and load the networks"):
        reader = PageReader(chip.name)
    with reader:
        with times.measure("find the lines"):
            lines = reader.find(picture)
        readings = []
        for line in lines:
            with times.measure("read a line"):
                readings.append((line, *reader.read(picture, line)))
        runs_on = f"{chip.name.upper()}, simulated by {reader.library}"
    readable = [reading for reading in readings if reading[2] >= _READABLE]
    _draw(picture, [line for line, _, _ in readable]).save(options.output)
    _report([(text, sure) for _, text, sure in readable], times, runs_on)
    print(f"The page with its lines boxed: {options.output}")
    return 0


class PageReader(Closeable):
    """PP-OCR's detector and recogniser, built for a chip, each in a session on the soft NPU."""

    def __init__(self, chip: str) -> None:
        with ExitStack() as cleanup:
            folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory()))
            detector, recogniser, self._characters = _build_networks(folder, chip)
            self._detector = cleanup.enter_context(_open_session(detector))
            self._recogniser = cleanup.enter_context(_open_session(recogniser))
            self._cleanup = cleanup.pop_all()

    @property
    def library(self) -> str:
        """What the sessions run on."""
        return self._recogniser.get_modelmeta().custom_metadata_map["library"]

    def find(self, picture: Image.Image) -> list[Line]:
        """The lines of text in a picture, from top to bottom."""
        from ..vision.letterbox import letterbox
        from ..vision.text import find_lines

        page = letterbox(picture, _PAGE_SIDE, _PAGE_SIDE)
        (probabilities,) = self._detector.run(None, _as_input(page.pixels))
        return find_lines(probabilities[0, 0], page.scale)

    def read(self, picture: Image.Image, line: Line) -> tuple[str, float]:
        """(text, confidence) of a line."""
        from ..vision.text import cut_line, read_line

        pixels = cut_line(picture, line, _LINE_WIDTH, _LINE_HEIGHT)
        (probabilities,) = self._recogniser.run(None, _as_input(pixels))
        return read_line(probabilities[0], self._characters)

    def close(self) -> None:
        """Close both sessions and remove the networks built."""
        self._cleanup.close()


class _Times:
    """Seconds by stage, in the order of the stages."""

    def __init__(self) -> None:
        self.stages: dict[str, list[float]] = {}

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.stages.setdefault(stage, []).append(time.perf_counter() - start)


def _open_picture(path: str | None) -> Image.Image:
    from PIL import Image

    if path is not None:
        return Image.open(path).convert("RGB")
    from skimage import data

    return Image.fromarray(data.page()).convert("RGB")


def _find_networks() -> tuple[_Networks, Path]:
    """The networks that are installed and their folder; the package would import OpenCV."""
    for networks in _NETWORKS:
        spec = find_spec(networks.package)
        if spec is not None and spec.submodule_search_locations:
            folder = Path(spec.submodule_search_locations[0]) / "models"
            if (folder / networks.detector).is_file():
                return networks, folder
    packages = " or ".join(networks.package for networks in _NETWORKS)
    raise ImportError(f"{packages} isn't installed: pip install 'anynpu[demo]'")


def _build_networks(folder: Path, chip: str) -> tuple[Path, Path, list[str]]:
    """Build both networks into a folder; returns their paths and the recogniser's characters."""
    import onnx

    from ..soft.build import BuildOptions, build_file

    networks, source = _find_networks()
    detector, recogniser = folder / "detector.rknn", folder / "recogniser.rknn"
    build_file(
        source / networks.detector,
        detector,
        BuildOptions(
            soc=chip,
            mean={"x": networks.mean},
            std={"x": networks.std},
            shapes=[{"x": (1, 3, _PAGE_SIDE, _PAGE_SIDE)}],
        ),
    )
    model = onnx.load(str(source / networks.recogniser))
    properties = {entry.key: entry.value for entry in model.metadata_props}
    build_file(
        model,
        recogniser,
        BuildOptions(
            soc=chip,
            mean={"x": _HALVES},
            std={"x": _HALVES},
            shapes=[{"x": (1, 3, _LINE_HEIGHT, _LINE_WIDTH)}],
        ),
    )
    return detector, recogniser, [*properties["character"].splitlines(), " "]


def _open_session(path: Path) -> InferenceSession:
    from .. import InferenceSession

    return InferenceSession(path, provider_options={"library": "soft"})


def _as_input(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """RGB (H, W, 3) as BGR (1, 3, H, W), which is what the networks take."""
    view: NDArray[np.uint8] = pixels[None, :, :, ::-1].transpose(0, 3, 1, 2)
    return view


def _draw(picture: Image.Image, lines: Sequence[Line]) -> Image.Image:
    from PIL import ImageDraw

    drawn = picture.copy()
    pen = ImageDraw.Draw(drawn)
    for line in lines:
        pen.polygon([(float(x), float(y)) for x, y in line.corners], outline=_INK, width=1)
    return drawn


def _report(readings: Sequence[tuple[str, float]], times: _Times, runs_on: str) -> None:
    from rich.table import Table

    from .output import console as output

    console = output()
    console.print(f"A page read on {runs_on}\n")
    table = Table("text", "confidence", box=None)
    table.columns[1].justify = "right"
    for text, sure in readings:
        table.add_row(text, f"{sure:.1%}")
    console.print(table)
    table = Table("stage", "time", box=None)
    table.columns[1].justify = "right"
    for stage, seconds in times.stages.items():
        each = f"{1000 * sum(seconds) / len(seconds):.0f} ms"
        table.add_row(stage, each if len(seconds) == 1 else f"{len(seconds)} x {each}")
    console.print()
    console.print(table)
