"""Arrays bound to the sessions of a plan once, so that a run allocates nothing more."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ..program import CustomCall, CustomNode, Instance, MissingOperatorError
from . import runtime as onnxruntime
from .boundary import Boundary, Terminal
from .limits import Limits
from .plan import Cut, Plan, Resolved, Segment
from .sessions import has_run

_SIGN_BIT = np.uint8(0x80)
_Pairs = list[tuple[NDArray[Any], NDArray[Any]]]


class OnnxInstance(Instance):
    """The arrays of one context, for the plan that `cut` leads to."""

    def __init__(
        self,
        cut: Cut,
        plan: Plan,
        resolved: Resolved,
        boundary: Boundary,
        calls: Mapping[int, CustomCall],
        limits: Limits,
    ) -> None:
        self.cut = cut
        self._nodes = resolved.nodes
        self._options = onnxruntime.RunOptions()
        # The default, said aloud: ONNX Runtime 1.32 asks for it at each run, and throws and
        # catches an exception where it isn't there.
        self._options.add_run_config_entry("gpu_graph_id", "0")
        self._watch = limits.watched(self._options)
        self._is_cancelled = False
        self._microseconds: dict[int, int] = {}
        self._arrays: dict[str, NDArray[Any]] = {}
        self._flips_in: _Pairs = []
        self._flips_out: _Pairs = []
        self.inputs = tuple(self._place(terminal, self._flips_in) for terminal in boundary.inputs)
        self.outputs = tuple(
            self._place(terminal, self._flips_out, is_output=True) for terminal in boundary.outputs
        )
        self._adopt(resolved, calls)
        for name, edge in resolved.edges.items():
            if name not in self._arrays:
                self._arrays[name] = np.zeros(edge.shape, edge.dtype)
        for name, constant in plan.constants.items():
            np.copyto(self._arrays[name], constant)
        missing = [node.op_type for index, node in self._nodes.items() if index not in calls]
        self._missing = list(dict.fromkeys(missing))
        self._steps: list[_BoundSession | _BoundCall] | None = [
            self._bind_session(step)
            if isinstance(step, Segment)
            else self._bind_call(resolved.nodes[step], calls[step])
            for step in plan.steps
            if isinstance(step, Segment) or step in calls
        ]

    def _place(self, terminal: Terminal, flips: _Pairs, *, is_output: bool = False) -> NDArray[Any]:
        """The array that the device sees; ONNX Runtime mostly sees the same one."""
        array = np.zeros(terminal.port.shape, terminal.port.carrier)
        bound = np.zeros(array.shape, bound_dtype(terminal)) if terminal.is_unsigned else array
        self._arrays[terminal.name] = bound
        if bound is not array:
            seen = array.view(np.uint8)
            flips.append((bound, seen) if is_output else (seen, bound))
        return array

    def _adopt(self, resolved: Resolved, calls: Mapping[int, CustomCall]) -> None:
        """Let sessions work on the arrays of custom nodes, where they have the same dtype."""
        for index, call in calls.items():
            node = resolved.nodes[index]
            for port, array in zip(
                (*node.inputs, *node.outputs), (*call.inputs, *call.outputs), strict=True
            ):
                if array.dtype == resolved.edges[port.name].dtype:
                    self._arrays.setdefault(port.name, array)

    def _bind_session(self, segment: Segment) -> _BoundSession:
        binding: Any = segment.session.io_binding()
        for name in segment.inputs:
            binding.bind_ortvalue_input(name, _ort_value(self._arrays[name]))
        for name in segment.outputs:
            binding.bind_ortvalue_output(name, _ort_value(self._arrays[name]))
        return _BoundSession(segment.session, binding, self._options)

    def _bind_call(self, node: CustomNode, call: CustomCall) -> _BoundCall:
        taken = zip(node.inputs, call.inputs, strict=True)
        made = zip(node.outputs, call.outputs, strict=True)
        return _BoundCall(
            node.index,
            call,
            [(self._arrays[port.name], array) for port, array in taken],
            [(array, self._arrays[port.name]) for port, array in made],
        )

    def run(self) -> None:
        steps = self._steps
        assert steps is not None, "run after close"
        if self._missing:
            raise MissingOperatorError(self._missing)
        self._flip(self._flips_in)
        # A `cancel` that came after the end of the run before is not meant for this one.
        self._options.terminate = self._is_cancelled = False
        with self._watch.run():
            for step in steps:
                if self._is_cancelled:
                    raise ModelError("the run was cancelled")
                start = time.perf_counter()
                step.run()
                if isinstance(step, _BoundCall):
                    self._microseconds[step.index] = round((time.perf_counter() - start) * 1e6)
        self._flip(self._flips_out)

    def cancel(self) -> None:
        self._is_cancelled = True
        self._options.terminate = True

    def feeds(self) -> dict[str, NDArray[Any]]:
        """Every array by its tensor's name in the model as ONNX Runtime runs it."""
        self._flip(self._flips_in)
        return self._arrays

    def custom_time(self, index: int) -> tuple[CustomNode, int]:
        """A custom node, and the microseconds that it took in the last run."""
        return self._nodes[index], self._microseconds.get(index, 0)

    def close(self) -> None:
        self._steps = None
        self._arrays = {}
        self._flips_in, self._flips_out = [], []
        self.inputs = self.outputs = ()

    @staticmethod
    def _flip(pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
        """Where the device has int8 and the model uint8, the sign bit differs."""
        for source, target in pairs:
            np.bitwise_xor(source, _SIGN_BIT, out=target)


class _BoundSession:
    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        binding: Any,
        options: onnxruntime.RunOptions,
    ) -> None:
        self._session, self._binding, self._options = session, binding, options

    def run(self) -> None:
        try:
            self._session.run_with_iobinding(self._binding, self._options)
            has_run(self._session)
        except Exception as error:  # ONNX Runtime's errors have no base of their own
            raise ModelError(f"ONNX Runtime: {error}") from error


class _BoundCall:
    """A custom node, and what has to be converted or copied before it and after."""

    def __init__(self, index: int, call: CustomCall, before: _Pairs, after: _Pairs) -> None:
        self.index = index
        self._call = call
        self._before = [(source, target) for source, target in before if source is not target]
        self._after = [(source, target) for source, target in after if source is not target]

    def run(self) -> None:
        for source, target in self._before:
            np.copyto(target, source, casting="unsafe")
        self._call.run()
        for source, target in self._after:
            np.copyto(target, source, casting="unsafe")


def bound_dtype(terminal: Terminal) -> np.dtype[Any]:
    """The dtype that ONNX Runtime sees of an input or output."""
    return np.dtype(np.uint8) if terminal.is_unsigned else terminal.port.carrier


def _ort_value(array: NDArray[Any]) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "cpu", 0)
