"""YOLOv7-tiny (cfg/deploy/yolov7-tiny.yaml): ELAN blocks with leaky ReLU."""

from __future__ import annotations

import onnx

from .graph import Graph

OUTPUTS = 255  # 3 anchors of 80 classes, 4 sides and an objectness


def build(size: int = 640) -> onnx.ModelProto:
    """The outputs are the sigmoids of the three heads' convolutions."""
    graph = Graph("yolov7_tiny", size, size)
    p3, p4, p5 = _backbone(graph)
    top = _pyramid_pool(graph, p5)
    x = graph.concat(_conv(graph, p4, 128), graph.upsample(_conv(graph, top, 128)))
    middle = _aggregate(graph, x, 64, 128)
    x = graph.concat(_conv(graph, p3, 64), graph.upsample(_conv(graph, middle, 64)))
    out3 = _aggregate(graph, x, 32, 64)
    x = graph.concat(_conv(graph, out3, 128, 3, 2), middle)
    out4 = _aggregate(graph, x, 64, 128)
    x = graph.concat(_conv(graph, out4, 256, 3, 2), top)
    out5 = _aggregate(graph, x, 128, 256)
    return graph.model(*(_head(graph, x) for x in (out3, out4, out5)))


def _backbone(graph: Graph) -> tuple[str, str, str]:
    x = _conv(graph, _conv(graph, graph.input, 32, 3, 2), 64, 3, 2)
    x = _aggregate(graph, x, 32, 64)
    levels = []
    for channels in (64, 128, 256):
        x = _aggregate(graph, graph.max_pool_2x2(x), channels, 2 * channels)
        levels.append(x)
    return levels[0], levels[1], levels[2]


def _conv(graph: Graph, x: str, filters: int, kernel: int = 1, stride: int = 1) -> str:
    return graph.conv(x, filters, kernel, stride, activation="LeakyRelu")


def _aggregate(graph: Graph, x: str, hidden: int, filters: int) -> str:
    """The ELAN block: two 1x1 convolutions, two 3x3 ones after the second, all kept."""
    first, second = _conv(graph, x, hidden), _conv(graph, x, hidden)
    third = _conv(graph, second, hidden, 3)
    fourth = _conv(graph, third, hidden, 3)
    return _conv(graph, graph.concat(fourth, third, second, first), filters)


def _pyramid_pool(graph: Graph, x: str) -> str:
    """SPPCSP of the tiny model: poolings of three sizes beside each other."""
    beside, y = _conv(graph, x, 256), _conv(graph, x, 256)
    pools = [graph.max_pool(y, kernel) for kernel in (13, 9, 5)]
    y = _conv(graph, graph.concat(*pools, y), 256)
    return _conv(graph, graph.concat(y, beside), 256)


def _head(graph: Graph, x: str) -> str:
    y = graph.conv(_conv(graph, x, 2 * graph.channels(x), 3), OUTPUTS)
    return graph.activate(y, "Sigmoid")
