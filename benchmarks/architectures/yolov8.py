"""YOLOv8 (yolov8.yaml): C2f blocks, SPPF, PAN neck, a head for boxes and one for classes."""

from __future__ import annotations

import onnx

from .graph import Graph
from .scaling import Scale

BOX_BINS = 64  # 16 for each side of a box
SCALES = {"n": Scale(0.33, 0.25), "s": Scale(0.33, 0.50), "m": Scale(0.67, 0.75, 768)}


def build(scale: str, size: int = 640, classes: int = 80) -> onnx.ModelProto:
    """One of `SCALES`; outputs are box bins, class scores and their sum for each of three levels.

    The distribution of a box side over its bins is left to the program, as in the vendor's zoo.
    """
    graph = Graph(f"yolov8{scale}", size, size)
    return _Yolov8(graph, SCALES[scale], classes).model()


class _Yolov8:
    def __init__(self, graph: Graph, scale: Scale, classes: int) -> None:
        self.graph, self.scale, self.classes = graph, scale, classes

    def model(self) -> onnx.ModelProto:
        graph = self.graph
        p3, p4, p5 = self.backbone()
        x4 = self.csp(graph.concat(graph.upsample(p5), p4), 512, 3, shortcut=False)
        out3 = self.csp(graph.concat(graph.upsample(x4), p3), 256, 3, shortcut=False)
        x = graph.concat(self.conv(out3, 256, 3, 2), x4)
        out4 = self.csp(x, 512, 3, shortcut=False)
        x = graph.concat(self.conv(out4, 512, 3, 2), p5)
        out5 = self.csp(x, 1024, 3, shortcut=False)
        outputs = [self.head(x, graph.channels(out3)) for x in (out3, out4, out5)]
        return graph.model(*(name for group in outputs for name in group))

    def backbone(self) -> tuple[str, str, str]:
        x = self.conv(self.graph.input, 64, 3, 2)
        x = self.csp(self.conv(x, 128, 3, 2), 128, 3)
        p3 = self.csp(self.conv(x, 256, 3, 2), 256, 6)
        p4 = self.csp(self.conv(p3, 512, 3, 2), 512, 6)
        x = self.csp(self.conv(p4, 1024, 3, 2), 1024, 3)
        return p3, p4, self.pyramid_pool(x, 1024)

    def conv(self, x: str, channels: int, kernel: int = 1, stride: int = 1) -> str:
        filters = self.scale.channels(channels)
        return self.graph.conv(x, filters, kernel, stride, activation="Silu")

    def csp(self, x: str, channels: int, repeats: int, *, shortcut: bool = True) -> str:
        """The C2f block: bottlenecks whose outputs are all kept."""
        graph = self.graph
        half = self.scale.channels(channels) // 2
        parts = list(graph.halves(self.conv(x, channels)))
        for _ in range(self.scale.repeats(repeats)):
            y = graph.conv(parts[-1], half, 3, activation="Silu")
            y = graph.conv(y, half, 3, activation="Silu")
            parts.append(graph.add(parts[-1], y) if shortcut else y)
        return self.conv(graph.concat(*parts), channels)

    def pyramid_pool(self, x: str, channels: int) -> str:
        """SPPF: three 5x5 poolings one after the other."""
        graph = self.graph
        pools = [graph.conv(x, graph.channels(x) // 2, activation="Silu")]
        for _ in range(3):
            pools.append(graph.max_pool(pools[-1], 5))
        return self.conv(graph.concat(*pools), channels)

    def head(self, x: str, finest: int) -> tuple[str, str, str]:
        graph = self.graph
        boxes = self.branch(x, max(16, finest // 4, BOX_BINS), BOX_BINS)
        scores = self.branch(x, max(finest, min(self.classes, 100)), self.classes)
        scores = graph.activate(scores, "Sigmoid")
        return boxes, scores, graph.sum_of_channels(scores)

    def branch(self, x: str, filters: int, outputs: int) -> str:
        for _ in range(2):
            x = self.graph.conv(x, filters, 3, activation="Silu")
        return self.graph.conv(x, outputs)
