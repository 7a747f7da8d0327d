"""`Network`: one `vip_network` as a Python object, every call checked."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence

from ..errors import CallError, InvalidModelError, ModelError, TensorError
from ..lifetime import Closeable
from ..tensor import TensorInfo
from . import abi
from .buffer import Buffer, LibraryLike
from .formats import size_of
from .library import VipliteLibrary, load
from .queries import Queries
from .runtime import Handle, Runtime, runtime_of
from .settings import Settings

__all__ = ["Network"]

ModelLike = str | os.PathLike[str] | bytes
_Create, _Dup = abi.CreateNetworkType, abi.DupNetworkType


_NOT_SUPPORTED = (
    "the network binary is for another NPU than this one, or the library doesn't know what is in it"
)
_SOFT_HINT = (
    "the soft NPU executes a compiled .nb, or computes the ONNX file that it was made from where "
    "that is named (twin=, $ANYNPU_TWIN)"
)


class Network(Settings, Queries, Closeable):
    """A network binary (`.nb`) loaded into the runtime: `vip_create_network` to its end.

    `model` is a path, or the file's bytes (the library copies what it needs). `twin` is an ONNX
    file that the soft NPU computes instead of the model's own commands; a board ignores it.
    `inputs` and `outputs` describe the tensors. Properties are set before `prepare`, buffers after
    it, then it runs. Buffers that are set stay alive as long as they are.

        with Network("model.nb") as network:
            network.prepare()
            image, scores = network.new_input(0), network.new_output(0)
            image.array()[...] = pixels
            image.flush()
            network.run()
            scores.invalidate()

    One thread at a time may use a network, but `cancel` may be called from any. Close it with
    `close()` or `with`; it also closes when it is collected and when the interpreter exits. A
    network that others were duplicated from goes with the last of them. Failed calls raise
    `CallError`, use after `close` raises `ClosedError`.
    """

    def __init__(
        self,
        model: ModelLike,
        *,
        library: LibraryLike = None,
        twin: str | os.PathLike[str] | None = None,
    ) -> None:
        runtime = load(library)
        data, size, kind = _model_argument(model)
        has_twin = twin is not None and runtime.is_soft
        way = int(kind) | (abi.SOFT_TWIN_FOLLOWS if has_twin else 0)
        self._open(_NetworkHandle(runtime_of(runtime), "vip_create_network", data, size, way))
        if twin is not None and has_twin:
            self._set_twin(os.fsencode(os.path.abspath(twin)))

    def _open(self, handle: _NetworkHandle) -> None:
        self._network = handle
        self._finalizer = weakref.finalize(self, handle.close)
        self._buffers: dict[tuple[str, int], Buffer] = {}
        try:
            super().__init__(handle)
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------------------- lifetime

    @property
    def library(self) -> VipliteLibrary:
        """The runtime library that the network lives in."""
        return self._handle.library

    @property
    def handle(self) -> Handle:
        """The handle of C's."""
        return self._handle

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare` was called, and `finish` not."""
        return self._network.is_prepared

    def prepare(self) -> None:
        """Allocate memory and check the network: `vip_prepare_network`; once, it takes long."""
        code = self.library.vip_prepare_network(self._handle.value)
        self.library.check("vip_prepare_network", code, _SOFT_HINT if self.library.is_soft else "")
        self._network.is_prepared = True

    def finish(self) -> None:
        """Let go of what `prepare` allocated: `vip_finish_network`; `close` does it too."""
        self.library.check(
            "vip_finish_network", self.library.vip_finish_network(self._handle.value)
        )
        self._network.is_prepared = False
        for place in self._buffers:
            self._handle.forget(place)
        self._buffers.clear()

    def close(self) -> None:
        """Finish and destroy it; closing twice does nothing."""
        self._buffers.clear()
        self._finalizer()

    # ----------------------------------------------------------------------------- duplicates

    def dup(self, model: ModelLike | None = None) -> Network:
        """A network of its own that shares the weights: `vip_dup_network` (section 2.4.1.4).

        Its commands are copied from this network, or read again from the model where that is
        given. The duplicate has the same tensors; it is prepared and gets buffers by itself.
        """
        if model is None:
            data, size, kind = None, 0, _Dup.FROM_NETWORK | _Dup.FOR_CMD_BY_NETWORK
        else:
            data, size, source = _model_argument(model)
            kind = _Dup.FOR_CMD_BY_NBG | (
                _Dup.FROM_NBG_FILE if source is _Create.FILE else _Dup.FROM_NBG_MEMORY
            )
        arguments = (data, size, int(kind), self._handle.value)
        return self._duplicate("vip_dup_network", *arguments)

    def weak_dup(self) -> Network:
        """A network of its own that shares weights and shaders: `vip_weak_dup_network`.

        This network is prepared first. No document says whether the duplicate has to be prepared
        too: older libraries copy what `prepare` made.
        """
        return self._duplicate("vip_weak_dup_network", self._handle.value)

    def _duplicate(self, call: str, *arguments: object) -> Network:
        handle = _NetworkHandle(self._handle.runtime, call, *arguments)
        handle.need("original", self._handle)
        duplicate: Network = type(self).__new__(type(self))
        duplicate._open(handle)
        return duplicate

    # ------------------------------------------------------------------- buffers, after prepare

    def new_input(self, index: int, *, cached: bool = False) -> Buffer:
        """New memory for an input, set for it."""
        buffer = Buffer.allocate(self.inputs[index], cached=cached, library=self.library)
        self.set_input(index, buffer)
        return buffer

    def new_output(self, index: int, *, cached: bool = False) -> Buffer:
        """New memory for an output, set for it."""
        buffer = Buffer.allocate(self.outputs[index], cached=cached, library=self.library)
        self.set_output(index, buffer)
        return buffer

    def set_input(self, index: int, buffer: Buffer) -> None:
        """Let an input be read from a buffer: `vip_set_input`. The network keeps the buffer."""
        self._set_tensor("input", self.inputs, index, buffer)

    def set_output(self, index: int, buffer: Buffer) -> None:
        """Let an output be written to a buffer: `vip_set_output`. The network keeps the buffer."""
        self._set_tensor("output", self.outputs, index, buffer)

    def _set_tensor(
        self, kind: str, infos: Sequence[TensorInfo], index: int, buffer: Buffer
    ) -> None:
        info = infos[index]
        needed = size_of(info.shape, info.dtype)
        if buffer.size < needed:
            raise TensorError(f"{kind} {info} takes {needed} bytes; the buffer has {buffer.size}")
        call = f"vip_set_{kind}"
        value = buffer.handle.value_in(self._handle.runtime)
        code = getattr(self.library, call)(self._handle.value, info.index, value)
        if code:
            self.library.check(call, code, f"{kind} {info}")
        self._handle.need((kind, info.index), buffer.handle)
        self._buffers[kind, info.index] = buffer

    def set_ppu_param(self, param: abi.PpuParam, index: int = 0) -> None:
        """Change the work of a shader operation: `vip_set_ppu_param`, after `set_ppu_change`."""
        code = self.library.vip_set_ppu_param(self._handle.value, ctypes.byref(param), index)
        self.library.check("vip_set_ppu_param", code, f"operation {index}")

    # -------------------------------------------------------------------------------- inference

    def run(self) -> None:
        """Compute, until the outputs are there: `vip_run_network`."""
        code = self.library.vip_run_network(self._handle.value)
        if code:
            self.library.check("vip_run_network", code, self._missing())

    def trigger(self) -> None:
        """Begin to compute: `vip_trigger_network`; `wait` waits for the end."""
        code = self.library.vip_trigger_network(self._handle.value)
        if code:
            self.library.check("vip_trigger_network", code, self._missing())

    def wait(self) -> None:
        """Wait for what `trigger` began: `vip_wait_network`."""
        self.library.check("vip_wait_network", self.library.vip_wait_network(self._handle.value))

    def cancel(self) -> None:
        """End what `trigger` or another thread's `run` began: `vip_cancel_network`.

        Whoever waits gets `CallCancelledError`.
        """
        self.library.check(
            "vip_cancel_network", self.library.vip_cancel_network(self._handle.value)
        )

    def _missing(self) -> str:
        """The tensors that have no buffer, for an error's message."""
        names = [
            f"{kind} {info}"
            for kind, infos in (("input", self.inputs), ("output", self.outputs))
            for info in infos
            if (kind, info.index) not in self._buffers
        ]
        return f"without a buffer: {', '.join(names)}" if names else ""


class _NetworkHandle(Handle):
    """A `vip_network`; what `prepare` allocated goes with it."""

    is_prepared = False

    def __init__(self, runtime: Runtime, create: str, *arguments: object) -> None:
        try:
            super().__init__(runtime, create, "vip_destroy_network", *arguments)
        except CallError as error:
            if error.code != abi.Status.NOT_SUPPORTED:
                raise
            raise InvalidModelError(
                create, error.code, error.symbol, _NOT_SUPPORTED, log=error.log
            ) from None

    def before_destroy(self) -> None:
        if self.is_prepared:
            self.library.vip_finish_network(self._value)


def _model_argument(model: ModelLike) -> tuple[bytes, int, abi.CreateNetworkType]:
    """What `vip_create_network` takes for a model: the pointer, the size (0 for a path), a kind."""
    if isinstance(model, bytes):
        if not model:
            raise ModelError("the model is empty: 0 bytes were given")
        return model, len(model), _Create.MEMORY
    path = os.path.abspath(os.fspath(model))
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no model file {path}")
    return os.fsencode(path), 0, _Create.FILE
