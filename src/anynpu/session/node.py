"""What a session says of its inputs, its outputs and its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .. import feeds
from ..tensor import DType, Layout, TensorInfo

_ORT_NAMES = {DType.FLOAT32: "float"}


@dataclass(frozen=True)
class NodeArg:
    """An input or output, with ONNX Runtime's `name`, `shape` and `type`, and what an NPU adds.

    `type` and `dtype` are what `run` takes best, or gives; `model_dtype`, `scale` and
    `zero_point` are what the device holds: real = (q - zero_point) * scale.
    """

    name: str
    shape: list[int]
    type: str
    dtype: DType
    layout: Layout
    model_dtype: DType
    scale: float
    zero_point: int

    @classmethod
    def from_tensor(cls, info: TensorInfo, dtype: DType) -> NodeArg:
        """Describe a tensor that `run` exchanges as `dtype`."""
        return cls(
            name=info.name,
            shape=list(info.shape),
            type=f"tensor({_ORT_NAMES.get(dtype, dtype.name.lower())})",
            dtype=dtype,
            layout=info.layout,
            model_dtype=info.dtype,
            scale=info.scale,
            zero_point=info.zero_point,
        )


def input_arg(info: TensorInfo) -> NodeArg:
    """An input: `run` takes other dtypes too."""
    return NodeArg.from_tensor(info, feeds.host_dtype(info))


def output_arg(info: TensorInfo) -> NodeArg:
    """An output: `run` gives float32."""
    return NodeArg.from_tensor(info, DType.FLOAT32)


@dataclass(frozen=True)
class ModelMetadata:
    """What the model and its runtime say of themselves, with ONNX Runtime's names.

    `custom_metadata_map` has ``rknn_custom_string`` (what the model's author stored),
    ``rknn_api_version``, ``rknn_driver_version`` and ``library`` (what it runs on).
    """

    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)
