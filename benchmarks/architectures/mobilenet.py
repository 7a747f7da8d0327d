"""MobileNetV2 (Sandler et al., 2018, table 2)."""

from __future__ import annotations

import onnx

from .graph import Graph

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""The paper's columns t (expansion), c (channels), n (repeats), s (stride of the first)."""


def build(size: int = 224) -> onnx.ModelProto:
    """Width 1.0 and 1000 classes, batch normalisation folded: the ONNX zoo's mobilenetv2-12."""
    graph = Graph("mobilenet_v2", size, size)
    x = graph.conv(graph.input, 32, 3, 2, activation="Relu6")
    for expansion, channels, repeats, stride in STAGES:
        for index in range(repeats):
            x = _inverted_residual(graph, x, channels, expansion, stride if index == 0 else 1)
    x = graph.conv(x, 1280, activation="Relu6")
    x = graph.node("GlobalAveragePool", [x], 1280)
    x = graph.node("Flatten", [x], 1280)
    inputs = [x, graph.weights(1000, 1280), graph.weights(1000)]
    return graph.model(graph.node("Gemm", inputs, 1000, transB=1), rank=2)


def _inverted_residual(graph: Graph, x: str, channels: int, expansion: int, stride: int) -> str:
    hidden = graph.channels(x) * expansion
    y = graph.conv(x, hidden, activation="Relu6") if expansion > 1 else x
    y = graph.conv(y, hidden, 3, stride, groups=hidden, activation="Relu6")
    y = graph.conv(y, channels)
    return graph.add(y, x) if stride == 1 and graph.channels(x) == channels else y
