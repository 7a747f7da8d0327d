"""Models without weights: take them out of a model, and put another model's in.

Models that differ in their input shapes alone may share one set of weights: one file keeps them,
the others name them (`RKNN_FLAG_SHARE_WEIGHT_MEM`).
"""

from __future__ import annotations

import math

from onnx.onnx_ml_pb2 import ModelProto, TensorProto

from ....errors import ModelError

_DATA_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data")
_SMALLEST = 256
"""Elements; smaller constants stay in the file."""


def remove_weights(model: ModelProto) -> None:
    """Take the weights' data out; their names, types and shapes stay.

    Vectors stay as well: biases, which a quantiser scales by the model's own input, and shapes.
    """
    for tensor in model.graph.initializer:
        if len(tensor.dims) > 1 and math.prod(tensor.dims) >= _SMALLEST:
            for field in _DATA_FIELDS:
                tensor.ClearField(field)


def is_removed(tensor: TensorProto) -> bool:
    """Whether a tensor says that it has elements, but has none."""
    return (
        math.prod(tensor.dims) > 0
        and tensor.data_location != TensorProto.EXTERNAL
        and not any(len(getattr(tensor, field)) for field in _DATA_FIELDS)
        and not tensor.string_data
    )


def fill_removed_weights(model: ModelProto, donor: ModelProto | None) -> None:
    """Copy what is missing from the model that has it.

    Raises `ModelError` where there is no such model, or it has no tensor of that name and shape.
    """
    removed = [tensor for tensor in model.graph.initializer if is_removed(tensor)]
    if not removed:
        return
    if donor is None:
        raise ModelError(
            f"the model's weights were removed ({removed[0].name!r} and others): initialise it "
            f"with RKNN_FLAG_SHARE_WEIGHT_MEM and the context of the model that has them"
        )
    weights = {tensor.name: tensor for tensor in donor.graph.initializer}
    for tensor in removed:
        source = weights.get(tensor.name)
        fits = (
            source is not None
            and list(source.dims) == list(tensor.dims)
            and source.data_type == tensor.data_type
        )
        if source is None or not fits or is_removed(source):
            raise ModelError(
                f"the context to share weights with has no tensor {tensor.name!r} of shape "
                f"{list(tensor.dims)}"
            )
        tensor.CopyFrom(source)
