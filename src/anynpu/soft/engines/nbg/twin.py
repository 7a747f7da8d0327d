"""Runs an ONNX file in the place of the compiled file that was made from it.

The compiled file is the contract: which tensors there are, their shapes, formats and quantisation.
The ONNX file, its *twin*, does the arithmetic on real values: inputs are dequantised before and
outputs quantised after, as the contract says, where the twin doesn't do that itself in the same
way. A soft `.nb` file carries its own twin.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from ....errors import ModelError
from ....native import kernels
from ....tensor import DType, Layout, TensorInfo
from ....viplite.formats import decode, encode, own_values, size_of, stored_dtype, stored_shape
from ...build.metadata import Metadata
from ...values import store_real
from ..onnx.boundary import Boundary, fed_inputs, fit, fix_shapes
from ..onnx.program import OnnxProgram
from ..program import (
    NOT_CUSTOMIZED,
    Customization,
    Instance,
    LoweredModel,
    MeasuredLayer,
    Port,
    Program,
    Variant,
)
from ..source import ModelSource

ENVIRONMENT_VARIABLE = "ANYNPU_TWIN"
SUFFIX = ".onnx"


@dataclass(frozen=True)
class Contract:
    """What a compiled file says of itself: its name, the chip it is for, and its tensors."""

    name: str
    soc: str | None
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def find_twins(model: Path | None) -> list[Path]:
    """The ONNX files that a compiled file at a path may have been made from, the likeliest first.

    ``$ANYNPU_TWIN`` names ONNX files and folders of them, separated by colons; without it there are
    none. In a folder the likeliest has the model's name, or that without what comes before its
    suffix: `net.onnx` is the twin of `net.nb` and of `net.t527.nb`. It may be any other file, too.
    Raises `ModelError` where the variable names what isn't there.
    """
    named = [
        Path(part) for part in os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep) if part
    ]
    folders = [path for path in named if path.is_dir()]
    files = [path for path in named if path not in folders]
    for path in files:
        if not path.is_file():
            raise ModelError(f"${ENVIRONMENT_VARIABLE} names {path}, which isn't there")
    likely = [] if model is None else [x for folder in folders for x in _namesakes(folder, model)]
    others = [path for folder in folders for path in sorted(folder.glob(f"*{SUFFIX}"))]
    return list(dict.fromkeys((*likely, *files, *others)))


def _namesakes(folder: Path, model: Path) -> list[Path]:
    names = dict.fromkeys((model.stem, Path(model.stem).stem))
    candidates = (folder / f"{name}{SUFFIX}" for name in names)
    return [path for path in candidates if path.is_file()]


class TwinProgram(Program):
    """A contract, kept by an ONNX model.

    Raises `ModelError` for a twin that can't be run, for one whose tensors aren't the contract's,
    saying what differs.
    """

    framework = "ONNX"

    def __init__(self, contract: Contract, source: ModelSource) -> None:
        self._contract = contract
        self._twin = _RealProgram(contract, source)
        self._number = _fitting_shapes(contract, self._twin)
        _check_match(contract, self._twin.variant(self._number))
        self.producer = self._twin.producer
        self.soc = contract.soc
        self.custom_string = self._twin.custom_string
        self.input_shapes = (tuple(port.shape for port in contract.inputs),)

    def variant(self, number: int) -> Variant:
        return Variant(self._contract.inputs, self._contract.outputs)

    def lowered(self, number: int) -> LoweredModel:
        return self._twin.lowered(self._number)

    def instance(self, number: int, custom: Customization = NOT_CUSTOMIZED) -> TwinInstance:
        variant = self._twin.variant(self._number)
        return TwinInstance(self._contract, variant, self._twin.instance(self._number, custom))

    def profile(self, instance: Instance) -> tuple[MeasuredLayer, ...]:
        assert isinstance(instance, TwinInstance), "an instance of this program"
        instance.load()
        return self._twin.profile(instance.real)


class TwinInstance(Instance):
    """The contract's arrays, and the twin's behind them.

    Where both hold the same values in the same dtype they are one array. Of a dtype that NumPy
    hasn't, the contract's are as memory has them.
    """

    def __init__(self, contract: Contract, variant: Variant, real: Instance) -> None:
        self.real = real
        self._loads: list[Callable[[], None]] = []
        self._stores: list[Callable[[], None]] = []
        inputs, outputs = [], []
        for port, inner, array in zip(contract.inputs, variant.inputs, real.inputs, strict=True):
            inputs.append(self._array(port, inner, array))
            if inputs[-1].ctypes.data != array.ctypes.data:
                self._loads.append(_loader(port, inner, inputs[-1], array))
        for port, inner, array in zip(contract.outputs, variant.outputs, real.outputs, strict=True):
            outputs.append(self._array(port, inner, array))
            if outputs[-1].ctypes.data != array.ctypes.data:
                self._stores.append(_storer(port, array, outputs[-1]))
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    @staticmethod
    def _array(port: Port, inner: Port, array: NDArray[Any]) -> NDArray[Any]:
        if port.dtype.numpy_name is None:
            return np.zeros(stored_shape(port.shape, port.dtype), stored_dtype(port.dtype))
        is_alike = port.quantization == inner.quantization and inner.normalization is None
        if is_alike and port.carrier == array.dtype:
            return array.reshape(port.shape)
        return np.zeros(port.shape, port.carrier)

    def load(self) -> None:
        """Bring the inputs to the twin."""
        for load in self._loads:
            load()

    def run(self) -> None:
        self.load()
        self.real.run()
        for store in self._stores:
            store()

    def cancel(self) -> None:
        self.real.cancel()

    def close(self) -> None:
        self.real.close()
        self._loads, self._stores = [], []
        self.inputs = self.outputs = ()


class _RealProgram(OnnxProgram):
    """An ONNX model with its own edges, its open sizes fixed to a contract's."""

    def __init__(self, contract: Contract, source: ModelSource) -> None:
        self._contract = contract
        super().__init__(source)

    def _boundary_of(self, model: ModelProto, metadata: Metadata) -> Boundary:
        return fit(model, metadata, self._contract.inputs, self._contract.outputs)

    def _model(self) -> ModelProto:
        model = super()._model()
        infos = fed_inputs(model.graph)
        if len(infos) == len(self._contract.inputs):
            for info, port in zip(infos, self._contract.inputs, strict=True):
                dims = info.type.tensor_type.shape.dim
                is_open = any(dim.dim_value <= 0 for dim in dims)
                if is_open and len(dims) == len(port.shape):
                    fix_shapes(model, {info.name: port.shape})
        return model


