"""A `.rknn` file in plain values, for `anynpu inspect`: what JSON can hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ....rknn.model_file import HEADER, read_frame
from .model import CompiledModel, Device, Graph, InputNormalization, Node, Tensor
from .reader import read_model
from .soft_file import is_compiled, read

Described = dict[str, Any]


def describe(data: bytes, *, layers: bool = False) -> Described:
    """What a file is and what it says of itself.

    `kind` is ``compiled`` or ``soft``. `layers` adds each graph's nodes. Raises `ModelError` for a
    damaged or encrypted file, and for one of an unknown version.
    """
    if not is_compiled(data):
        return _describe_soft(data)
    model = read_model(data)
    return {
        "kind": "compiled",
        "container": model.container,
        "format": model.format,
        "target": model.target,
        "npu": model.generation.value,
        "toolkit": model.toolkit,
        "compiler": model.compiler,
        "framework": model.framework,
        "batch": model.batch,
        "dynamic": model.is_dynamic,
        "custom_string": model.custom_string,
        "memory": {
            "weight": model.memory.weight,
            "internal": model.memory.internal,
            "extra": model.memory.extra,
        },
        "weights_removed": any(_is_removed(model, graph) for graph in model.graphs[:1]),
        "graphs": [_describe_graph(graph, layers=layers) for graph in model.graphs],
    }


def _describe_soft(data: bytes) -> Described:
    container = read(data)
    frame = read_frame(data)
    return {
        "kind": "soft",
        "container": container.version,
        "target": container.target,
        "toolkit": container.toolkit,
        "onnx": {"offset": HEADER.size + 16, "size": len(container.onnx or b"")},
        "tensors": [
            {"name": entry.get("url", ""), "shape": entry.get("size", [])}
            for entry in frame.summary.get("norm_tensor", ())
        ],
    }


def _is_removed(model: CompiledModel, graph: Graph) -> bool:
    return any(
        tensor.section and tensor.size and not len(model.sections[tensor.section])
        for tensor in graph.tensors
    )


def _describe_graph(graph: Graph, *, layers: bool) -> Described:
    described: Described = {
        "inputs": [
            _describe_input(graph.tensors[index], normalization)
            for index, normalization in zip(graph.inputs, graph.normalizations, strict=True)
        ],
        "outputs": [_describe_tensor(graph.tensors[index]) for index in graph.outputs],
        "nodes": len(graph.nodes),
        "operators": _count_operators(graph),
        "tasks": {str(cores): len(graph.tasks_for(cores)) for cores in (1, 2, 3)},
    }
    if layers:
        described["layers"] = [
            _describe_node(graph, node, tasks)
            for node, tasks in zip(graph.nodes, _tasks_by_node(graph), strict=True)
        ]
    return described


def _count_operators(graph: Graph) -> dict[str, dict[str, int]]:
    """By device how many nodes of each operator it has."""
    counts: dict[str, Counter[str]] = {}
    for node, tasks in zip(graph.nodes, _tasks_by_node(graph), strict=True):
        device = _device(node, tasks)
        if device != "edge":
            counts.setdefault(device, Counter())[node.op_type] += 1
    return {device: dict(found) for device, found in counts.items()}


def _tasks_by_node(graph: Graph) -> list[int]:
    counts = Counter(task.node for task in graph.tasks_for(1))
    return [counts[node.index] for node in graph.nodes]


def _describe_tensor(tensor: Tensor) -> Described:
    return {
        "name": tensor.name,
        "dtype": tensor.element.name.lower(),
        "shape": list(tensor.shape),
        "layout": tensor.layout.name.lower(),
        "native_shape": list(tensor.native_shape),
        "scale": list(tensor.scale),
        "zero_point": list(tensor.zero_point),
        "size": tensor.size,
        "offset": tensor.offset,
    }


def _describe_input(tensor: Tensor, given: InputNormalization) -> Described:
    # The file has four values whatever the number of channels.
    channels = tensor.shape[1] if len(tensor.shape) == 4 else len(given.mean)
    normalization = {"mean": list(given.mean[:channels]), "std": list(given.std[:channels])}
    return _describe_tensor(tensor) | normalization


def _describe_node(graph: Graph, node: Node, tasks: int) -> Described:
    return {
        "index": node.index,
        "type": node.op_type,
        "name": node.name,
        "device": _device(node, tasks),
        "tasks": tasks,
        "inputs": [graph.tensors[index].name for index in node.inputs if index >= 0],
        "outputs": [graph.tensors[index].name for index in node.outputs if index >= 0],
        "shapes": [list(graph.tensors[index].shape) for index in node.outputs if index >= 0],
        "attributes": {
            name: _plain(value) for name, value in {**node.options, **node.attributes}.items()
        },
    }


def _device(node: Node, tasks: int) -> str:
    if node.op_type in ("InputOperator", "OutputOperator"):
        return "edge"
    if node.device is Device.CPU:
        return "CPU"
    return "NPU" if tasks else "none"


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
