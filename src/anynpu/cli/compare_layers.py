"""Each layer of a compiled file against its ONNX source: of a `.rknn` by the tensors' names."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, OptionError
from .compare_nbg_layers import NotCompared, compare_nbg_layers
from .differences import Difference, difference
from .feeds import Feed
from .sides import is_source, normalized, run_inside_source

if TYPE_CHECKING:
    from ..soft.engines import Port

_SUFFIXES = ("__float16", "__int8", "-rs", "_rs", "_mm")
"""What the toolkit appends to the name of a tensor that it moves or converts."""


def check_files(compiled: str, source: str) -> None:
    """Raise `OptionError` where the files aren't a compiled one and plain ONNX."""
    from ..soft.formats import rknn

    data = Path(compiled).read_bytes()
    if not (rknn.is_compiled(data) or _is_compiled_nbg(data)) or not is_source(source):
        raise OptionError("--per-layer compares a compiled file (A) with its ONNX source (B)")


def _is_compiled_nbg(data: bytes) -> bool:
    from ..soft.formats import nbg

    return nbg.is_nbg(data) and nbg.read(data).onnx is None


@dataclass(frozen=True)
class Layers:
    """The layers that both have, in the order in which they run, and those that aren't known."""

    compared: Sequence[Difference]
    not_compared: Sequence[NotCompared] = ()


def compare_layers(compiled: str, source: str, feed: Feed) -> Layers:
    """Compare the layers that both have.

    Raises as `check_files` does, `ModelError` where one of them can't be run, or they have nothing
    in common.
    """
    check_files(compiled, source)
    if _is_compiled_nbg(Path(compiled).read_bytes()):
        return Layers(*compare_nbg_layers(compiled, source, feed))
    layers = _computed(compiled, feed)
    wanted = _source_values(source, [name for name, *_ in layers], normalized(feed, compiled))
    found = [
        difference(name, values, wanted[base], quantization)
        for name, values, quantization in layers
        if (base := _named(name, wanted)) and wanted[base].size == values.size
    ]
    if not found:
        raise ModelError(f"{compiled} and {source} have no tensor's name in common")
    return Layers(found)


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

    there = {name for node in onnx.load(source).graph.node for name in node.output if name}
    wanted = sorted({base for name in names if (base := _named(name, there))})
    return run_inside_source(source, feed, wanted)
