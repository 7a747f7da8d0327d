"""A binding for sessions whose networks come with the shapes of feeds: arrays on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import OptionError, TensorError
from .binding import SessionIOBinding, write_out
from .node import NodeArg
from .ort_value import CPU, OrtValue, array_over, numpy_dtype

if TYPE_CHECKING:
    from .open_sizes import OpenSizesSession


class HostBinding(SessionIOBinding):
    """Inputs and outputs of an `OpenSizesSession`, bound once for many calls.

    Inputs are read at each run, from arrays of any size that the model allows; outputs are new
    arrays, or are written to those that are bound. Memory on the device is one network's, and
    refused.
    """

    def __init__(self, session: OpenSizesSession) -> None:
        self._open_sizes = session
        self._feed: dict[str, NDArray[Any]] = {}
        self._wanted: dict[str, OrtValue | None] = {}
        self._results: dict[str, OrtValue] = {}

    # ----------------------------------------------------------------------------------- inputs

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Take a copy of an array."""
        self._feed[self._checked("input", name)] = np.array(arr_on_cpu)

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: DTypeLike | int,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Read an input at each run from memory of the host's, which `buffer_ptr` points to."""
        _check_host(device_type)
        array = array_over(buffer_ptr, numpy_dtype(element_type), shape)
        self._feed[self._checked("input", name)] = array

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Read an input at each run from a value on the host."""
        _check_host(ortvalue.device_name())
        self._feed[self._checked("input", name)] = ortvalue.numpy()

    def synchronize_inputs(self) -> None:
        """Nothing: they are on the host."""

    def clear_binding_inputs(self) -> None:
        """Forget the inputs' values."""
        self._feed.clear()

    # ---------------------------------------------------------------------------------- outputs

    def bind_output(
        self,
        name: str,
        device_type: str = CPU,
        device_id: int = 0,
        element_type: DTypeLike | int | None = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
        *,
        layout: str = "native",
        mem_flags: str | int = "cacheable",
    ) -> None:
        """Give an output as a new array, or write it to the memory that `buffer_ptr` points to."""
        _check_host(device_type)
        target = None
        if buffer_ptr is not None:
            dtype = numpy_dtype(np.float32 if element_type is None else element_type)
            target = OrtValue(array_over(buffer_ptr, dtype, shape))
        self._wanted[self._checked("output", name)] = target

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Write an output to a value on the host at each run."""
        _check_host(ortvalue.device_name())
        self._wanted[self._checked("output", name)] = ortvalue

    def synchronize_outputs(self) -> None:
        """Nothing: they are on the host."""

    def clear_binding_outputs(self) -> None:
        """Forget the outputs' values."""
        self._wanted.clear()
        self._results.clear()

    def get_outputs(self) -> list[OrtValue]:
        """The values of the last run in the model's order."""
        return list(self._results.values())

    def copy_outputs_to_cpu(self) -> list[NDArray[Any]]:
        """Copies of the outputs of the last run in the model's order."""
        return [value.numpy().copy() for value in self._results.values()]

    # -------------------------------------------------------------------------------------- rest

    def run(self) -> None:
        """What `InferenceSession.run_with_iobinding` does. Outputs not bound are new arrays."""
        names = [arg.name for arg in self._open_sizes.get_outputs()]
        outputs = self._open_sizes.run(None, self._feed)
        self._results = {
            name: write_out(name, array, self._wanted.get(name))
            for name, array in zip(names, outputs, strict=True)
            if name in self._wanted or not self._wanted
        }

    def close(self) -> None:
        """Nothing is held."""

    def _checked(self, kind: str, name: str) -> str:
        session = self._open_sizes
        args: list[NodeArg] = session.get_inputs() if kind == "input" else session.get_outputs()
        names = [arg.name for arg in args]
        if name not in names:
            raise TensorError(
                f"there is no {kind} {name!r}; the model has {names}: name one of these"
            )
        return name


def _check_host(device_type: str) -> None:
    if device_type != CPU:
        raise OptionError(
            f"memory on {device_type!r} is one network's, and a model of open sizes has one for "
            f"each set of shapes: bind memory of the host ({CPU!r}), or fix the model's sizes with "
            f"SessionOptions.add_free_dimension_override_by_name"
        )
