"""YOLOv5, release 6 (models/yolov5n.yaml to yolov5m.yaml): CSP backbone, SPPF, PAN neck."""

from __future__ import annotations

import onnx

from .graph import Graph
from .scaling import Scale

OUTPUTS = 255  # 3 anchors of 80 classes, 4 sides and an objectness
SCALES = {"n": Scale(0.33, 0.25), "s": Scale(0.33, 0.50), "m": Scale(0.67, 0.75)}


def build(scale: str, activation: str = "Silu", size: int = 640) -> onnx.ModelProto:
    """One of `SCALES`; the outputs are the sigmoids of the three heads' convolutions."""
    graph = Graph(f"yolov5{scale}", size, size)
    return _Yolov5(graph, SCALES[scale], activation).model()


class _Yolov5:
    def __init__(self, graph: Graph, scale: Scale, activation: str) -> None:
        self.graph, self.scale, self.activation = graph, scale, activation

    def model(self) -> onnx.ModelProto:
        graph = self.graph
        p3, p4, p5 = self.backbone()
        top = self.conv(p5, 512)
        x = self.csp(graph.concat(graph.upsample(top), p4), 512, 3, shortcut=False)
        middle = self.conv(x, 256)
        out3 = self.csp(graph.concat(graph.upsample(middle), p3), 256, 3, shortcut=False)
        x = graph.concat(self.conv(out3, 256, 3, 2), middle)
        out4 = self.csp(x, 512, 3, shortcut=False)
        x = graph.concat(self.conv(out4, 512, 3, 2), top)
        out5 = self.csp(x, 1024, 3, shortcut=False)
        heads = (graph.conv(out, OUTPUTS) for out in (out3, out4, out5))
        return graph.model(*(graph.activate(head, "Sigmoid") for head in heads))

    def backbone(self) -> tuple[str, str, str]:
        graph = self.graph
        filters = self.scale.channels(64)
        x = graph.conv(graph.input, filters, 6, 2, padding=2, activation=self.activation)
        x = self.csp(self.conv(x, 128, 3, 2), 128, 3)
        p3 = self.csp(self.conv(x, 256, 3, 2), 256, 6)
        p4 = self.csp(self.conv(p3, 512, 3, 2), 512, 9)
        x = self.csp(self.conv(p4, 1024, 3, 2), 1024, 3)
        return p3, p4, self.pyramid_pool(x, 1024)

    def conv(self, x: str, channels: int, kernel: int = 1, stride: int = 1) -> str:
        filters = self.scale.channels(channels)
        return self.graph.conv(x, filters, kernel, stride, activation=self.activation)

    def csp(self, x: str, channels: int, repeats: int, *, shortcut: bool = True) -> str:
        """The C3 block: bottlenecks on one half of the channels, a 1x1 convolution on the other."""
        graph = self.graph
        y = self.conv(x, channels // 2)
        for _ in range(self.scale.repeats(repeats)):
            z = self.conv(self.conv(y, channels // 2), channels // 2, 3)
            y = graph.add(y, z) if shortcut else z
        return self.conv(graph.concat(y, self.conv(x, channels // 2)), channels)

    def pyramid_pool(self, x: str, channels: int) -> str:
        """SPPF: three 5x5 poolings one after the other."""
        graph = self.graph
        pools = [self.conv(x, channels // 2)]
        for _ in range(3):
            pools.append(graph.max_pool(pools[-1], 5))
        return self.conv(graph.concat(*pools), channels)
