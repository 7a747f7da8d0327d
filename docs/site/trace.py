"""Draw a trace of `anynpu profile`, and pictures that commands draw themselves: `make pictures`."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from matplotlib.figure import Figure

from anynpu.cli import main
from tests.shared import SAMPLES

from .layouts import PICTURES

_MODEL = str(SAMPLES / "rk3588/smallcnn_i8.rknn")
_DETECTOR = str(SAMPLES / "rk3588/yolov3_tiny_416_i8.rknn")
_COLOURS = {
    "wait": "#dddddd", "set input": "#e9c46a", "run": "#2a6f97", "get output": "#81b29a",
    "arrange input": "#f4a261", "release": "#9d8189",
}  # fmt: skip


def draw_trace() -> None:
    """Requests on the cores, a track a core, by the stages of a trace file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        main(["profile", _DETECTOR, "--trace", str(path)])
        events = json.loads(path.read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    figure = Figure(figsize=(10, 0.8 + 0.7 * len(tracks)), layout="constrained")
    axes = figure.subplots()
    for stage, colour in _COLOURS.items():
        for number, track in enumerate(tracks):
            spans = [
                (event["ts"], event["dur"])
                for event in events
                if event["name"] == stage and event["tid"] == track
            ]
            axes.broken_barh(
                spans, (number - 0.35, 0.7), facecolors=colour, edgecolors="white", linewidth=0.3,
                label=stage if number == 0 else None,
            )  # fmt: skip
    axes.set_yticks(range(len(tracks)), list(tracks.values()))
    axes.invert_yaxis()
    axes.set_xlabel("microseconds")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(_COLOURS), frameon=False)
    figure.savefig(PICTURES / "trace.svg")


if __name__ == "__main__":
    # As at the chip's speed, however slow this machine is.
    os.environ["ANYNPU_SOFT_COMPUTE"] = "once"
    draw_trace()
    main(["bench", _DETECTOR, "--duration", "2", "--plot", str(PICTURES / "bench.svg")])
    main(["inspect", _MODEL, "--graph", str(PICTURES / "graph.svg")])
