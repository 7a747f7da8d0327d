"""Runs ONNX models on ONNX Runtime: the soft NPU's default engine."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial

from ....errors import ModelError
from ....rknn.abi import MAX_DIMS
from ...build.metadata import Metadata
from ..program import (
    NOT_CUSTOMIZED,
    Customization,
    CustomNode,
    Instance,
    LoweredModel,
    MeasuredLayer,
    Port,
    Program,
    Variant,
)
from ..source import ModelSource
from .file import onnx_bytes, onnx_path

try:
    import onnx

    from . import runtime as onnxruntime
except ImportError as error:
    raise ModelError(
        f"the soft NPU needs ONNX Runtime and onnx: pip install 'anynpu[soft]' ({error})"
    ) from error

from .boundary import Boundary, Terminal, cut, fed_inputs, fix_shapes, shape_sets
from .custom import NOTHING, Edge, Knowledge, knowledge, node_keys, use_builtin
from .external import take_in
from .form import check_form
from .instance import OnnxInstance, bound_dtype
from .layers import lower
from .limits import Limits
from .plan import Cut, Plan, Resolved, step_models
from .profile import custom_layer, profiled_run
from .sessions import open_session
from .trials import has_branches
from .weights import fill_removed_weights

_MAX_BYTES = 2**31 - 1
"""Sizes in the C API are 32 bits wide; twice a float32 tensor of this many bytes still fits."""


class OnnxProgram(Program):
    """An ONNX model, cut where the device would begin and end, and at custom operators.

    Sessions are shared: ONNX Runtime lets several threads run one at once.
    """

    framework = "ONNX"

    def __init__(self, source: ModelSource, weights: Program | None = None) -> None:
        self._source = source
        self._weights = weights
        model = self._model()
        check_form(model)
        metadata = Metadata.parse({entry.key: entry.value for entry in model.metadata_props})
        self.soc = metadata.soc
        self.custom_string = metadata.custom_string
        self.producer = f"{model.producer_name} {model.producer_version}".strip() or "unknown"
        self.input_shapes = shape_sets(model, metadata)
        self._input_names = [info.name for info in fed_inputs(model.graph)]
        self._limits = Limits(model)
        self._check_limits(self.largest)
        self._keeps_sizes_open = False
        self._boundary = self._boundary_of(model, metadata)
        self._keys = node_keys(model)
        self._as_it_is = Cut(frozenset(key.index for key in self._keys if key.is_foreign))
        self._variants: dict[int, tuple[Boundary, Variant]] = {}
        self._lowered: dict[int, LoweredModel] = {}
        self._plans: dict[Cut, Plan] = {}
        self._resolved: dict[tuple[Cut, int], Resolved] = {}
        self._lock = threading.RLock()
        _check_sizes(terminal.port for terminal in self._with_inputs(self.largest))
        try:
            self._plan(self._as_it_is, model)
        except ModelError:
            # A branch that isn't taken may not fit the sizes that another one is for.
            if not (metadata.shapes and has_branches(model)):
                raise
            self._keeps_sizes_open = True
            self._plan(self._as_it_is, self._cut_model())
        self.variant(self.largest)

    def variant(self, number: int) -> Variant:
        return self._resolve(number)[1]

    def lowered(self, number: int) -> LoweredModel:
        with self._lock:
            if number not in self._lowered:
                model = self._model()
                fix_shapes(model, self._shapes(number))
                self._lowered[number] = lower(model)
            return self._lowered[number]

    def custom_nodes(self, number: int, op_types: Collection[str] = ()) -> tuple[CustomNode, ...]:
        wanted = {key.index for key in self._keys if key.op_type in op_types}
        nodes = self._resolution(Cut(self._as_it_is.taken | wanted), number).nodes
        return tuple(nodes.values())

    def instance(self, number: int, custom: Customization = NOT_CUSTOMIZED) -> OnnxInstance:
        taken = (self._as_it_is.taken | set(custom.calls)) - custom.builtin
        chosen = Cut(taken, custom.builtin & self._as_it_is.taken)
        resolved = self._resolution(chosen, number)
        boundary = self._resolve(number)[0]
        plan = self._plans[chosen]
        return OnnxInstance(chosen, plan, resolved, boundary, custom.calls, self._limits)

    def profile(self, instance: Instance) -> tuple[MeasuredLayer, ...]:
        assert isinstance(instance, OnnxInstance), "an instance of this program"
        chosen, arrays = instance.cut, instance.feeds()
        model = self._cut_model()
        use_builtin(model, chosen.builtin)
        edges = {name: Edge(array.dtype, array.shape) for name, array in arrays.items()}
        layers: list[MeasuredLayer] = []
        for step in step_models(model, chosen.taken, edges):
            if isinstance(step, int):
                layers.append(custom_layer(*instance.custom_time(step)))
            else:
                names = [info.name for info in step.graph.input if info.name in arrays]
                feeds = {name: arrays[name] for name in names}
                open_session = partial(_open_session, step)
                layers += profiled_run(open_session, _options(), feeds, self._limits)
        return tuple(layers)

    def _boundary_of(self, model: onnx.ModelProto, metadata: Metadata) -> Boundary:
        """Where the device begins and ends; may rewrite the model."""
        return cut(model, metadata, keeps_sizes_open=self._keeps_sizes_open)

    def _model(self) -> onnx.ModelProto:
        """The model as it is in the file, with removed weights filled in."""
        model = _parse(onnx_bytes(self._source))
        take_in(model, onnx_path(self._source))
        donor = self._weights
        fill_removed_weights(model, donor._model() if isinstance(donor, OnnxProgram) else None)
        return model

    def _cut_model(self) -> onnx.ModelProto:
        model = self._model()
        metadata = Metadata.parse({entry.key: entry.value for entry in model.metadata_props})
        self._boundary_of(model, metadata)
        return model

    def _shapes(self, number: int) -> dict[str, tuple[int, ...]]:
        return dict(zip(self._input_names, self.input_shapes[number], strict=True))

    def _check_limits(self, number: int) -> None:
        """Raise `ModelError` where a set of shapes asks for too much."""
        self._limits.check(lambda light: fix_shapes(light, self._shapes(number)))

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
                if number != self.largest:
                    self._check_limits(number)
                inputs = self._with_inputs(number)
                edges = self._resolution(self._as_it_is, number).edges
                outputs = tuple(
                    replace(terminal, port=replace(terminal.port, shape=edges[terminal.name].shape))
                    for terminal in self._boundary.outputs
                )
                _check_sizes(terminal.port for terminal in outputs)
                self._variants[number] = (
                    Boundary(inputs, outputs),
                    Variant(tuple(t.port for t in inputs), tuple(t.port for t in outputs)),
                )
            return self._variants[number]

    def _plan(self, chosen: Cut, model: onnx.ModelProto) -> Plan:
        """The sessions for a choice of nodes; `model` is cut already, and may be changed."""
        use_builtin(model, chosen.builtin)
        self._plans[chosen] = Plan(
            model,
            [key for key in self._keys if key.index in chosen.taken],
            self._edges(self.largest),
            self._knowledge(chosen, self.largest),
            lambda part: _open_session(part, _options()),
            self._limits,
            has_fixed_shapes=len(self.input_shapes) == 1 and not self._keeps_sizes_open,
        )
        return self._plans[chosen]

    def _resolution(self, chosen: Cut, number: int) -> Resolved:
        with self._lock:
            if (chosen, number) not in self._resolved:
                plan = self._plans.get(chosen) or self._plan(chosen, self._cut_model())
                resolved = plan.resolve(self._edges(number), self._knowledge(chosen, number))
                for node in resolved.nodes.values():
                    _check_sizes((*node.inputs, *node.outputs))
                self._resolved[chosen, number] = resolved
            return self._resolved[chosen, number]

    def _edges(self, number: int) -> dict[str, Edge]:
        """The inputs as ONNX Runtime has them."""
        return {
            terminal.name: Edge(bound_dtype(terminal), terminal.port.shape)
            for terminal in self._with_inputs(number)
        }

    def _knowledge(self, chosen: Cut, number: int) -> Knowledge:
        """What is known of the tensors at nodes that are taken."""
        if not chosen.taken:
            return NOTHING
        # The cut model has other nodes; what a node makes is called the same there.
        keys = [key for key in self._keys if key.index in chosen.taken]
        known = knowledge(self._model(), keys, self._shapes(number))
        at_edge = {
            terminal.name: terminal.bound_quantization
            for terminal in self._boundary.inputs
            if terminal.bound_quantization is not None
        }
        return replace(known, quantizations={**known.quantizations, **at_edge})


def _check_sizes(ports: Iterable[Port]) -> None:
    for port in ports:
        if any(size < 0 for size in port.shape):
            raise ModelError(f"tensor {port.name!r} has the shape {port.shape}")
        if port.elements * port.carrier.itemsize > _MAX_BYTES or len(port.shape) > MAX_DIMS:
            raise ModelError(f"tensor {port.name!r} of shape {port.shape} is too large for the API")


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
        operators = {node.op_type for node in model.graph.node}
        return open_session(model.SerializeToString(), options, operators)
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise ModelError(f"ONNX Runtime can't load the model: {error}") from error
