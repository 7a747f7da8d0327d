"""The model clock of Allwinner's chips against the times that others have published.

    python -m benchmarks.vip_clock

The networks are rebuilt with random weights; LeNet is the file of Allwinner's SDK, and left out
where the shared folder isn't there.
"""

from __future__ import annotations

from collections.abc import Iterator

from anynpu.soc import find_vip
from anynpu.soft.engines.nbg import vip
from anynpu.soft.engines.onnx.layers import lower
from anynpu.soft.engines.program import Layer
from anynpu.soft.formats import nbg
from anynpu.soft.vip_clock import call_microseconds
from tests.shared import NBG_SAMPLES

from .architectures import resnet, yolov5

PUBLISHED = {"resnet50 224x224": 7.5, "yolov5s 640x640": 29.75, "LeNet 28x28": 0.077}
"""Milliseconds of the NPU on A733 in uint8, by logs of boards: YOLOv5s and LeNet are those of
Allwinner's SDK (`vpm_run`), two logs each; ResNet50 is of one page."""
_LENET = NBG_SAMPLES / "aisdk_lenet_v3.nb"


def networks() -> Iterator[tuple[str, tuple[Layer, ...]]]:
    """Each network's layers, counted as int8."""
    resnet50, yolov5s, lenet = PUBLISHED
    yield resnet50, lower(resnet.build(), treat_as_int8=True).layers
    yield yolov5s, lower(yolov5.build("s"), treat_as_int8=True).layers
    if _LENET.is_file():
        yield lenet, vip.load(nbg.read(_LENET.read_bytes())).lowered(0).layers


def main() -> None:
    soc = find_vip("a733")
    print("| network | published | estimated |")
    print("| --- | --- | --- |")
    for name, layers in networks():
        published, estimated = PUBLISHED[name], call_microseconds(layers, soc) / 1000
        error = estimated / published - 1
        print(f"| {name} | {published} ms | {estimated:.3g} ms ({error:+.0%}) |")


if __name__ == "__main__":
    main()
