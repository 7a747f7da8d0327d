"""Runs ONNX models on ONNX Runtime: the soft NPU's default engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...rknn.abi import MAX_DIMS
from ..metadata import Metadata
from . import onnx_bytes
from .program import Instance, LoweredModel, MeasuredLayer, Program, Variant
from .source import ModelSource

try:
    import onnx
    import onnxruntime
except ImportError as error:
    raise ModelError(
        f"the soft NPU needs ONNX Runtime and onnx: pip install 'anynpu[soft]' ({error})"
    ) from error

from .onnx_boundary import Boundary, Terminal, cut, fed_inputs, fix_shapes, shape_sets
from .onnx_layers import lower
from .onnx_profile import profiled_run
from .onnx_weights import fill_removed_weights

_SIGN_BIT = 0x80
_MAX_BYTES = 2**31 - 1
"""Sizes in the C API are 32 bits wide; twice a float32 tensor of this many bytes still fits."""


class OnnxProgram(Program):
    """An ONNX model, cut where the device would begin and end, in one ONNX Runtime session.

    The session is shared: ONNX Runtime lets several threads run it at once.
    """

    framework = "ONNX"

    def __init__(self, source: ModelSource, weights: Program | None = None) -> None:
        self._source = source
        self._weights = weights
        model = self._model()
        metadata = Metadata.parse({entry.key: entry.value for entry in model.metadata_props})
        self.soc = metadata.soc
        self.custom_string = metadata.custom_string
        self.producer = f"{model.producer_name} {model.producer_version}".strip() or "unknown"
        self.input_shapes = shape_sets(model, metadata)
        self._boundary = self._edges(model, metadata)
        self._variants: dict[int, tuple[Boundary, Variant]] = {}
        self._lowered: dict[int, LoweredModel] = {}
        self._lock = threading.Lock()
        _check_sizes(self._with_inputs(0))
        self._session = _open_session(model, _options())
        self.variant(0)

    def variant(self, number: int) -> Variant:
        return self._resolve(number)[1]

    def lowered(self, number: int) -> LoweredModel:
        with self._lock:
            if number not in self._lowered:
                model = self._model()
                names = [info.name for info in fed_inputs(model.graph)]
                fix_shapes(model, dict(zip(names, self.input_shapes[number], strict=True)))
                self._lowered[number] = lower(model)
            return self._lowered[number]

    def instance(self, number: int) -> OnnxInstance:
        return OnnxInstance(self._session, self._resolve(number)[0])

    def profile(self, instance: Instance) -> tuple[MeasuredLayer, ...]:
        assert isinstance(instance, OnnxInstance), "an instance of this program"
        model = self._model()
        metadata = Metadata.parse({entry.key: entry.value for entry in model.metadata_props})
        self._edges(model, metadata)
        return profiled_run(
            lambda options: _open_session(model, options), _options(), instance.feeds()
        )

    def _edges(self, model: onnx.ModelProto, metadata: Metadata) -> Boundary:
        """Where the device begins and ends; may rewrite the model."""
        return cut(model, metadata)

    def _model(self) -> onnx.ModelProto:
        """The model as it is in the file, with removed weights filled in."""
        model = _parse(onnx_bytes(self._source))
        donor = self._weights
        fill_removed_weights(model, donor._model() if isinstance(donor, OnnxProgram) else None)
        return model

    def _with_inputs(self, number: int) -> tuple[Terminal, ...]:
        return tuple(
            replace(terminal, port=replace(terminal.port, shape=shape))
            for terminal, shape in zip(
                self._boundary.inputs, self.input_shapes[number], strict=True
            )
        )

    def _resolve(self, number: int) -> tuple[Boundary, Variant]:
        """The boundary and the ports under a set of shapes; worked out once."""
        with self._lock:
            if number not in self._variants:
                inputs = self._with_inputs(number)
                outputs = _with_shapes(self._session, inputs, self._boundary.outputs)
                self._variants[number] = (
                    Boundary(inputs, outputs),
                    Variant(tuple(t.port for t in inputs), tuple(t.port for t in outputs)),
                )
            return self._variants[number]


class OnnxInstance(Instance):
    """Arrays bound to the session once, so that a run allocates and copies nothing more."""

    def __init__(self, session: onnxruntime.InferenceSession, boundary: Boundary) -> None:
        self._session: onnxruntime.InferenceSession | None = session
        self._binding: Any = session.io_binding()
        self._options = onnxruntime.RunOptions()
        # The default, said aloud: ONNX Runtime 1.32 asks for it at each run, and throws and
        # catches an exception where it isn't there.
        self._options.add_run_config_entry("gpu_graph_id", "0")
        self._names = [terminal.name for terminal in boundary.inputs]
        self._bound_inputs: list[NDArray[Any]] = []
        self._flips_in: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._flips_out: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self.inputs = tuple(self._bind_input(terminal) for terminal in boundary.inputs)
        self.outputs = tuple(self._bind_output(terminal) for terminal in boundary.outputs)

    def _bind_input(self, terminal: Terminal) -> NDArray[Any]:
        array, bound = _arrays(terminal)
        self._binding.bind_ortvalue_input(terminal.name, _ort_value(bound))
        self._bound_inputs.append(bound)
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
        self._flip(self._flips_in)
        # A `cancel` that came after the end of the run before is not meant for this one.
        self._options.terminate = False
        try:
            session.run_with_iobinding(self._binding, self._options)
        except Exception as error:  # ONNX Runtime's errors have no base of their own
            raise ModelError(f"ONNX Runtime: {error}") from error
        self._flip(self._flips_out)

    def cancel(self) -> None:
        self._options.terminate = True

    def feeds(self) -> dict[str, NDArray[Any]]:
        """The inputs as ONNX Runtime takes them, by their names there."""
        self._flip(self._flips_in)
        return dict(zip(self._names, self._bound_inputs, strict=True))

    def close(self) -> None:
        self._session = self._binding = None
        self._flips_in, self._flips_out, self._bound_inputs = [], [], []
        self.inputs = self.outputs = ()

    @staticmethod
    def _flip(pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
        """Where the device has int8 and the model uint8, the sign bit differs."""
        for source, target in pairs:
            np.bitwise_xor(source, _SIGN_BIT, out=target)


def _with_shapes(
    session: onnxruntime.InferenceSession, inputs: Sequence[Terminal], outputs: Sequence[Terminal]
) -> tuple[Terminal, ...]:
    """The outputs with their shapes: as ONNX Runtime infers them, else by computing zeros once."""
    shapes = [tuple(node.shape) for node in session.get_outputs()]
    if not all(isinstance(size, int) for shape in shapes for size in shape):
        shapes = _shapes_by_running(session, inputs)
    resolved = tuple(
        replace(terminal, port=replace(terminal.port, shape=shape))
        for terminal, shape in zip(outputs, shapes, strict=True)
    )
    _check_sizes(resolved)
    return resolved


def _shapes_by_running(
    session: onnxruntime.InferenceSession, inputs: Sequence[Terminal]
) -> list[tuple[int, ...]]:
    feeds = {terminal.name: _arrays(terminal)[1] for terminal in inputs}
    try:
        return [np.shape(output) for output in session.run(None, feeds)]
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise ModelError(f"the shapes of the outputs can't be determined: {error}") from error


def _check_sizes(terminals: Sequence[Terminal]) -> None:
    for port in (terminal.port for terminal in terminals):
        if port.elements * port.carrier.itemsize > _MAX_BYTES or len(port.shape) > MAX_DIMS:
            raise ModelError(f"tensor {port.name!r} of shape {port.shape} is too large for the API")


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


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Without it int8 kernels saturate on x86 processors that lack VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def _open_session(
    model: onnx.ModelProto, options: onnxruntime.SessionOptions
) -> onnxruntime.InferenceSession:
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise ModelError(f"ONNX Runtime can't load the model: {error}") from error
