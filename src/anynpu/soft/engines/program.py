"""What an engine provides: a `Program`, shared by contexts, and an `Instance` for each of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...tensor import DType, Layout, Quantization


@dataclass(frozen=True)
class Normalization:
    """What is applied to an input before it is quantised: (x - mean) / std for each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def is_identity(self) -> bool:
        return not any(self.mean) and all(value == 1 for value in self.std)

    def apply(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Normalise (N, C, H, W) values of any dtype and strides to a new C-ordered array."""
        mean = np.asarray(self.mean, np.float32)[:, None, None]
        std = np.asarray(self.std, np.float32)[:, None, None]
        result = np.empty(values.shape, np.float32)
        np.subtract(values, mean, out=result, casting="unsafe")
        np.divide(result, std, out=result)
        return result


@dataclass(frozen=True)
class NativeForm:
    """How the device holds a tensor: the layout, and the sizes of its axes, padding included."""

    layout: Layout
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Port:
    """One input or output of a program.

    `shape` is in the model's own order (NCHW where it is an image); `dtype` is what the device
    holds. `native` is what a compiled file says of its layout there; without it the chip's rules
    decide. `is_read_by_cpu` says that an input goes to a node that the processor computes.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    quantization: Quantization | None = None
    normalization: Normalization | None = None
    native: NativeForm | None = None
    is_read_by_cpu: bool = False

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def carrier(self) -> np.dtype[Any]:
        """The dtype of the arrays that an instance exchanges.

        The device's own dtype, but for float16: there float32 arrays carry values, which the
        program rounds to float16. Converting in NumPy would cost more than a small network.
        """
        return DType.FLOAT32.numpy if self.dtype is DType.FLOAT16 else self.dtype.numpy


@dataclass(frozen=True)
class Variant:
    """A program's inputs and outputs under one set of input shapes."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class Layer:
    """What an NPU computes in one pass, as far as its time depends on it.

    `inputs` are the shapes of all tensors that it reads, weights included, `output` that of the
    first one it writes, each in the model's own order; () where a shape isn't known. `dtype` is
    that of the data read. `macs` counts multiply-accumulates. `read_bytes` include `weight_bytes`.
    `channels_in` and `channels_out` are those of one group of a convolution, or of a matrix
    product, and of all groups for `channels_out` of a depthwise one; they and `kernel`, its height
    and width, are 0 and () for other layers. `uses_table` says that it looks an activation up,
    `on_cpu` that the CPU computes it.
    """

    name: str
    op_type: str
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    dtype: DType
    macs: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    weight_bytes: int = 0
    channels_in: int = 0
    channels_out: int = 0
    kernel: tuple[int, ...] = ()
    is_depthwise: bool = False
    uses_table: bool = False
    on_cpu: bool = False


@dataclass(frozen=True)
class LoweredModel:
    """A model as the device sees it.

    `layers` are in the order of execution; `weight_bytes` is what all weights take on the device;
    `peak_intermediate_bytes` is the most that tensors between layers take at one time, with the
    model's inputs and outputs where `includes_edges` says so.
    """

    layers: tuple[Layer, ...]
    weight_bytes: int
    peak_intermediate_bytes: int
    includes_edges: bool = False


@dataclass(frozen=True)
class MeasuredLayer:
    """How long one layer of a run took on this machine.

    `name` is the node's name in the model as the engine runs it, `inputs` and `output` are shapes,
    `kilobytes` is what it reads and writes here, `on_cpu` says that a board's CPU computes it.
    """

    name: str
    op_type: str
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    dtype: str
    microseconds: int
    kilobytes: float
    on_cpu: bool = False


@dataclass(frozen=True)
class CustomNode:
    """A node of a model that an operator from outside computes.

    `index` tells it from the model's other nodes; one without a name is called as its first output.
    `attributes` are one-dimensional arrays, a text being uint8. `inputs` and `outputs` are in the
    model's own order of axes, all real numbers FLOAT32. `has_builtin` says that the engine has an
    operator of the same name, `is_foreign` that it doesn't use it here. `assumed` are outputs of
    which the model doesn't give the shape: they have that of the first input.
    """

    index: int
    op_type: str
    name: str
    attributes: Mapping[str, NDArray[Any]]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    has_builtin: bool
    is_foreign: bool
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """A node that a board doesn't compute, by what is known of the vendor's runtimes.

    `index` tells it from the model's other nodes; `name` is the file's own, as a board's log has
    it. `runtime` is the library and the newest version that is known to refuse it, `source` says
    by what it is known.
    """

    index: int
    op_type: str
    name: str
    runtime: str
    source: str


class CustomCall(ABC):
    """How a custom node is computed.

    `inputs` and `outputs` are C-contiguous arrays of the node's ports, the same ones for the
    call's life; nodes that pass a tensor on share its array.
    """

    inputs: tuple[NDArray[Any], ...]
    outputs: tuple[NDArray[Any], ...]

    @abstractmethod
    def run(self) -> None:
        """Compute `outputs` from `inputs`; what it raises ends the instance's run."""


class MissingOperatorError(ModelError):
    """A run needs operators that neither the engine nor a custom operator has: `op_types`."""

    def __init__(self, op_types: Sequence[str]) -> None:
        super().__init__(f"no runtime has the operators {list(op_types)}")
        self.op_types = tuple(op_types)


@dataclass(frozen=True)
class Customization:
    """How an instance differs from its program.

    `calls` compute the nodes of these indices; `builtin` are nodes for which the engine's own
    operator of the same name steps in. A run fails with `MissingOperatorError` where it comes to
    one of `refused` that no call computes.
    """

    calls: Mapping[int, CustomCall]
    builtin: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()


NOT_CUSTOMIZED = Customization({})


class Instance(ABC):
    """The arrays of one context, and how to compute the outputs from the inputs.

    `inputs` and `outputs` are C-contiguous arrays of each port's shape and carrier dtype, the same
    ones for the instance's life. One thread at a time; `cancel` may come from another.
    """

    inputs: tuple[NDArray[Any], ...]
    outputs: tuple[NDArray[Any], ...]

    @abstractmethod
    def run(self) -> None:
        """Compute `outputs` from `inputs`; raises `ModelError` where that fails.

        What a `CustomCall` raises comes out as it is.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Make a `run` under way fail soon."""

    @abstractmethod
    def close(self) -> None:
        """Drop the arrays and the share in the program."""


class Program(ABC):
    """A loaded model: immutable, shared between contexts and threads.

    `framework` and `producer` say where the model comes from, `soc` the chip it is for (None for
    any), `custom_string` what its author stored in it. `input_shapes` lists the sets of shapes
    that the inputs may have, in the order of the inputs; a model of fixed shapes has one set.
    `batch` is how many samples the file is to be run for, one by one.
    """

    framework: str
    producer: str
    soc: str | None
    custom_string: str
    input_shapes: tuple[tuple[tuple[int, ...], ...], ...]
    batch: int = 1

    follows_from_one_file = False
    """Whether the same file, loaded again, gives a program that does the same."""

    @cached_property
    def largest(self) -> int:
        """The number of the set of shapes with the most elements.

        It is what a context begins with and what memory is sized for (user guide 5.4).
        """
        sizes = [sum(map(math.prod, shapes)) for shapes in self.input_shapes]
        return sizes.index(max(sizes))

    @abstractmethod
    def variant(self, number: int) -> Variant:
        """The inputs and outputs under a set of shapes; raises `ModelError` where that fails."""

    @abstractmethod
    def lowered(self, number: int) -> LoweredModel:
        """The layers as an NPU would run them under a set of shapes, and what memory they take."""

    def custom_nodes(self, number: int, op_types: Collection[str] = ()) -> tuple[CustomNode, ...]:
        """The nodes for operators from outside under a set of shapes, in the order of execution.

        These are the nodes that the engine has no operator for, and all nodes of `op_types`.
        Raises `ModelError` where the model can't be cut at them. None, where the engine knows of
        no operators from outside.
        """
        return ()

    def refusals(self, number: int) -> tuple[Refusal, ...]:
        """The nodes that a board doesn't compute under a set of shapes, in their order."""
        return ()

    def mistakes(self, number: int) -> tuple[str, ...]:
        """What the compiler is known to have done wrongly, which a board computes as it is."""
        return ()

    @abstractmethod
    def instance(self, number: int, custom: Customization = NOT_CUSTOMIZED) -> Instance:
        """A new set of arrays to run with; `ModelError` where the model can't be run so."""

    @abstractmethod
    def profile(self, instance: Instance) -> tuple[MeasuredLayer, ...]:
        """Run the instance's inputs once more, apart from it, and time the layers."""
