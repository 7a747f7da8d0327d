"""`SessionIOBinding`: which memory a run reads and writes, with ONNX Runtime's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import feeds
from ..errors import OptionError, TensorError
from ..lifetime import Closeable
from ..tensor import Layout
from .ort_value import CPU, OrtValue, array_over, numpy_dtype

if TYPE_CHECKING:
    from .inference_session import InferenceSession


_AXES = {(Layout.NCHW, Layout.NHWC): (0, 2, 3, 1), (Layout.NHWC, Layout.NCHW): (0, 3, 1, 2)}


class SessionIOBinding(Closeable):
    """Inputs and outputs bound once, for many calls of `InferenceSession.run_with_iobinding`.

    It has a context of its own on the session's weights, so that runs of other threads go on. One
    thread at a time. It closes with its last reference.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._binding = session.network.new_binding()
        self._inputs: dict[int, OrtValue] = {}
        self._outputs: dict[int, OrtValue] = {}
        self._host_outputs: set[int] = set()
        self._sources: dict[int, NDArray[Any]] = {}
        self._targets: dict[int, OrtValue] = {}
        self._hosts: dict[tuple[int, str], OrtValue] = {}

    # ----------------------------------------------------------------------------------- inputs

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Copy an array to memory of the device's; images as `InferenceSession.run` takes them.

        Real values are uint8 or float32, to which others are converted.
        """
        index = self._session.index_of("input", name)
        self._sources.pop(index, None)
        self._copy_in(index, arr_on_cpu)

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: DTypeLike | int,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Read an input at each run from memory of the host's, which `buffer_ptr` points to.

        What lies there is copied to the device, and has to stay there until another is bound.
        """
        if device_type != CPU:
            raise OptionError("bind device memory as an OrtValue: bind_ortvalue_input")
        index = self._session.index_of("input", name)
        self._read_from(index, array_over(buffer_ptr, numpy_dtype(element_type), shape))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Read an input from a value's memory at each run; one on the host is copied then."""
        index = self._session.index_of("input", name)
        if ortvalue.buffer is None:
            self._read_from(index, ortvalue.numpy())
            return
        _check_place(ortvalue, "input", index, name)
        self._sources.pop(index, None)
        self._bind_input(index, ortvalue)

    def synchronize_inputs(self) -> None:
        """What was written to the inputs' memory is for the device."""
        for value in self._inputs.values():
            value.sync_to_device()

    def clear_binding_inputs(self) -> None:
        """Forget the inputs' values."""
        self._inputs.clear()
        self._sources.clear()

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
        """Write an output to new memory: on the host as float32 in the model's order.

        On the device, as the device has it or in the `element_type` asked for. With `buffer_ptr` it
        is written to that memory of the host's at each run, of the `shape` and `element_type`.
        """
        if buffer_ptr is not None:
            if device_type != CPU:
                raise OptionError("bind device memory as an OrtValue: bind_ortvalue_output")
            dtype = numpy_dtype(np.float32 if element_type is None else element_type)
            own = array_over(buffer_ptr, dtype, shape)
            self.bind_ortvalue_output(name, OrtValue(own))
            return
        index = self._session.index_of("output", name)
        if element_type is None and device_type == CPU:
            element_type = self._session.network.outputs[index].host_dtype.numpy
        value = OrtValue.ortvalue_from_shape_and_type(
            shape,
            element_type,
            self._session.device_type,
            device_id,
            name=name,
            session=self._session,
            io_kind="output",
            mem_flags=mem_flags,
        )
        self.bind_ortvalue_output(name, value)
        if device_type == CPU:
            self._host_outputs.add(index)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Write an output to a value's memory at each run.

        A value on the host gets what the device wrote converted to its dtype, in the model's order.
        """
        index = self._session.index_of("output", name)
        if ortvalue.buffer is None:
            info = self._session.network.logical_outputs[index]
            check_target(name, info.shape, info.host_dtype.numpy, ortvalue)
            self.bind_output(name)
            self._targets[index] = ortvalue
            return
        self._targets.pop(index, None)
        _check_place(ortvalue, "output", index, name)
        self._binding.bind("output", index, ortvalue.buffer)
        self._outputs[index] = ortvalue
        self._host_outputs.discard(index)

    def synchronize_outputs(self) -> None:
        """What the device wrote to the outputs' memory is for here."""
        for value in self._outputs.values():
            value.sync_from_device()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs' values."""
        self._outputs.clear()
        self._host_outputs.clear()
        self._targets.clear()

    def get_outputs(self) -> list[OrtValue]:
        """The outputs' values in the model's order; new ones for the host are copies."""
        return [
            self._targets[index]
            if index in self._targets
            else OrtValue(value.numpy().copy())
            if index in self._host_outputs
            else value
            for index, value in sorted(self._outputs.items())
        ]

    def copy_outputs_to_cpu(self) -> list[NDArray[Any]]:
        """Copies of the outputs in the model's order, as their memory has them."""
        self.synchronize_outputs()
        return [value.numpy().copy() for _, value in sorted(self._outputs.items())]

    # -------------------------------------------------------------------------------------- rest

    def run(self) -> None:
        """What `InferenceSession.run_with_iobinding` does. Outputs not bound go to the host."""
        for index, info in enumerate(self._session.network.outputs):
            if index not in self._outputs:
                self.bind_output(info.name)
        for index, array in self._sources.items():
            self._copy_in(index, array)
        self._binding.run()
        for index, target in self._targets.items():
            self._outputs[index].sync_from_device()
            name = self._session.network.outputs[index].name
            write_out(name, self._outputs[index].numpy(), target)

    def close(self) -> None:
        """Free the context; twice does nothing. Values stay valid."""
        self._binding.close()

    def _read_from(self, index: int, array: NDArray[Any]) -> None:
        """Read an input from an array at each run; now as well, to see whether it fits."""
        self._copy_in(index, array)
        self._sources[index] = array

    def _copy_in(self, index: int, given: Any) -> None:
        """Copy an array to memory of the device's, which is bound."""
        info = self._session.network.inputs[index]
        array = feeds.as_array(given, info)
        feeds.check_shape(array, info.shape, info)
        if info.is_real and array.dtype != np.uint8:
            array = array.astype(np.float32, copy=False)
        value = self._host_input(info.name, index, array.dtype)
        np.copyto(value.numpy(), _arranged(array, info.layout, value))
        value.sync_to_device()
        if self._inputs.get(index) is not value:
            self._bind_input(index, value)

    def _bind_input(self, index: int, value: OrtValue) -> None:
        assert value.buffer is not None, "it is on the device"
        self._binding.bind("input", index, value.buffer)
        self._inputs[index] = value

    def _host_input(self, name: str, index: int, dtype: np.dtype[Any]) -> OrtValue:
        """Memory of our own for arrays of a dtype, kept for the next ones."""
        key = (index, dtype.name)
        if key not in self._hosts:
            self._hosts[key] = OrtValue.ortvalue_from_shape_and_type(
                None,
                dtype,
                self._session.device_type,
                name=name,
                session=self._session,
                io_kind="input",
            )
        return self._hosts[key]


