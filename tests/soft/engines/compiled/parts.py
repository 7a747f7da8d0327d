"""Parts of compiled models, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu.soft.formats.rknn.model import (
    CompiledModel,
    Device,
    ElementType,
    Generation,
    Graph,
    InputNormalization,
    MemorySizes,
    Node,
    Tensor,
    TensorKind,
    TensorLayout,
)

IDENTITY = InputNormalization((0.0,) * 4, (1.0,) * 4, (0, 1, 2, 3))
_ELEMENTS = {
    member.dtype.numpy: member for member in ElementType if member.dtype and member.dtype.numpy_name
}


def element_of(dtype: Any) -> ElementType:
    return _ELEMENTS[np.dtype(dtype)]


def plain(
    name: str, shape: tuple[int, ...], dtype: Any = np.float16, *, offset: int = 0, **fields: Any
) -> Tensor:
    """A tensor in internal memory, row-major."""
    values: dict[str, Any] = {
        "index": 0,
        "name": name,
        "element": element_of(dtype),
        "layout": TensorLayout.PLAIN,
        "kind": TensorKind.ACTIVATION,
        "native_shape": shape,
        "shape": shape,
        "scale": (),
        "zero_point": (),
        "minimum": (),
        "maximum": (),
        "size": int(np.prod(shape)) * np.dtype(dtype).itemsize,
        "offset": offset,
        "section": 0,
    }
    return Tensor(**{**values, **fields})


def blocked(
    name: str, shape: tuple[int, int, int, int], c2: int, dtype: Any = np.int8, **fields: Any
) -> Tensor:
    """A tensor in internal memory, in channel blocks."""
    n, c, h, w = shape
    native = (n, -(-c // c2), h, w, c2)
    values = {"layout": TensorLayout.BLOCKED, "native_shape": native, **fields}
    return plain(name, shape, dtype, **values)


def model_of(
    tensors: Sequence[Tensor],
    node: Node | None = None,
    constants: Mapping[str, NDArray[Any]] | None = None,
    **fields: Any,
) -> CompiledModel:
    """A model of one graph; `constants` are the data of tensors, by name."""
    sections = [memoryview(b"")]
    placed = []
    for index, tensor in enumerate(tensors):
        data = (constants or {}).get(tensor.name)
        section = 0
        if data is not None:
            section = len(sections)
            sections.append(memoryview(data.tobytes()))
        placed.append(replace_index(tensor, index, section))
    edges = fields.pop("edges", ((), ()))
    graph = Graph(
        tensors=tuple(placed),
        nodes=(node,) if node else (),
        inputs=edges[0],
        outputs=edges[1],
        normalizations=fields.pop("normalizations", (IDENTITY,) * len(edges[0])),
        relocations={},
        commands=memoryview(b""),
        tasks=(),
        task_bounds=(0, 0, 0),
    )
    values: dict[str, Any] = {
        "container": 6,
        "format": 6,
        "generation": Generation.V2,
        "target": "rk3588",
        "toolkit": "2.3.2",
        "compiler": "2.3.2",
        "framework": "ONNX",
        "custom_string": "",
        "batch": 1,
        "is_dynamic": False,
        "graphs": (graph,),
        "memory": MemorySizes(0, 1 << 16, 0),
        "sections": tuple(sections),
    }
    return CompiledModel(**{**values, **fields})


def replace_index(tensor: Tensor, index: int, section: int) -> Tensor:
    return Tensor(**{**vars(tensor), "index": index, "section": section})


def cpu_node(
    op_type: str,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    *,
    options: Mapping[str, Any] | None = None,
    **attributes: Any,
) -> Node:
    return Node(
        index=0,
        op_type=op_type,
        name=f"{op_type}:node",
        device=Device.CPU,
        inputs=inputs,
        outputs=outputs,
        attributes=attributes,
        options=options or {},
        task_counts=(),
    )
