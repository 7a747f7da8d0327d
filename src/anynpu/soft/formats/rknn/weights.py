"""Constants that are elsewhere: in an earlier graph of the same file, or in a partner's file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ....errors import ModelError
from .model import CompiledModel, Graph, Tensor, TensorKind

_NEEDED = frozenset({TensorKind.WEIGHT, TensorKind.COMPILER_CONSTANT})


def fill_weights(model: CompiledModel, partner: CompiledModel | None = None) -> CompiledModel:
    """The model with a section for every weight.

    A model of dynamic shapes has its weights in the first graph only; the others' tensors of the
    same name and size share them. A file exported with `remove_weight` has none, and takes its
    partner's, by the same rule. Nothing is copied. Raises `ModelError` that names the first weight
    that is in neither.
    """
    sections = list(model.sections)
    known: dict[tuple[str, int], memoryview] = {}
    for owner in (partner, model) if partner is not None else (model,):
        for graph in owner.graphs:
            known |= _constants(owner, graph)
    for graph in model.graphs:
        for tensor in _absent(model, graph.tensors):
            found = known.get((tensor.name, tensor.size))
            if found is not None:
                sections[tensor.section] = found
            elif tensor.kind in _NEEDED:
                raise ModelError(
                    f"the .rknn file has no data for {tensor.name!r} ({tensor.size} bytes): its "
                    "weights were removed, share them from a context that has them "
                    "(RKNN_FLAG_SHARE_WEIGHT_MEM)"
                )
    return replace(model, sections=tuple(sections))


def _constants(owner: CompiledModel, graph: Graph) -> dict[tuple[str, int], memoryview]:
    return {
        (tensor.name, tensor.size): owner.sections[tensor.section]
        for tensor in graph.tensors
        if tensor.section and tensor.size and len(owner.sections[tensor.section])
    }


def _absent(model: CompiledModel, tensors: Iterable[Tensor]) -> Iterable[Tensor]:
    for tensor in tensors:
        if tensor.section and tensor.size and not len(model.sections[tensor.section]):
            yield tensor