def _arranged(array: NDArray[Any], layout: Layout, value: OrtValue) -> NDArray[Any]:
    """An image in the order of axes that the device's memory has, which is the vendor's own."""
    there = value.buffer.info.layout if value.buffer is not None else layout
    axes = _AXES.get((layout, there))
    return array if axes is None else np.transpose(array, axes)


def _check_place(value: OrtValue, kind: str, index: int, name: str) -> None:
    if value.place != (kind, index):
        raise TensorError(
            f"{kind} {name!r} needs memory made for it; found a value whose memory was made for "
            f"{value.place[0]} {value.place[1]}: make one with io_kind={kind!r}, name={name!r}"
        )


def write_out(name: str, found: NDArray[Any], target: OrtValue | None) -> OrtValue:
    """An output as a value on the host: a new one, or a `target` that it is copied to.

    Raises `TensorError` as `check_target` does.
    """
    if target is None:
        return OrtValue(found)
    check_target(name, found.shape, found.dtype, target)
    np.copyto(target.numpy(), found, casting="same_kind")
    return target


def check_target(name: str, shape: Sequence[int], dtype: np.dtype[Any], target: OrtValue) -> None:
    """Raise `TensorError` where an output can't be written to a value on the host.

    Real values may be of another width there.
    """
    own = target.numpy().dtype
    if target.shape() != list(shape) or (own != dtype and (own.kind, dtype.kind) != ("f", "f")):
        raise TensorError(
            f"output {name!r} is {dtype} {tuple(shape)}; it was bound to a value of {own} "
            f"{tuple(target.shape())}: bind one that fits"
        )
