"""What computes a `.nb` file.

A soft file carries its ONNX file; a compiled one is executed. Where somebody names a twin, the ONNX
file that a compiled file was made from, that computes in its place, and the caller says so.
"""

from __future__ import annotations

from pathlib import Path

from .... import soc as socs
from ....errors import ModelError
from ....tensor import Quantization
from ....viplite.abi import BufferFormat, QuantizeFormat
from ....viplite.formats import DTYPES, FORMATS
from ...formats.nbg import Nbg, Tensor
from ..program import Port, Program, Variant
from ..source import ModelSource
from ..vip.program import VipProgram
from ..vip.refusal import Refusal
from .twin import ENVIRONMENT_VARIABLE, Contract, TwinProgram, find_twins


def load(model: Nbg, path: Path | None = None, twin: Path | None = None) -> Program:
    """The program of a file that was read from `path` (None: from memory).

    `twin` names the ONNX file to compute with, ``$ANYNPU_TWIN`` where to look for it; without
    either the file's own commands are executed. Raises `Refusal` for a compiled file with an
    operation that isn't known, `ModelError` for a twin that doesn't fit or can't be run.
    """
    if twin is None and model.onnx is not None:
        return TwinProgram(contract(model), ModelSource.of(model.onnx))
    candidates = [twin] if twin is not None else find_twins(path)
    if not candidates:
        return _executed(model)
    reasons = []
    for candidate in candidates:
        try:
            return TwinProgram(contract(model), ModelSource.of(candidate))
        except ModelError as error:
            reasons.append(f"{candidate}: {error}")
        except OSError as error:
            reasons.append(f"the twin {candidate} can't be read: {error}")
    raise ModelError("\n".join(reasons))


def _executed(model: Nbg) -> Program:
    described = contract(model)
    try:
        return VipProgram(model, Variant(described.inputs, described.outputs), described.soc)
    except Refusal as refusal:
        raise Refusal(
            f"the soft NPU doesn't execute network {model.name!r}: {refusal}. "
            f"${ENVIRONMENT_VARIABLE} names the ONNX file that it was made from, which can compute "
            f"in its place"
        ) from None


def contract(model: Nbg) -> Contract:
    """A file's tensors as a program has them."""
    chip = next(iter(socs.chips_of_target(model.target)), None)
    return Contract(
        name=model.name,
        soc=chip.name if chip else None,
        inputs=tuple(map(port, model.inputs)),
        outputs=tuple(map(port, model.outputs)),
    )


def port(tensor: Tensor) -> Port:
    """A tensor of a file as a program has it; its sizes outermost first."""
    quantization = None
    if tensor.quantization == QuantizeFormat.TF_ASYMM:
        quantization = Quantization(tensor.scale, tensor.zero_point)
    elif tensor.quantization == QuantizeFormat.DYNAMIC_FIXED_POINT:
        quantization = Quantization.fixed_point(tensor.fixed_point_pos)
    dtype = DTYPES[BufferFormat(tensor.format)]
    return Port(tensor.name, tensor.shape, dtype, quantization)


def tensor(described: Port) -> Tensor:
    """A program's tensor as a file has it."""
    quantization = described.quantization
    kind, position, scale, zero_point = QuantizeFormat.NONE, 0, 1.0, 0
    if quantization is not None and quantization.binary_point is not None:
        kind, position = QuantizeFormat.DYNAMIC_FIXED_POINT, quantization.binary_point
    elif quantization is not None:
        kind = QuantizeFormat.TF_ASYMM
        scale, zero_point = quantization.scale, quantization.zero_point
    fmt = FORMATS[described.dtype]
    dims = described.shape[::-1] or (1,)
    return Tensor(described.name, dims, int(fmt), int(kind), position, scale, zero_point)
