"""ResNet-50 with identity mappings (He et al., 2016): normalise and activate, then convolve."""

from __future__ import annotations

import onnx

from .graph import Graph

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels of the 3x3 convolutions, blocks, stride of the first block."""
EXPANSION = 4


def build(size: int = 224) -> onnx.ModelProto:
    """With 1000 classes, batch normalisation as nodes: the ONNX zoo's resnet50-v2-7."""
    graph = Graph("resnet50_v2", size, size)
    x = graph.batch_normalization(graph.input)
    x = graph.conv(x, 64, 7, 2, bias=False)
    x = graph.max_pool(_normalize(graph, x), 3, 2)
    for channels, blocks, stride in STAGES:
        for index in range(blocks):
            x = _bottleneck(graph, x, channels, stride if index == 0 else 1)
    x = _normalize(graph, x)
    x = graph.node("GlobalAveragePool", [x], graph.channels(x))
    x = graph.node("Flatten", [x], graph.channels(x))
    inputs = [x, graph.weights(1000, graph.channels(x)), graph.weights(1000)]
    return graph.model(graph.node("Gemm", inputs, 1000, transB=1), rank=2)


def _normalize(graph: Graph, x: str) -> str:
    return graph.activate(graph.batch_normalization(x), "Relu")


def _bottleneck(graph: Graph, x: str, channels: int, stride: int) -> str:
    filters = channels * EXPANSION
    normal = _normalize(graph, x)
    shortcut = x
    if graph.channels(x) != filters:
        shortcut = graph.conv(normal, filters, 1, stride, bias=False)
    y = _normalize(graph, graph.conv(normal, channels, bias=False))
    y = _normalize(graph, graph.conv(y, channels, 3, stride, bias=False))
    return graph.add(graph.conv(y, filters, bias=False), shortcut)
