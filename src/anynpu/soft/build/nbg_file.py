"""Make a soft `.nb` file of an ONNX model that has been prepared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from ...errors import OptionError
from ...soc import VipSoc
from ...tensor import DType, Quantization
from ..engines import ModelSource, Port, load
from ..engines.nbg import vip
from ..engines.onnx import runtime as onnxruntime
from ..engines.onnx.boundary import Terminal, cut
from ..formats.nbg import Tensor
from ..formats.nbg.writer import write_soft
from .calibration import CalibrationFolder
from .metadata import Metadata
from .options import BuildOptions

_UNSIGNED_OFFSET = 128
_TYPES = ("int8", "int16")
_WHOLE_BITS = 15
"""Bits of an int16 beside its sign."""


def check_options(options: BuildOptions) -> None:
    """Raise `OptionError` for what a `.nb` file can't be."""
    if len(options.shapes) > 1:
        raise OptionError("a .nb file has one set of input shapes")
    if options.remove_weights:
        raise OptionError("a .nb file has its weights; networks share them (vip_dup_network)")
    if options.quantize_type not in _TYPES:
        raise OptionError(
            f"the type {options.quantize_type!r} is unknown; there is {', '.join(_TYPES)}"
        )
    if options.quantize_type == "int16" and options.quantize is None:
        raise OptionError("int16 needs data to calibrate with")


def fixed_points(model: onnx.ModelProto, data: CalibrationFolder) -> dict[str, Quantization]:
    """Where the binary points of a model's real inputs and outputs belong, by their names.

    As many bits are after the point as the largest value seen leaves.
    """
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [node.name for node in session.get_outputs()]
    largest: dict[str, float] = {}
    while (feeds := data.get_next()) is not None:
        found = zip((*feeds, *names), (*feeds.values(), *session.run(None, feeds)), strict=True)
        for name, values in found:
            if np.asarray(values).dtype.kind == "f":
                peak = float(np.abs(values).max())
                largest[name] = max(largest.get(name, 0.0), peak)
    return {name: _fixed_point(peak) for name, peak in largest.items()}


def _fixed_point(largest: float) -> Quantization:
    whole = math.frexp(largest)[1] if largest > 0 and math.isfinite(largest) else 0
    return Quantization.fixed_point(_WHOLE_BITS - whole)


def soft_file(data: bytes, chip: VipSoc, edges: Mapping[str, Quantization]) -> bytes:
    """A soft `.nb` file round an ONNX file.

    The tensors are what the ONNX file says (quantised by its own QuantizeLinear nodes, float16
    otherwise), but for those that `edges` gives a fixed point to, by name. An input that is to be
    normalised takes pixels as they are, as the vendor's toolkit makes it with a preprocessing node.
    """
    program = load(ModelSource.of(data))
    model = onnx.load_from_string(data)
    name = model.graph.name
    boundary = cut(
        model, Metadata.parse({entry.key: entry.value for entry in model.metadata_props})
    )
    shapes = program.variant(0)
    lowered = program.lowered(0)
    return write_soft(
        data,
        name=name,
        target=chip.target,
        cores=chip.cores,
        inputs=_tensors(boundary.inputs, shapes.inputs, edges),
        outputs=_tensors(boundary.outputs, shapes.outputs, edges),
        layers=[layer.name or layer.op_type for layer in lowered.layers],
        memory_pool_size=lowered.peak_intermediate_bytes,
    )


def _tensors(
    terminals: Sequence[Terminal], ports: Sequence[Port], edges: Mapping[str, Quantization]
) -> list[Tensor]:
    return [
        vip.tensor(_device_port(terminal, port, edges.get(port.name)))
        for terminal, port in zip(terminals, ports, strict=True)
    ]


def _device_port(terminal: Terminal, port: Port, edge: Quantization | None) -> Port:
    """A tensor as Allwinner's NPUs have it; ports are as Rockchip's, whose 8 bits are signed."""
    if edge is not None:
        return replace(port, dtype=DType.INT16, quantization=edge)
    if port.normalization is not None:
        return replace(port, dtype=DType.UINT8, quantization=Quantization(1.0, 0))
    if terminal.is_unsigned and port.quantization is not None:
        scale, zero_point = port.quantization.scale, port.quantization.zero_point
        unsigned = Quantization(scale, zero_point + _UNSIGNED_OFFSET)
        return replace(port, dtype=DType.UINT8, quantization=unsigned)
    return port
