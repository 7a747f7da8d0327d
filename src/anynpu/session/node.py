"""What a session says of its inputs, its outputs and its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..tensor import DType, Layout, TensorInfo

_ORT_NAMES = {DType.FLOAT32: "float"}


def type_name(dtype: DType) -> str:
    """What ONNX Runtime calls a tensor of a dtype, such as ``tensor(float)``."""
    return f"tensor({_ORT_NAMES.get(dtype, dtype.name.lower())})"


@dataclass(frozen=True)
class NodeArg:
    """An input or output, with ONNX Runtime's `name`, `shape` and `type`, and what an NPU adds.

    `type` and `dtype` are what `run` takes best, or gives; `model_dtype`, `scale` and
    `zero_point` are what the device holds: real = (q - zero_point) * scale. `shapes` are all that
    an input may have, `shape` the first.
    """

    name: str
    shape: list[int]
    type: str
    dtype: DType
    layout: Layout
    model_dtype: DType
    scale: float
    zero_point: int
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def from_tensor(
        cls, info: TensorInfo, dtype: DType, shapes: Sequence[tuple[int, ...]]
    ) -> NodeArg:
        """Describe a tensor that `run` exchanges as `dtype`."""
        return cls(
            name=info.name,
            shape=list(info.shape),
            type=type_name(dtype),
            dtype=dtype,
            layout=info.layout,
            model_dtype=info.dtype,
            scale=info.scale,
            zero_point=info.zero_point,
            shapes=tuple(dict.fromkeys(shapes)),
        )


def input_arg(info: TensorInfo, shapes: Sequence[tuple[int, ...]]) -> NodeArg:
    """An input: `run` takes other dtypes too."""
    return NodeArg.from_tensor(info, info.host_dtype, shapes)


def output_arg(info: TensorInfo, *, is_float: bool) -> NodeArg:
    """An output: real values as float32 or in the model's own dtype, whole numbers as such."""
    return NodeArg.from_tensor(info, info.host_dtype if is_float else info.dtype, [info.shape])


@dataclass(frozen=True)
class ModelMetadata:
    """What the model and its runtime say of themselves, with ONNX Runtime's names.

    `producer_name` is what wrote the file. `custom_metadata_map` has ``rknn_custom_string`` (what
    the model's author stored), ``rknn_api_version``, ``rknn_driver_version``, ``library`` (what it
    runs on), and for `.rknn` files ``target_platform`` and ``producer``; for a `.nb`
    ``network_name`` (also `graph_name`), ``viplite_version``, ``library``, ``target_platform`` and
    ``npu_version``. The other fields are empty: compiled models don't keep them.
    """

    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)
    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> ModelMetadata:
        """From a network's metadata."""
        return cls(dict(metadata), metadata.get("producer", ""), metadata.get("network_name", ""))
