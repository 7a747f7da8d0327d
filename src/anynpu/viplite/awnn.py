"""libawnn's calls in Python: a network with its buffers, and outputs as floats.

For programs that were written to libawnn; `Network`, `anynpu.Model` and `InferenceSession` can do
more. It needs no libawnn: all is done through VIPLite. Unlike the original it prints nothing,
raises where a call fails, and converts every format as its quantisation says: zero points aren't
cut to uint8, affine int16 isn't taken for fixed point, and no format is left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ClosedError, TensorError
from ..lifetime import Closeable
from ..tensor import TensorInfo
from .buffer import LibraryLike
from .formats import decode
from .library import load
from .network import Network
from .runtime import runtime_of

RawInput = bytes | bytearray | memoryview | NDArray[Any]


def awnn_init(library: LibraryLike = None) -> None:
    """Initialise the runtime, until `awnn_uninit`; contexts do so by themselves too."""
    runtime_of(load(library)).enter()


def awnn_uninit(library: LibraryLike = None) -> None:
    """Let go of the runtime: once for each `awnn_init`."""
    runtime_of(load(library)).leave()


class AwnnContext(Closeable):
    """A network binary, prepared, with buffers: `awnn_create` to `awnn_destroy`.

    `nbg` is a path or the file's bytes, `twin` as of `Network`. `inputs` and `outputs` describe the
    tensors. One thread at a time. Failed calls raise `CallError`, use after `destroy` raises
    `ClosedError`.
    """

    def __init__(
        self,
        nbg: str | os.PathLike[str] | bytes,
        *,
        library: LibraryLike = None,
        twin: str | os.PathLike[str] | None = None,
    ) -> None:
        self._network = Network(nbg, library=library, twin=twin)
        try:
            self._network.prepare()
            self.inputs = self._network.inputs
            self.outputs = self._network.outputs
            self._inputs = [self._network.new_input(index) for index in range(len(self.inputs))]
            self._outputs = [self._network.new_output(index) for index in range(len(self.outputs))]
        except BaseException:
            self._network.close()
            raise
        self._floats = [np.zeros(info.shape, np.float32) for info in self.outputs]

    def set_input_buffers(self, input_buffers: Sequence[RawInput]) -> None:
        """Copy the inputs as memory has them, quantised: `awnn_set_input_buffers`.

        Each is bytes or an array, as many bytes long as `inputs` say. Raises `TensorError` for
        another count or length.
        """
        self._check_open()
        if len(input_buffers) != len(self._inputs):
            raise TensorError(
                f"the network has {len(self._inputs)} inputs; {len(input_buffers)} were given"
            )
        arrays = [_raw(given, info) for given, info in zip(input_buffers, self.inputs, strict=True)]
        for array, buffer in zip(arrays, self._inputs, strict=True):
            np.copyto(buffer.array(array.shape, np.uint8), array)
            buffer.flush()

    def run(self) -> None:
        """Compute, and convert the outputs: `awnn_run`."""
        self._check_open()
        self._network.run()
        for buffer, real in zip(self._outputs, self._floats, strict=True):
            buffer.invalidate()
            decode(buffer.array(), buffer.info, real)

    def get_output_buffers(self) -> list[NDArray[np.float32]]:
        """The outputs as real values, which the next `run` overwrites: `awnn_get_output_buffers`.

        Zeros before the first `run`.
        """
        return list(self._floats)

    def get_output_buffer(self, i: int) -> NDArray[Any]:
        """Output `i` in the device's memory, quantised: `awnn_get_output_buffer`; no copy."""
        self._check_open()
        return self._outputs[i].array()

    def dump_io(self, path: str | os.PathLike[str]) -> None:
        """Write `path.input_N.txt`, a byte a line, and `path.output_N.txt`: `awnn_dump_io`.

        Outputs are real values with six places. Raises OSError where a file can't be written.
        """
        self._check_open()
        start = os.fspath(path)
        for number, (buffer, info) in enumerate(zip(self._inputs, self.inputs, strict=True)):
            raw = buffer.array((info.size,), np.uint8)
            np.savetxt(f"{start}.input_{number}.txt", raw, fmt="%u")
        for number, real in enumerate(self._floats):
            np.savetxt(f"{start}.output_{number}.txt", real.ravel(), fmt="%f")

    def destroy(self) -> None:
        """Free the network: `awnn_destroy`; twice does nothing. Arrays stay valid."""
        self._inputs, self._outputs = [], []
        self._network.close()

    close = destroy

    def _check_open(self) -> None:
        if not self._inputs and not self._outputs:
            raise ClosedError("this context is destroyed")


def _raw(given: RawInput, info: TensorInfo) -> NDArray[np.uint8]:
    """The bytes of an input."""
    if isinstance(given, np.ndarray):
        array = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
    else:
        array = np.frombuffer(given, np.uint8)
    if array.size != info.size:
        raise TensorError(f"input {info} takes {info.size} bytes as it is; found {array.size}")
    return array
