"""Each layer of a compiled `.rknn` against its ONNX source, by the tensors' names."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, OptionError
from .differences import Difference, difference
from .feeds import Feed
from .sides import is_source, normalized, run_source

if TYPE_CHECKING:
    from ..soft.engines import Port

LayerComparison = Difference
_SUFFIXES = ("__float16", "__int8", "-rs", "_rs", "_mm")
"""What the toolkit appends to the name of a tensor that it moves or converts."""


def check_files(compiled: str, source: str) -> None:
    """Raise `OptionError` where the files aren't a compiled `.rknn` and plain ONNX."""
    from ..soft.formats import nbg, rknn

    data = Path(compiled).read_bytes()
    if nbg.is_nbg(data):
        raise OptionError(
            f"{compiled} has no layers to compare: a .nb file names kinds of layers, not tensors; "
            "without --per-layer its outputs are compared"
        )
    if not rknn.is_compiled(data) or not is_source(source):
        raise OptionError("--per-layer compares a compiled .rknn (A) with its ONNX source (B)")


def compare_layers(compiled: str, source: str, feed: Feed) -> list[Difference]:
    """The layers whose tensors both have, in the order in which they run.

    Raises as `check_files` does, `ModelError` where one of them can't be run, or no tensor's name
    is in both.
    """
    check_files(compiled, source)
    layers = _computed(compiled, feed)
    wanted = _source_values(source, [name for name, *_ in layers], normalized(feed, compiled))
    found = [
        difference(name, values, wanted[base], quantization)
        for name, values, quantization in layers
        if (base := _named(name, wanted)) and wanted[base].size == values.size
    ]
    if not found:
        raise ModelError(f"{compiled} and {source} have no tensor's name in common")
    return found


_Layer = tuple[str, NDArray[np.float32], tuple[float, int] | None]


def _computed(compiled: str, feed: Feed) -> list[_Layer]:
    from ..soft.engines import ModelSource
    from ..soft.engines.compiled.program import CompiledProgram

    program = CompiledProgram(ModelSource.of(compiled).mapped())
    instance = program.instance(program.largest)
    ports = program.variant(program.largest).inputs
    for port, target in zip(ports, instance.inputs, strict=True):
        _store(feed[port.name], port, target)
    layers: list[_Layer] = []
    for _, tensor, values in instance.observed():
        is_quantized = bool(tensor.scale)
        zero_point = int(tensor.zero_point[0]) if tensor.zero_point else 0
        layers.append(
            (tensor.name, values, (float(tensor.scale[0]), zero_point) if is_quantized else None)
        )
    return layers


def _store(array: NDArray[Any], port: Port, target: NDArray[Any]) -> None:
    from ..soft.values import store_real

    if array.shape != target.shape:
        raise ModelError(f"input {port.name!r} takes {target.shape}; found {array.shape}")
    store_real(array, port, target)


def _named(name: str, known: Container[str]) -> str:
    """A tensor's name in the source; empty where it isn't there."""
    while name not in known:
        suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
        if not suffix:
            return ""
        name = name[: -len(suffix)]
    return name


def _source_values(source: str, names: list[str], feed: Feed) -> dict[str, NDArray[Any]]:
    """What the source has under these names or those they come from, by ONNX Runtime."""
    import onnx
    import onnxruntime

    model = onnx.load(source)
    there = {name for node in model.graph.node for name in node.output if name}
    wanted = sorted({base for name in names if (base := _named(name, there))})
    if not wanted:
        return {}
    outputs = {info.name for info in model.graph.output}
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in wanted if name not in outputs
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return run_source(source, model.SerializeToString(), feed, wanted, options)
