"""What a session needs of a vendor.

A `Backend` opens a model as a `Network`: several workers, each with a context of its own, and for
each worker the steps that run a request there. A `Request` is one request's buffers. The session's
scheduler decides who runs which request when, and on which thread.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AnynpuError
from ..lifetime import Closeable
from ..native.pump import MAX_STEPS, RequestRecord, Step
from ..options import Options

if TYPE_CHECKING:
    # They are names of types here; importing them takes milliseconds.
    from ..memory_size import MemorySize
    from ..perf import LayerTable
    from ..runtime_library import RuntimeLibrary
    from ..tensor import DType, TensorInfo

ModelSource = str | os.PathLike[str] | bytes
Shapes = tuple[tuple[int, ...], ...]
"""The shape of each input."""


class Request(ABC):
    """The buffers of one request, used again for the next; one thread at a time.

    `record` is what the pump gets. `variant` numbers the steps that it needs: a network has one
    variant for each set of input shapes.
    """

    record: RequestRecord
    variant: int = 0

    @property
    def span(self) -> tuple[int, int]:
        """From when to when the request ran: nanoseconds of `time.monotonic`."""
        return self.record.started, self.record.ends[min(self.record.step, MAX_STEPS - 1)]

    @abstractmethod
    def fill(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> None:
        """Take one array for each input, of shapes that the network takes.

        Without `copy` the caller keeps the arrays as they are until the request is done.
        """

    @abstractmethod
    def take_results(self) -> list[NDArray[Any]]:
        """The outputs of a request that is done: arrays that nobody else has."""

    @abstractmethod
    def clear(self) -> None:
        """Let go of others' arrays; the request is over."""


class DeviceBuffer(ABC):
    """Memory for a tensor that both this process and the device see.

    `array` shares it, without what pads rows; `info` says how the tensor lies there.
    """

    array: NDArray[Any]
    info: TensorInfo

    @abstractmethod
    def to_device(self) -> None:
        """What was written here is for the device: before a run that reads it."""

    @abstractmethod
    def from_device(self) -> None:
        """What the device wrote is for here: after a run."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Where the memory is: descriptor, offset, address, sizes, strides."""


class Binding(Closeable):
    """A copy of the model whose tensors live in buffers. One thread at a time."""

    @abstractmethod
    def bind(self, kind: str, index: int, buffer: DeviceBuffer) -> None:
        """Let an ``"input"`` or ``"output"`` live in a buffer."""

    @abstractmethod
    def run(self) -> None:
        """Compute: from the buffers of all inputs to those of all outputs."""


class Network(Closeable):
    """A model loaded for several workers.

    `inputs` and `outputs` are as the session shows them. `worker_cores` has each worker's core,
    None where the runtime chooses one. `library` is the runtime.
    """

    library: RuntimeLibrary
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    worker_cores: tuple[int | None, ...]

    @property
    def keeps_main_thread_free(self) -> bool:
        """Whether steps run Python, which a signal's handler could interrupt on the main thread.

        The soft NPU's calls couldn't be made there anyway.
        """
        return self.library.is_soft

    @property
    def logical_outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs as the model's source has them, where `outputs` may be in a native layout."""
        return self.outputs

    @property
    def shape_sets(self) -> tuple[Shapes, ...]:
        """The sets of input shapes that requests may have; the first is that of `inputs`."""
        return (tuple(info.shape for info in self.inputs),)

    @property
    def bound_inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs as they lie in a binding's memory."""
        return self.inputs

    @property
    def bound_outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs as they lie in a binding's memory."""
        return self.outputs

    @abstractmethod
    def steps(self, worker: int, variant: int) -> Sequence[Step]:
        """What a worker does with a request of a variant."""

    @abstractmethod
    def new_request(self) -> Request:
        """Buffers for one more request."""

    @abstractmethod
    def error(self, request: Request, step: Step, code: int) -> AnynpuError:
        """The exception for a request whose step returned a code."""

    @abstractmethod
    def metadata(self) -> dict[str, str]:
        """What the model and the runtime say of themselves."""

    @abstractmethod
    def allocate(
        self, kind: str, index: int, dtype: DType | None, flags: str | int | None
    ) -> DeviceBuffer:
        """A buffer for an ``"input"`` or ``"output"``, of the device's own dtype or another."""

    @abstractmethod
    def import_buffer(
        self, kind: str, index: int, dtype: DType | None, fd: int, size: int, offset: int
    ) -> DeviceBuffer:
        """A buffer in memory that a descriptor names, such as a DMA buffer."""

    @abstractmethod
    def new_binding(self) -> Binding:
        """A copy of the model for buffers."""


class ZeroCopyModel(Closeable):
    """One copy of a model whose tensors live in memory that the device sees; one thread.

    `inputs` and `outputs` are in the model's own order, `raw_outputs` as the device has them.
    """

    library: RuntimeLibrary
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    raw_outputs: tuple[TensorInfo, ...]

    @abstractmethod
    def write(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Copy the inputs' values to the device, from arrays of the shapes of `inputs`."""

    @abstractmethod
    def run(self, timeout_ms: int) -> None:
        """Compute; 0 waits as long as it takes."""

    @abstractmethod
    def raw(self, index: int) -> NDArray[Any]:
        """An output in the device's own memory."""

    @abstractmethod
    def real(self, index: int) -> NDArray[np.float32]:
        """An output as real values in the model's own order: a new array."""

    @abstractmethod
    def dup(self) -> ZeroCopyModel:
        """A copy on the same weights."""

    def dynamic_shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each input the shapes that it may have; empty where they are fixed."""
        return ()

    @abstractmethod
    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """Take up other input shapes; `TensorError` for those that the model doesn't list."""

    @abstractmethod
    def memory(self) -> MemorySize:
        """What the model takes on the device."""

    @abstractmethod
    def perf(self) -> LayerTable:
        """The layers of the last run and their times."""

    @abstractmethod
    def run_microseconds(self) -> int:
        """What the last run took."""


class Backend(ABC):
    """A vendor's runtime.

    `names` are the execution providers' names it answers to, the official one first;
    `device_type` is what ONNX Runtime's functions call its memory; `magic` is how its model files
    begin; `options` is the class of the provider options that it takes.
    """

    names: tuple[str, ...]
    device_type: str
    magic: bytes
    options: type[Options]

    def normalizations(self, model: ModelSource, names: Sequence[str]) -> Sequence[Any]:
        """What a model does to each named input's values, None where that isn't known."""
        return (None,) * len(names)

    @abstractmethod
    def open(self, model: ModelSource, options: Options, weights: Network | None) -> Network:
        """Load a model; `weights` is the network whose weights it shares, if any."""

    @abstractmethod
    def open_zero_copy(
        self,
        model: ModelSource,
        library: Any,
        *,
        profile: bool,
        twin: str | None,
        custom_ops: Sequence[Any],
    ) -> ZeroCopyModel:
        """Load a model once; `library` is what the vendor's `load` takes.

        `profile` times layers, `twin` is an ONNX file that computes in a compiled model's place on
        the soft NPU, `custom_ops` compute nodes that the runtime has no operator for. Raises
        `OptionError` where the vendor has no use for them.
        """
