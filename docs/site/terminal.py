"""Draw what commands print in a terminal: `make pictures`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
from PIL import Image, ImageDraw, ImageFont

from tests.shared import SAMPLES

from .layouts import PICTURES

_FONT = Path(mpl.get_data_path()) / "fonts/ttf/DejaVuSansMono.ttf"
_SIZE, _MARGIN = 15, 16
_PAPER, _INK, _PROMPT = "#1e1e2e", "#e4e4ef", "#8bd5ca"
_COMMANDS = {
    "estimate.png": ("bench", "yolov3_tiny_416_i8.rknn", "--estimate"),
    "profile.png": ("profile", "smallcnn_i8.rknn"),
}


def draw(name: str, arguments: tuple[str, ...]) -> None:
    """Run a command beside the compiled samples, and draw it with its output."""
    command = [sys.executable, "-m", "anynpu.cli", *arguments]
    printed = subprocess.run(
        command, cwd=SAMPLES / "rk3588", check=True, capture_output=True, text=True
    ).stdout
    lines = [f"$ anynpu {' '.join(arguments)}", *printed.splitlines()]
    font = ImageFont.truetype(str(_FONT), _SIZE)
    advance, height = font.getlength("x"), sum(font.getmetrics())
    width = round(advance * max(map(len, lines))) + 2 * _MARGIN
    picture = Image.new("RGB", (width, height * len(lines) + 2 * _MARGIN), _PAPER)
    ink = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        place = (_MARGIN, _MARGIN + number * height)
        ink.text(place, line, fill=_INK if number else _PROMPT, font=font)
    picture.save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    for name, arguments in _COMMANDS.items():
        draw(name, arguments)
