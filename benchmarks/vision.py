"""Boxes from a detector's int8 output, and frames through a pipeline of cores.

Post-processing is that of YOLOv8 at 640x640: 84 channels of 8,400 cells, of which forty reach the
threshold. What it is compared with dequantises everything and looks for each cell's best class. The
pipeline is photographs, fitted into 640x640, through three cores of the null device at 10 ms, whose
outputs are taken as they are, in int8.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu.layouts import dequantize_affine, dequantize_nc1hwc2, nchw_to_nc1hwc2
from anynpu.tensor import Layout, Quantization
from anynpu.vision import Detector
from anynpu.vision.cells import Activation, Cells, Output
from anynpu.vision.heads import HEADS, Candidates, Head
from anynpu.vision.suppression import suppress

from .measure import Comparison, compare
from .null_device import null_device

_SIZE = (640, 640)
_CELLS, _CLASSES, _FOUND = 8400, 80, 40
_SCALE, _ZERO_POINT = 1 / 255, -128
_THRESHOLD, _OVERLAP = 0.25, 0.45
_CORE = 10.0
_CORES = 3


def run(rounds: int) -> Iterator[Comparison]:
    """`rounds` is in turns of the first, and in tenths of the second's frames."""
    yield from _post_processing(rounds)
    yield _pipeline(10 * max(rounds, 10))


def _post_processing(rounds: int) -> Iterator[Comparison]:
    planes = _output()
    packed = nchw_to_nc1hwc2(planes.values.reshape(1, 84, _CELLS, 1), 16)
    blocks = replace(planes, shape=(1, 84, _CELLS, 1), values=packed, layout=Layout.NC1HWC2)
    head = HEADS["yolov8"][0]
    assert len(_integers_first(head, planes)) == len(_dequantise_all(planes))
    for name, output in (("planes", planes), ("channel blocks", blocks)):
        yield compare(
            f"boxes of int8 84x8400, {name}: integers first / dequantise all",
            partial(_integers_first, head, output),
            partial(_dequantise_all, output),
            rounds=rounds,
            goal=1 / 5,
        )


def _output() -> Output:
    """Noise below the threshold, and some cells above it."""
    noise = np.random.default_rng(1)
    values = noise.uniform(0, 0.1, (1, 84, _CELLS))
    values[0, :4] = noise.uniform(0.1, 0.9, (4, _CELLS))
    found = noise.choice(_CELLS, _FOUND, replace=False)
    values[0, 4 + noise.integers(0, _CLASSES, _FOUND), found] = noise.uniform(0.3, 1, _FOUND)
    stored = np.clip(np.rint(values / _SCALE) + _ZERO_POINT, -128, 127).astype(np.int8)
    quantization = Quantization(_SCALE, _ZERO_POINT)
    return Output("boxes", (1, 84, _CELLS), stored, Layout.NCHW, quantization)


def _integers_first(head: Head, output: Output) -> NDArray[np.intp]:
    found = head.decode([output], _SIZE, _THRESHOLD)
    return suppress(found.boxes, found.scores, found.classes, _OVERLAP)


def _dequantise_all(output: Output) -> NDArray[np.intp]:
    if output.layout is Layout.NC1HWC2:
        unpacked = dequantize_nc1hwc2(output.values, output.shape[1], _SCALE, _ZERO_POINT)
        values = unpacked[0, :, :, 0]
    else:
        values = dequantize_affine(output.values[0], _SCALE, _ZERO_POINT)
    best = values[4:].argmax(axis=0)
    scores = np.take_along_axis(values[4:], best[None], axis=0)[0]
    kept = scores >= np.float32(_THRESHOLD)
    centred = values[:4, kept].T * np.float32(_SIZE[0])
    half = centred[:, 2:] / 2
    boxes = np.concatenate([centred[:, :2] - half, centred[:, :2] + half], axis=1)
    return suppress(boxes, scores[kept], best[kept], _OVERLAP)


class _Anything(Head):
    """A head for the null device, whose one output has nothing in it."""

    @property
    def wants(self) -> str:
        return "anything"

    def fits(self, outputs: Any, size: Any) -> bool:
        return True

    def classes(self, outputs: Any) -> int:
        return _CLASSES

    def scores(self, outputs: Any) -> list[tuple[Cells, slice, Activation]]:
        return [(outputs[0].planes(), slice(4, 84), Activation.SIGMOID)]

    def decode(self, outputs: Any, size: Any, threshold: float) -> Candidates:
        cells, classes, _ = self.scores(outputs)[0]
        found = cells.reaching(classes, 1e9, Activation.NONE)
        boxes = cells.real(slice(0, 4), found)
        return Candidates(boxes, np.zeros(len(found), np.float32), found)


def _pipeline(frames: int) -> Comparison:
    """Milliseconds for a frame, against what three cores could do with no time lost."""
    noise = np.random.default_rng(2)
    photographs = [noise.integers(0, 256, (480, 640, 3), dtype=np.uint8) for _ in range(8)]
    ideal = _CORE / _CORES
    with null_device() as device:
        device.shape((1, 3, *_SIZE))
        device.set_output((1, 84, _CELLS))
        device.cores(*[_CORE] * _CORES)
        with device.open(output_dtype="model") as session:
            detector = Detector(session, _Anything(), std=1)
            list(detector.stream(photographs))
            start = time.perf_counter()
            for _ in detector.stream(photographs[n % 8] for n in range(frames)):
                pass
            taken = (time.perf_counter() - start) * 1000 / frames
    name = "frames of 640x480 through 3 cores at 10 ms / the ideal"
    return Comparison(name, taken, ideal, taken / ideal, 1 / 0.9)
