"""Cut an ONNX model at the nodes that operators from outside compute.

Every node belongs to a stage: one that reads what a custom node made comes a stage later. A stage
is one part for ONNX Runtime, and the custom nodes that follow it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from onnx import AttributeProto, ModelProto, NodeProto, ValueInfoProto, helper

from ....errors import ModelError
from .custom import Edge


@dataclass(frozen=True)
class Part:
    """Nodes that ONNX Runtime computes at one go, by their indices in the model."""

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def split(model: ModelProto, taken: Collection[int]) -> list[Part | int]:
    """The steps of a model in order: parts, and the indices of the taken nodes."""
    graph = model.graph
    reads = [tuple(dict.fromkeys(_reads(node))) for node in graph.node]
    plain, custom = _stages(model, reads, taken)
    constants = {tensor.name for tensor in graph.initializer}
    results = {info.name for info in graph.output}
    steps: list[Part | int] = []
    for stage in range(max([*plain, *custom], default=-1) + 1):
        nodes = plain.get(stage, [])
        if nodes:
            members = set(nodes)
            made = [name for index in nodes for name in graph.node[index].output if name]
            wanted = results.union(*(r for i, r in enumerate(reads) if i not in members))
            read = dict.fromkeys(name for index in nodes for name in reads[index])
            part = Part(
                tuple(nodes),
                tuple(n for n in read if n not in constants and n not in set(made)),
                tuple(n for n in made if n in wanted),
            )
            # Nodes whose outputs aren't read are as good as absent.
            steps += [part] if part.outputs else []
        steps.extend(custom.get(stage, ()))
    made_anywhere = {name for node in graph.node for name in node.output}
    if not results <= made_anywhere:
        raise ModelError(f"no node makes the outputs {sorted(results - made_anywhere)}")
    return steps


def _stages(
    model: ModelProto, reads: list[tuple[str, ...]], taken: Collection[int]
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The plain nodes and the taken ones of each stage."""
    plain: dict[int, list[int]] = defaultdict(list)
    custom: dict[int, list[int]] = defaultdict(list)
    stage_of: dict[str, int] = {}
    for index, node in enumerate(model.graph.node):
        stage = max((stage_of.get(name, 0) for name in reads[index]), default=0)
        is_custom = index in taken
        (custom if is_custom else plain)[stage].append(index)
        stage_of.update((name, stage + is_custom) for name in node.output)
    return plain, custom


def _reads(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, and those that the graphs inside it mention."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from _reads(inner)
            yield from (info.name for info in attribute.g.output)


def part_model(
    model: ModelProto, part: Part, edges: Mapping[str, Edge], *, has_fixed_shapes: bool
) -> ModelProto:
    """A part as a model of its own, whose inputs have the types of `edges`.

    `has_fixed_shapes` gives them the shapes too, which a model of several sets of shapes can't.
    """
    nodes = [model.graph.node[index] for index in part.nodes]
    inner = {name for node in nodes for name in node.output}
    read = {name for node in nodes for name in _reads(node)}
    result = ModelProto(ir_version=model.ir_version)
    result.opset_import.extend(model.opset_import)
    result.functions.extend(model.functions)
    graph = result.graph
    graph.name = model.graph.name or "part"
    graph.node.extend(nodes)
    graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in read)
    for name in part.inputs:
        # Names that only exist inside a nested graph are no inputs.
        if name in edges:
            graph.input.append(_info(name, edges[name], has_fixed_shapes))
    declared = {info.name: info for info in model.graph.output}
    graph.output.extend(declared.get(n) or ValueInfoProto(name=n) for n in part.outputs)
    graph.value_info.extend(info for info in model.graph.value_info if info.name in inner)
    return result


def _info(name: str, edge: Edge, has_fixed_shapes: bool) -> ValueInfoProto:
    kind: int = helper.np_dtype_to_tensor_dtype(edge.dtype)
    shape = edge.shape if has_fixed_shapes else [None] * len(edge.shape)
    return helper.make_tensor_value_info(name, kind, shape)
