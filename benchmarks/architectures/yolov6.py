"""YOLOv6, release 3 and later (configs/yolov6n.py, yolov6s.py), with its blocks re-parametrised.

Once trained, a RepVGG block is one 3x3 convolution and a ReLU.
"""

from __future__ import annotations

import onnx

from .graph import Graph
from .scaling import Scale

CLASSES = 80
SCALES = {"n": Scale(0.33, 0.25), "s": Scale(0.33, 0.50)}


def build(scale: str, size: int = 640) -> onnx.ModelProto:
    """One of `SCALES`; outputs are boxes, class scores and their sum for each of three levels."""
    graph = Graph(f"yolov6{scale}", size, size)
    return _Yolov6(graph, SCALES[scale]).model()


class _Yolov6:
    def __init__(self, graph: Graph, scale: Scale) -> None:
        self.graph, self.scale = graph, scale

    def model(self) -> onnx.ModelProto:
        graph = self.graph
        p2, p3, p4, p5 = self.backbone()
        top = self.conv(p5, 256)
        x = self.blocks(self.fuse(top, p4, p3, 256), 256, 12)
        middle = self.conv(x, 128)
        out3 = self.blocks(self.fuse(middle, p3, p2, 128), 128, 12)
        out4 = self.blocks(graph.concat(self.conv(out3, 128, 3, 2), middle), 256, 12)
        out5 = self.blocks(graph.concat(self.conv(out4, 256, 3, 2), top), 512, 12)
        outputs = [self.head(x) for x in (out3, out4, out5)]
        return graph.model(*(name for group in outputs for name in group))

    def backbone(self) -> tuple[str, str, str, str]:
        x = self.conv(self.graph.input, 64, 3, 2)
        levels = []
        for channels, repeats in ((128, 6), (256, 12), (512, 18), (1024, 6)):
            x = self.blocks(self.conv(x, channels, 3, 2), channels, repeats)
            levels.append(x)
        p2, p3, p4, p5 = levels
        return p2, p3, p4, self.pyramid_pool(p5, 1024)

    def conv(
        self, x: str, channels: int, kernel: int = 1, stride: int = 1, activation: str = "Relu"
    ) -> str:
        filters = self.scale.channels(channels)
        return self.graph.conv(x, filters, kernel, stride, activation=activation)

    def blocks(self, x: str, channels: int, repeats: int) -> str:
        """RepVGG blocks in a row."""
        for _ in range(self.scale.repeats(repeats)):
            x = self.conv(x, channels, 3)
        return x

    def fuse(self, low: str, level: str, high: str, channels: int) -> str:
        """BiFusion: a coarser, an equal and a finer level, brought to one size."""
        graph = self.graph
        coarse = graph.transposed_conv(low, self.scale.channels(channels))
        fine = self.conv(self.conv(high, channels), channels, 3, 2)
        return self.conv(graph.concat(coarse, self.conv(level, channels), fine), channels)

    def pyramid_pool(self, x: str, channels: int) -> str:
        """CSPSPPF: three 5x5 poolings between convolutions, and a 1x1 convolution beside them."""
        graph, half = self.graph, channels // 2
        pools = [self.conv(self.conv(self.conv(x, half), half, 3), half)]
        for _ in range(3):
            pools.append(graph.max_pool(pools[-1], 5))
        y = self.conv(self.conv(graph.concat(*pools), half), half, 3)
        return self.conv(graph.concat(self.conv(x, half), y), channels)

    def head(self, x: str) -> tuple[str, str, str]:
        graph, filters = self.graph, self.graph.channels(x)
        x = graph.conv(x, filters, activation="Silu")
        scores = graph.conv(graph.conv(x, filters, 3, activation="Silu"), CLASSES)
        scores = graph.activate(scores, "Sigmoid")
        boxes = graph.conv(graph.conv(x, filters, 3, activation="Silu"), 4)
        return boxes, scores, graph.sum_of_channels(scores)