def _loader(
    port: Port, inner: Port, source: NDArray[Any], target: NDArray[Any]
) -> Callable[[], None]:
    """How an input's values become the twin's."""
    info, normalization = described(port), inner.normalization
    view = target.reshape(port.shape)

    def load() -> None:
        if view.dtype == np.float32:
            decode(source, info, view)
        else:
            kernels.convert(own_values(source, info), view)
        if normalization is not None:
            np.copyto(view, normalization.apply(view))

    return load


def _storer(port: Port, source: NDArray[Any], target: NDArray[Any]) -> Callable[[], None]:
    """How the twin's values become an output."""
    info, view = described(port), source.reshape(port.shape)
    if port.quantization is None and port.dtype.numpy_name is not None:
        return lambda: store_real(view, port, target)
    return lambda: encode(view, info, target)


def described(port: Port) -> TensorInfo:
    """A port as the functions of `anynpu.viplite.formats` take it."""
    size = size_of(port.shape, port.dtype)
    return TensorInfo(
        0, port.name, port.shape, port.dtype, Layout.UNDEFINED, port.quantization, size, size
    )


# ------------------------------------------------------------------------- does the twin match?


def _fitting_shapes(contract: Contract, twin: Program) -> int:
    """Which of the twin's sets of input shapes is the contract's; the first where none is."""
    wanted = [_significant(port.shape) for port in contract.inputs]
    for number, shapes in enumerate(twin.input_shapes):
        if [_significant(shape) for shape in shapes] == wanted:
            return number
    return 0


def _significant(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without its sizes of one: compilers add and drop them."""
    return tuple(size for size in shape if size != 1)


def _check_match(contract: Contract, twin: Variant) -> None:
    differences = []
    for side, wanted, found in (
        ("input", contract.inputs, twin.inputs),
        ("output", contract.outputs, twin.outputs),
    ):
        if len(wanted) != len(found):
            differences.append(f"it has {len(found)} {side}s, the model {len(wanted)}")
            continue
        for index, (port, other) in enumerate(zip(wanted, found, strict=True)):
            if (difference := _difference(port, other)) is not None:
                differences.append(f"{side} {index}: {difference}")
    if differences:
        raise ModelError(f"the twin doesn't fit {contract.name!r}: {'; '.join(differences)}")


def _difference(port: Port, twin: Port) -> str | None:
    if _significant(port.shape) != _significant(twin.shape):
        return f"{twin.name!r} of shape {twin.shape}, in the model {port.name!r} of {port.shape}"
    is_real = twin.dtype is DType.FLOAT32 or twin.quantization is not None
    if port.quantization is not None and not is_real:
        return f"{twin.name!r} is {twin.dtype.name}, in the model {port.name!r} holds reals"
    return None
