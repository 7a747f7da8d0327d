"""The networks that the model clock is fitted to and tried on, as layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import onnx

from anynpu.soft.engines.onnx.boundary import fix_shapes
from anynpu.soft.engines.onnx.layers import lower
from anynpu.soft.engines.program import LoweredModel

from . import networks
from .architectures import clip_text, mobilenet, resnet, yolov5, yolov6, yolov7, yolov8

BUILDERS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mobilenetv2-12": mobilenet.build,
    "resnet50-v2-7": resnet.build,
    "yolov5n": lambda: yolov5.build("n"),
    "yolov5s": lambda: yolov5.build("s"),
    "yolov5s_relu": lambda: yolov5.build("s", activation="Relu"),
    "yolov5m": lambda: yolov5.build("m"),
    "yolov6n": lambda: yolov6.build("n"),
    "yolov6s": lambda: yolov6.build("s"),
    "yolov7-tiny": yolov7.build,
    "yolov8n": lambda: yolov8.build("n"),
    "yolov8s": lambda: yolov8.build("s"),
    "yolov8m": lambda: yolov8.build("m"),
}


@cache
def rebuilt() -> Mapping[str, LoweredModel]:
    """The networks of `BUILDERS`, counted as int8: the constants are fitted to these."""
    return {name: lower(build(), treat_as_int8=True) for name, build in BUILDERS.items()}


@cache
def unseen() -> Mapping[str, LoweredModel]:
    """Networks that the constants aren't fitted to, in the types of their rates."""
    return {
        "ppocrv4_det": lower(_trained("text detector 480x480"), treat_as_int8=True),
        "ppocrv4_rec": lower(_trained("text recogniser 48x320")),
        "clip_text": _repeated(lower(clip_text.build_block()), clip_text.BLOCKS),
    }


@cache
def profiled() -> LoweredModel:
    """The network whose layers' times `published_times.LAYER_TIMES` sums up."""
    return lower(yolov8.build("n", size=1920, classes=3), treat_as_int8=True)


def _repeated(model: LoweredModel, times: int) -> LoweredModel:
    return replace(model, layers=model.layers * times, weight_bytes=model.weight_bytes * times)


def _trained(name: str) -> onnx.ModelProto:
    file, shape = networks.SHAPES[name]
    model = onnx.load(networks.folder() / file)
    fix_shapes(model, {"x": shape})
    return model
