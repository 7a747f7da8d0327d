"""The layers of a compiled model, as the model clock takes them."""

from __future__ import annotations

import numpy as np

from anynpu.soft.engines.compiled.layers import layers_of
from anynpu.soft.formats.rknn.model import TensorLayout

from .parts import blocked, cpu_node, model_of, plain


def test_a_transposed_convolution_has_its_filters_second() -> None:
    """What the vendor counts: 100 channels in and 50 out at each pixel of the result."""
    tensors = [
        blocked("x", (1, 100, 15, 17), 16),
        plain("w", (100, 50, 2, 2), np.int8, layout=TensorLayout.WEIGHT),
        blocked("y", (1, 50, 30, 34), 16),
    ]
    node = cpu_node("ConvTransposeRelu", (0, 1), (2,))
    model = model_of(tensors, node)
    (layer,) = layers_of(model, model.graphs[0]).layers
    assert (layer.channels_in, layer.channels_out, layer.kernel) == (100, 50, (2, 2))
    assert layer.macs == 100 * 50 * 4 * 30 * 34
