"""Models whose outputs are always the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from .. import models


def constant(
    outputs: Sequence[NDArray[np.float32]],
    size: tuple[int, int] = (32, 32),
    channels: int = 3,
    quantization: Sequence[tuple[float, int]] = (),
) -> bytes:
    """A model of one picture (1, channels, height, width) that always gives these outputs.

    With `quantization`, a (scale, zero point) for each, the input and the outputs are int8.
    """
    nodes, constants = [], {}
    pixels = "x"
    if quantization:
        constants["step"], constants["middle"] = np.float32(1), np.int8(-128)
        own = ["step", "middle"]
        nodes.append(helper.make_node("QuantizeLinear", ["x", *own], ["xq"]))
        nodes.append(helper.make_node("DequantizeLinear", ["xq", *own], ["pixels"]))
        pixels = "pixels"
    nodes.append(helper.make_node("ReduceSum", [pixels], ["sum"], keepdims=0))
    nodes.append(helper.make_node("Mul", ["sum", "zero"], ["nothing"]))
    constants["zero"] = np.float32(0)
    for number, array in enumerate(outputs):
        constants[f"c{number}"] = array.astype(np.float32)
        target = f"y{number}"
        if not quantization:
            nodes.append(helper.make_node("Add", [f"c{number}", "nothing"], [target]))
            continue
        scale, zero_point = quantization[number]
        constants[f"s{number}"], constants[f"z{number}"] = np.float32(scale), np.int8(zero_point)
        own = [f"s{number}", f"z{number}"]
        nodes.append(helper.make_node("Add", [f"c{number}", "nothing"], [f"r{number}"]))
        nodes.append(helper.make_node("QuantizeLinear", [f"r{number}", *own], [f"q{number}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{number}", *own], [target]))
    return models.save(
        nodes,
        [("x", TensorProto.FLOAT, (1, channels, size[1], size[0]))],
        [(f"y{n}", TensorProto.FLOAT, array.shape) for n, array in enumerate(outputs)],
        constants,
    )
