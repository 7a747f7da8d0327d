"""Runs ONNX models on ONNX Runtime: the soft NPU's default engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...rknn.abi import MAX_DIMS
from ..metadata import Metadata
from .program import Instance, Program

try:
    import onnx
    import onnxruntime
except ImportError as error:
    raise ModelError(
        f"the soft NPU needs ONNX Runtime and onnx: pip install 'anynpu[soft]' ({error})"
    ) from error

from .onnx_boundary import Boundary, Terminal, cut

_SIGN_BIT = 0x80
_MAX_BYTES = 2**31 - 1
"""Sizes in the C API are 32 bits wide; twice a float32 tensor of this many bytes still fits."""


class OnnxProgram(Program):
    """An ONNX model, cut where the device would begin and end, in one ONNX Runtime session.

    The session is shared: ONNX Runtime lets several threads run it at once.
    """

    framework = "ONNX"

    def __init__(self, data: bytes) -> None:
        model = _parse(data)
        metadata = Metadata.parse({entry.key: entry.value for entry in model.metadata_props})
        self.soc = metadata.soc
        self.custom_string = metadata.custom_string
        self.producer = f"{model.producer_name} {model.producer_version}".strip() or "unknown"
        boundary = cut(model, metadata)
        _check_sizes(boundary.inputs)
        self._session = _open_session(model)
        self._inputs = boundary.inputs
        self._outputs = _with_shapes(self._session, boundary)
        self.inputs = tuple(terminal.port for terminal in self._inputs)
        self.outputs = tuple(terminal.port for terminal in self._outputs)

    def instance(self) -> OnnxInstance:
        return OnnxInstance(self._session, self._inputs, self._outputs)


class OnnxInstance(Instance):
    """Arrays bound to the session once, so that a run allocates and copies nothing more."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        inputs: Sequence[Terminal],
        outputs: Sequence[Terminal],
    ) -> None:
        self._session: onnxruntime.InferenceSession | None = session
        self._binding: Any = session.io_binding()
        self._flips_in: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._flips_out: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self.inputs = tuple(self._bind_input(terminal) for terminal in inputs)
        self.outputs = tuple(self._bind_output(terminal) for terminal in outputs)

    def _bind_input(self, terminal: Terminal) -> NDArray[Any]:
        array, bound = _arrays(terminal)
        self._binding.bind_ortvalue_input(terminal.name, _ort_value(bound))
        if bound is not array:
            self._flips_in.append((array.view(np.uint8), bound))
        return array

    def _bind_output(self, terminal: Terminal) -> NDArray[Any]:
        array, bound = _arrays(terminal)
        self._binding.bind_ortvalue_output(terminal.name, _ort_value(bound))
        if bound is not array:
            self._flips_out.append((bound, array.view(np.uint8)))
        return array

    def run(self) -> None:
        session = self._session
        assert session is not None, "run after close"
        for source, target in self._flips_in:
            np.bitwise_xor(source, _SIGN_BIT, out=target)
        try:
            session.run_with_iobinding(self._binding)
        except Exception as error:  # ONNX Runtime's errors have no base of their own
            raise ModelError(f"ONNX Runtime: {error}") from error
        for source, target in self._flips_out:
            np.bitwise_xor(source, _SIGN_BIT, out=target)

    def close(self) -> None:
        self._session = self._binding = None
        self._flips_in = self._flips_out = []
        self.inputs = self.outputs = ()


def _with_shapes(session: onnxruntime.InferenceSession, boundary: Boundary) -> tuple[Terminal, ...]:
    """The outputs with their shapes: as ONNX Runtime infers them, else by computing zeros once."""
    shapes = [tuple(node.shape) for node in session.get_outputs()]
    if not all(isinstance(size, int) for shape in shapes for size in shape):
        shapes = _shapes_by_running(session, boundary.inputs)
    outputs = tuple(
        replace(terminal, port=replace(terminal.port, shape=shape))
        for terminal, shape in zip(boundary.outputs, shapes, strict=True)
    )
    _check_sizes(outputs)
    return outputs


def _check_sizes(terminals: Sequence[Terminal]) -> None:
    for port in (terminal.port for terminal in terminals):
        if port.elements * port.carrier.itemsize > _MAX_BYTES or len(port.shape) > MAX_DIMS:
            raise ModelError(f"tensor {port.name!r} of shape {port.shape} is too large for the API")


def _shapes_by_running(
    session: onnxruntime.InferenceSession, inputs: Sequence[Terminal]
) -> list[tuple[int, ...]]:
    feeds = {terminal.name: _arrays(terminal)[1] for terminal in inputs}
    try:
        return [np.shape(output) for output in session.run(None, feeds)]
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise ModelError(f"the shapes of the outputs can't be determined: {error}") from error


def _arrays(terminal: Terminal) -> tuple[NDArray[Any], NDArray[Any]]:
    """(the array that the device sees, the array that ONNX Runtime sees), mostly the same one."""
    port = terminal.port
    array = np.zeros(port.shape, port.carrier)
    return array, (np.zeros(port.shape, np.uint8) if terminal.is_unsigned else array)


def _ort_value(array: NDArray[Any]) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "cpu", 0)


def _parse(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError has moved between versions
        raise ModelError(
            f"neither an ONNX file nor a .rknn file ({len(data)} bytes): {error}"
        ) from None
    if not model.graph.node:
        raise ModelError(
            f"neither an ONNX file nor a .rknn file ({len(data)} bytes): no nodes in it"
        )
    return model


def _open_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Without it int8 kernels saturate on x86 processors that lack VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise ModelError(f"ONNX Runtime can't load the model: {error}") from error
