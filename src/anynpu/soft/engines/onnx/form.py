"""What has to hold of an ONNX model before anything looks into it.

ONNX Runtime checks a model as well, but only when it has been rewritten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from onnx import defs
from onnx.onnx_ml_pb2 import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from ....errors import ModelError
from .nodes import STANDARD
from .weights import is_removed

_BITS: dict[int, int] = {
    TensorProto.FLOAT: 32, TensorProto.UINT8: 8, TensorProto.INT8: 8, TensorProto.UINT16: 16,
    TensorProto.INT16: 16, TensorProto.INT32: 32, TensorProto.INT64: 64, TensorProto.BOOL: 8,
    TensorProto.FLOAT16: 16, TensorProto.DOUBLE: 64, TensorProto.UINT32: 32,
    TensorProto.UINT64: 64, TensorProto.COMPLEX64: 64, TensorProto.COMPLEX128: 128,
    TensorProto.BFLOAT16: 16, TensorProto.FLOAT8E4M3FN: 8, TensorProto.FLOAT8E4M3FNUZ: 8,
    TensorProto.FLOAT8E5M2: 8, TensorProto.FLOAT8E5M2FNUZ: 8, TensorProto.UINT4: 4,
    TensorProto.INT4: 4,
}  # fmt: skip
_MOST_ELEMENTS = 2**59
"""What an array may have of the largest type, of 16 bytes."""

_FIELDS: dict[str, dict[int, int]] = {
    "float_data": {TensorProto.FLOAT: 1, TensorProto.COMPLEX64: 2},
    "double_data": {TensorProto.DOUBLE: 1, TensorProto.COMPLEX128: 2},
    "int64_data": {TensorProto.INT64: 1},
    "uint64_data": {TensorProto.UINT32: 1, TensorProto.UINT64: 1},
    "string_data": {TensorProto.STRING: 1},
}
"""Where numbers of a type may be written out, and how many make an element; in `int32_data` others,
of which some numbers hold two elements."""


def check_form(model: ModelProto) -> None:
    """Raise `ModelError` for tensors without their numbers, and nodes with too few operands.

    Tensors whose data are elsewhere, and those of which the weights were removed, are left alone.
    """
    for tensor in all_tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL and not is_removed(tensor):
            _check_tensor(tensor)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    version = versions.get("", versions.get("ai.onnx", defs.onnx_opset_version()))
    for node in _nodes_of(model.graph):
        _check_node(node, version)


def size_of(tensor: TensorProto) -> int:
    """The bytes that a tensor's shape and type ask for; `ModelError` where there is no telling."""
    bits = _BITS.get(tensor.data_type)
    if bits is None or any(size < 0 for size in tensor.dims):
        raise ModelError(
            f"tensor {tensor.name!r} has the shape {list(tensor.dims)} and the type "
            f"{tensor.data_type}"
        )
    elements: int = math.prod(tensor.dims)
    return -(-elements * bits // 8)


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All tensors of a model, however deep."""
    graphs = [model.graph]
    for training in model.training_info:
        graphs += [training.initialization, training.algorithm]
    yield from chain.from_iterable(map(_of_graph, graphs))
    for function in model.functions:
        yield from _of_nodes(function.node)
        yield from _of_attributes(function.attribute_proto)


def _of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        yield from _of_attributes(node.attribute)


def _of_attributes(attributes: Iterable[AttributeProto]) -> Iterator[TensorProto]:
    """Whatever type an attribute says it is of."""
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("sparse_tensor"):
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        for sparse in attribute.sparse_tensors:
            yield from (sparse.values, sparse.indices)
        if attribute.HasField("g"):
            yield from _of_graph(attribute.g)
        for graph in attribute.graphs:
            yield from _of_graph(graph)


def _nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes_of(attribute.g)
            for inner in attribute.graphs:
                yield from _nodes_of(inner)


def _check_tensor(tensor: TensorProto) -> None:
    elements = math.prod(tensor.dims)
    # NumPy has no array of such sizes, even where one of them is 0.
    most = math.prod(size or 1 for size in tensor.dims)
    if any(size < 0 for size in tensor.dims) or most > _MOST_ELEMENTS:
        raise ModelError(f"tensor {tensor.name!r} has the shape {list(tensor.dims)}")
    if tensor.HasField("raw_data"):
        found, wanted = len(tensor.raw_data), size_of(tensor)
    else:
        field, wanted = "int32_data", -(-elements * min(8, _BITS.get(tensor.data_type, 8)) // 8)
        for name, numbers in _FIELDS.items():
            if tensor.data_type in numbers:
                field, wanted = name, elements * numbers[tensor.data_type]
        found = len(getattr(tensor, field))
    if found != wanted:
        raise ModelError(
            f"tensor {tensor.name!r} of shape {list(tensor.dims)} and type {tensor.data_type} has "
            f"data of the size {found}, not {wanted}"
        )


def _check_node(node: NodeProto, version: int) -> None:
    what = f"node {node.name!r} of type {node.op_type}"
    if not any(node.output):
        raise ModelError(f"{what} has no output")
    arity = _arity(node.op_type, version) if node.domain in STANDARD else None
    if arity is None:
        return
    for side, count, (least, most) in zip(
        ("inputs", "outputs"), (len(node.input), len(node.output)), arity, strict=True
    ):
        if not least <= count <= most:
            raise ModelError(f"{what} has {count} {side}, not {least} to {most}")


@lru_cache(maxsize=1024)
def _arity(op_type: str, version: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """How many inputs and outputs an operator takes at least and at most; None if unknown."""
    # Of an operator younger than the model says, what it takes today; ONNX Runtime refuses it.
    for versions in ((version,), ()):
        try:
            schema = defs.get_schema(op_type, *versions)
        except Exception:  # of a class that has moved between onnx's releases
            continue
        break
    else:
        return None
    return (schema.min_input, schema.max_input), (schema.min_output, schema.max_output)
