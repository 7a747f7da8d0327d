"""All nodes of an ONNX model, however deep, and the graphs that some of them run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import onnx
from onnx import AttributeProto, ModelProto, NodeProto

from ....errors import ModelError

STANDARD = ("", "ai.onnx")
"""Names of the domain with ONNX's own operators."""


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes and those of the graphs inside them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from all_nodes(graph.node)


def check_bodies(model: ModelProto) -> None:
    """Raise `ModelError` for an If, a Loop or the like without a graph that it has to run.

    Nothing could run it; inference of shapes needs these graphs, and some of onnx's releases read
    them without looking whether they are there.
    """
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in all_nodes(nodes):
            if node.domain in STANDARD:
                graphs = {a.name for a in node.attribute if a.type == AttributeProto.GRAPH}
                if missing := _bodies().get(node.op_type, frozenset()) - graphs:
                    raise ModelError(
                        f"the {node.op_type} {node.name or ', '.join(node.output)!r} has no graph "
                        f"{sorted(missing)[0]!r} to run"
                    )


@cache
def _bodies() -> Mapping[str, frozenset[str]]:
    """The graphs that each operator must have, by their attributes."""
    found: dict[str, frozenset[str]] = {}
    for schema in onnx.defs.get_all_schemas():
        if schema.domain in STANDARD:
            names = frozenset(
                attribute.name
                for attribute in schema.attributes.values()
                if attribute.required and attribute.type == onnx.defs.OpSchema.AttrType.GRAPH
            )
            if names:
                found[schema.name] = names
    return found
