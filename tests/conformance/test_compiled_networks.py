"""Whole compiled networks: each node fed the simulator's tensors, classes, and boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anynpu
from anynpu.soft.engines import ModelSource
from anynpu.soft.engines.compiled.buffers import TensorBuffer, element_dtype
from anynpu.soft.engines.compiled.layers import computing_nodes
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.rknpu.rounding import SILICON, SIMULATOR, Rounding
from anynpu.soft.formats.rknn.model import Tensor

from .rknn_files import run_program

Sample = Callable[[str], Path]

_ANCHORS = (
    ((81, 82), (135, 169), (344, 319)),
    ((10, 14), (23, 27), (37, 58)),
)
_PICTURE = 416


def archive_of(file: Path, suffix: str = ".npz") -> dict[str, NDArray[Any]]:
    path = file.with_suffix(suffix)
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with np.load(path) as archive:
        return dict(archive)


@pytest.mark.parametrize("name", ["rk3588/efficientnet_lite0_224_i8"])
def test_each_node_fed_the_simulator_s_tensors(compiled_sample: Sample, name: str) -> None:
    file = compiled_sample(name)
    dumped = archive_of(file, ".nodes.npz")
    program = CompiledProgram(ModelSource.of(file).read())
    decoded = program.graph(0)
    graph = decoded.graph
    memory = np.zeros(decoded.prepared.memory_bytes, np.uint8)
    executor = decoded.prepared.executor(memory)
    misses, compared = [], 0
    for node in computing_nodes(graph):
        inputs = [graph.tensors[index] for index in node.inputs if index >= 0]
        outputs = [graph.tensors[index] for index in node.outputs]
        if not all(tensor.name in dumped for tensor in outputs):
            continue
        for tensor in inputs:
            if tensor.kind.is_internal and tensor.name in dumped:
                held = dumped[tensor.name].astype(element_dtype(tensor)).reshape(tensor.shape)
                TensorBuffer(memory, tensor).write(held)
        if decoded.prepared.has_tasks(node.index):
            executor.run_node(node.index)
        else:
            decoded.cpu_nodes[node.index].bind(memory)()
        for tensor in outputs:
            distance = np.abs(held_by(memory, tensor) - dumped[tensor.name].reshape(tensor.shape))
            compared += 1
            if distance.max() > 1:
                misses.append(f"{node.name}: {distance.max()} steps")
    assert not misses
    assert compared >= 50


def held_by(memory: NDArray[np.uint8], tensor: Tensor) -> NDArray[Any]:
    held: NDArray[Any] = np.empty(tensor.shape, element_dtype(tensor))
    TensorBuffer(memory, tensor).read(held)
    return held.astype(np.int32)


@pytest.mark.parametrize("chip", ["rk3588", "rk3566"])
def test_a_picture_has_the_same_five_best_classes(compiled_sample: Sample, chip: str) -> None:
    file = compiled_sample(f"{chip}/efficientnet_lite0_224_i8")
    values = archive_of(file)
    with anynpu.Model(file) as model:
        model.run(values["in0"])
        found = model.output_f32(0)
    best = np.argsort(-found.ravel(), kind="stable")[:5]
    assert best.tolist() == np.argsort(-values["sim0"].ravel(), kind="stable")[:5].tolist()


# A step of the output moves a narrow box by a twentieth; silicon rounds in between, and one such
# box is two steps off with it.
@pytest.mark.parametrize(
    ("rounding", "mean", "least"),
    [
        pytest.param(SIMULATOR, 0.98, 0.95, id="simulator"),
        pytest.param(SILICON, 0.96, 0.85, id="silicon"),
    ],
)
def test_a_picture_has_the_same_boxes(
    compiled_sample: Sample, rounding: Rounding, mean: float, least: float
) -> None:
    file = compiled_sample("rk3588/yolov3_tiny_416_i8")
    values = archive_of(file)
    theirs = boxes_of([values["sim0"], values["sim1"]], 0.08)
    ours = boxes_of(heads_of(file, values, rounding), 0.06)
    assert len(theirs) >= 5
    shared = [overlap(ours[place], box) for place, box in theirs.items() if place in ours]
    # A class that is as likely as another may change places with it.
    assert len(shared) >= len(theirs) - 1
    assert np.mean(shared) > mean
    assert min(shared) > least


def heads_of(
    file: Path, values: dict[str, NDArray[Any]], rounding: Rounding
) -> list[NDArray[np.float64]]:
    """Both outputs as real numbers, NCHW."""
    outputs, _ = run_program(CompiledProgram(file.read_bytes(), rounding=rounding), values)
    heads = []
    for array, port, simulated in outputs:
        assert port.quantization is not None
        steps = array.astype(np.float64) - port.quantization.zero_point
        heads.append((steps * port.quantization.scale).reshape(simulated.shape))
    return heads


def boxes_of(heads: Sequence[NDArray[Any]], score: float) -> dict[tuple[int, ...], NDArray[Any]]:
    """Boxes (left, top, right, bottom) with at least a score, by place and class."""
    boxes: dict[tuple[int, ...], NDArray[Any]] = {}
    for number, (head, anchors) in enumerate(zip(heads, _ANCHORS, strict=True)):
        size = head.shape[-1]
        logits = head.reshape(3, 85, size, size)
        likely = 1 / (1 + np.exp(-logits))
        scores = likely[:, 4] * likely[:, 5:].max(axis=1)
        for anchor, y, x in np.argwhere(scores > score):
            tx, ty, tw, th = logits[anchor, :4, y, x]
            cx, cy = (x + 1 / (1 + np.exp(-tx))) / size, (y + 1 / (1 + np.exp(-ty))) / size
            w, h = np.exp((tw, th)) * anchors[anchor] / _PICTURE
            kind = int(likely[anchor, 5:, y, x].argmax())
            key = (number, int(anchor), int(y), int(x), kind)
            boxes[key] = np.array([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2])
    return boxes


def overlap(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Intersection over union."""
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    shared = float(np.prod(np.maximum(sides, 0)))
    areas = [float(np.prod(box[2:] - box[:2])) for box in (one, other)]
    return shared / (sum(areas) - shared)
