"""One request's message, its answer, and the arrays on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import AnynpuError, TensorError
from ...native.pump import RequestRecord
from ...tensor import TensorInfo
from ..base import Request
from .failures import of_answer
from .server import Server, fits

if TYPE_CHECKING:
    from .network import RemoteNetwork

NUMBER = 0
"""The slot that says which request it is."""


class RemoteRequest(Request):
    """The message stays the request's; its tensors' bytes are new for each."""

    def __init__(self, network: RemoteNetwork, number: int) -> None:
        from ...serving.protocol import messages

        self.record = RequestRecord()
        self.record.slots[NUMBER] = number
        self.failure: AnynpuError | None = None
        self._network = network
        self._message = messages.ModelInferRequest()
        self._results: list[NDArray[Any]] = []

    def fill(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> None:
        from ...serving.tensors import write_tensor

        self._message.Clear()
        for info, array in zip(self._network.inputs, arrays, strict=True):
            sent = array if self._network.takes_any_dtype else _as_declared(array, info)
            write_tensor(self._message, info.name, sent)

    def run(self, server: Server) -> None:
        """Have it computed by a server; raises a `ServerError`."""
        answer = server.infer(self._message)
        try:
            self._results = _results(answer, self._network.outputs)
        except TensorError as error:
            raise of_answer(server.address, str(error)) from None

    def take_results(self) -> list[NDArray[Any]]:
        results, self._results = self._results, []
        return results

    def clear(self) -> None:
        self._message.Clear()
        self._results = []
        self.failure = None


def _as_declared(array: NDArray[Any], info: TensorInfo) -> NDArray[Any]:
    """The array in the dtype that the server declares."""
    try:
        with np.errstate(over="raise"):
            return array.astype(info.dtype.numpy, copy=False)
    except FloatingPointError:
        raise TensorError(
            f"input {info.name!r} takes {info.dtype.name.lower()}; found values beyond: bring them "
            f"into its range"
        ) from None


def _results(answer: Any, infos: Sequence[TensorInfo]) -> list[NDArray[Any]]:
    """The answer's outputs in the model's order, as arrays that nobody else has.

    Raises `TensorError` for tensors that aren't the model's.
    """
    from ...serving.tensors import read_tensors

    found = read_tensors(answer.outputs, answer.raw_output_contents)
    names = [info.name for info in infos]
    if sorted(found) != sorted(names):
        raise TensorError(f"it has the outputs {list(found)}, the model has {names}")
    return [_result(found[info.name], info) for info in infos]


def _result(array: NDArray[Any], info: TensorInfo) -> NDArray[Any]:
    """An array of an output's dtype and shape; raises `TensorError` for others."""
    if array.dtype != info.dtype.numpy or not fits(array.shape, info.shape):
        raise TensorError(
            f"output {info.name!r} is {array.dtype} of {array.shape}, the model has "
            f"{info.dtype.numpy} of {info.shape}"
        )
    # The message's bytes can't be written to.
    return array if array.flags.writeable else array.copy()
