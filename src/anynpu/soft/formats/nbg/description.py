"""What a `.nb` file holds, as plain data."""

from __future__ import annotations

from typing import Any

from ....soc import chips_of_target
from ....viplite.abi import BufferFormat, QuantizeFormat
from .model import Nbg, Tensor


def describe(nbg: Nbg, *, layers: bool) -> dict[str, Any]:
    """A file's description for JSON; with `layers` every layer and its operations."""
    described: dict[str, Any] = {
        "kind": "compiled" if nbg.onnx is None else "soft",
        "name": nbg.name,
        "version": f"{nbg.version:#x}",
        "target": f"{nbg.target:#x}",
        "chips": [soc.name for soc in chips_of_target(nbg.target)],
        "size": nbg.size,
        "cores": nbg.cores,
        "memory_pool_size": nbg.memory_pool_size,
        "vip_sram_size": nbg.vip_sram_size,
        "layer_count": len(nbg.layers),
        "operation_count": len(nbg.operations),
        "inputs": [_tensor(tensor) for tensor in nbg.inputs],
        "outputs": [_tensor(tensor) for tensor in nbg.outputs],
        "sections": [
            {"name": section.name, "offset": section.offset, "size": section.size}
            for section in nbg.sections
        ],
    }
    if nbg.onnx is not None:
        described["onnx"] = {"size": len(nbg.onnx)}
    if layers:
        described["layers"] = _layers(nbg)
    return described


def _tensor(tensor: Tensor) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": tensor.name,
        "sizes": list(tensor.dims),
        "shape": list(tensor.shape),
        "format": BufferFormat(tensor.format).name,
        "quantization": None,
        "size": tensor.size,
    }
    if tensor.quantization == QuantizeFormat.DYNAMIC_FIXED_POINT:
        described["quantization"] = {"fixed_point_pos": tensor.fixed_point_pos}
    elif tensor.quantization == QuantizeFormat.TF_ASYMM:
        described["quantization"] = {"scale": tensor.scale, "zero_point": tensor.zero_point}
    return described


def _layers(nbg: Nbg) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": layer.name, "id": layer.id, "operations": []} for layer in nbg.layers
    ]
    for operation in nbg.operations:
        if operation.layer is not None:
            found[operation.layer]["operations"].append(operation.unit)
    return found
