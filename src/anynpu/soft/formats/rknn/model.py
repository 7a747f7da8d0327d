"""A compiled `.rknn` file as an immutable description; the reader makes it, engines use it.

The vendor publishes no schema. Names are ours, meanings come from files that the toolkit writes.
Nothing here interprets commands: that is an engine's matter.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....tensor import DType, Quantization


class Generation(enum.Enum):
    """The NPU that a file's commands are for; the value is the file's own word."""

    LITE = "RKNPU lite"  # RK3566, RK3568
    V2 = "RKNPU v2"  # RK3588
    F2 = "RKNPU f2"  # RK3576
    F3 = "RKNPU f3"  # RV1126B
    T4 = "RKNPU t4"  # RK3562
    MICRO = "RKNPU t3"  # RV1103, RV1106

    @property
    def atom(self) -> int:
        """Bytes of a pixel in one channel block."""
        return 8 if self is Generation.LITE else 16


class ElementType(enum.Enum):
    """What a tensor's elements are: ONNX's numbers, but for `OPAQUE`, bytes without a type."""

    FLOAT32 = (1, DType.FLOAT32)
    UINT8 = (2, DType.UINT8)
    INT8 = (3, DType.INT8)
    UINT16 = (4, DType.UINT16)
    INT16 = (5, DType.INT16)
    INT32 = (6, DType.INT32)
    INT64 = (7, DType.INT64)
    BOOL = (9, DType.BOOL)
    FLOAT16 = (10, DType.FLOAT16)
    UINT32 = (12, DType.UINT32)
    OPAQUE = (13, None)
    BFLOAT16 = (16, DType.BFLOAT16)
    UNSET = (0, None)

    def __init__(self, code: int, dtype: DType | None) -> None:
        self.code = code
        self.dtype = dtype


class TensorLayout(enum.Enum):
    """How a tensor's elements lie in memory.

    `BLOCKED` is NC1HWC2: channel blocks of one atom. `WEIGHT` is the weight layout of a
    convolution: groups of kernels, within them groups of channels.
    """

    PLAIN = 0
    NHWC = 1
    NCHW = 2
    BLOCKED = 64
    WEIGHT = 65


class TensorKind(enum.Enum):
    """What a tensor is for."""

    PLACEHOLDER = 0
    INPUT = 1
    OUTPUT = 2
    ACTIVATION = 3
    WEIGHT = 4
    OPERAND = 5  # a node's constant operand, such as a shape
    TABLE = 6  # named by tasks that load look-up tables
    TASK_COMMANDS = 7  # of one task, in containers before 6
    COMPILER_CONSTANT = 8
    COMMANDS = 9
    TASKS = 10

    @property
    def is_internal(self) -> bool:
        """Whether it lies in the graph's internal memory."""
        return self in (TensorKind.INPUT, TensorKind.OUTPUT, TensorKind.ACTIVATION)


class Device(enum.Enum):
    CPU = 0
    NPU = 2


@dataclass(frozen=True)
class Tensor:
    """One tensor of a graph.

    `shape` is the logical one (NCHW for images), `native_shape` that of the memory: features
    (N, C1, H, W, C2), weights (OC1, IC1, KH, KW, OC2, IC2) and six more where the last kernels
    are fewer. `scale` and `zero_point` have an entry for the tensor or one a channel, or
    none. `size` and `offset` count bytes: in data section `section`, or where that is 0, in the
    internal memory. `size` is what the file says, which for a scratch buffer may be too small.
    `row` is how many bytes rows of an input that is a picture are apart, 0 for all other tensors.
    """

    index: int
    name: str
    element: ElementType
    layout: TensorLayout
    kind: TensorKind
    native_shape: tuple[int, ...]
    shape: tuple[int, ...]
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]
    size: int
    offset: int
    section: int
    row: int = 0

    @property
    def quantization(self) -> Quantization | None:
        """The whole tensor's quantisation, None where it holds real values or one a channel."""
        if len(self.scale) != 1 or len(self.zero_point) != 1:
            return None
        return Quantization(self.scale[0], self.zero_point[0])


EDGES = frozenset({"InputOperator", "OutputOperator"})
"""The types of the nodes that stand for a graph's inputs and outputs."""


@dataclass(frozen=True)
class Node:
    """One operator of a graph.

    `op_type` is the compiler's name for it (``ConvRelu``), `name` has the form ``Conv:conv1``.
    `inputs` and `outputs` are tensor indices: operands, constants, scratch; -1 stands for an
    optional one that is left out. `attributes` are the
    ONNX ones, `options` the compiler's own, by the names that `options.py` gives. `task_counts` are
    for one core; two cores; three cores. `has_options` says that the compiler's own attributes are
    there and known, so that those which are not among `options` have ONNX's defaults. An NPU node
    without tasks only renames memory.
    """

    index: int
    op_type: str
    name: str
    device: Device
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any]
    options: Mapping[str, Any]
    task_counts: tuple[int, ...]
    has_options: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One entry of the task list: run some blocks of the NPU after a few register writes.

    Commands `first_command` to `first_command + commands` (64-bit words in `Graph.commands`) are
    the task's own. `node` indexes the graph's nodes. `enable_mask` has a bit a block.
    """

    index: int
    node: int
    enable_mask: int
    flags: int
    first_command: int
    commands: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A command's 32-bit value is the address of the buffer plus `addend` bytes.

    `buffer` names a tensor, or is a special name of the compiler's.
    """

    buffer: str
    addend: int


@dataclass(frozen=True)
class InputNormalization:
    """(x - mean) / std a channel, and the order in which the channels are taken."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    channel_order: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """One complete graph; a model of dynamic shapes has one for each set of shapes.

    `inputs` and `outputs` are tensor indices in the user's order; `normalizations` belong to the
    inputs. `tasks` are in execution order, those for one core, two cores and three cores after
    one another; `tasks_for(cores)` picks. `relocations` are by the command's index.
    """

    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    normalizations: tuple[InputNormalization, ...]
    relocations: Mapping[int, Relocation]
    commands: memoryview
    tasks: tuple[Task, ...]
    task_bounds: tuple[int, int, int]

    def tasks_for(self, cores: int) -> tuple[Task, ...]:
        """The list for 1, 2 or 3 cores; that of several cores has each core's tasks in turn."""
        start = 0 if cores == 1 else self.task_bounds[cores - 2]
        return self.tasks[start : self.task_bounds[cores - 1]]


@dataclass(frozen=True)
class MemorySizes:
    """Bytes that a context allocates: `internal` includes inputs and outputs."""

    weight: int
    internal: int
    extra: int


@dataclass(frozen=True)
class CompiledModel:
    """A compiled file.

    `container` is the container's version, `format` the description's. `toolkit` and `compiler`
    are versions such as ``2.3.2``; `compiler` also holds the build. `sections` are views of the
    file's bytes, which stay alive with them; the one with index 0 is empty. `batch` is the size
    that the file's author asked for with `rknn_batch_size`, 1 where they didn't.
    """

    container: int
    format: int
    generation: Generation
    target: str
    toolkit: str
    compiler: str
    framework: str
    custom_string: str
    batch: int
    is_dynamic: bool
    graphs: tuple[Graph, ...]
    memory: MemorySizes
    sections: tuple[memoryview, ...]

    def data(self, tensor: Tensor) -> memoryview:
        """A constant tensor's bytes, without a copy.

        They are empty for weights that were removed from the file or that an earlier graph has.
        """
        section = self.sections[tensor.section]
        return section[tensor.offset : tensor.offset + (tensor.size or len(section))]
