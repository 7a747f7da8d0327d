"""A node of a model that a registered operator computes: its callbacks and what they get."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...rknn.abi import CustomOpContext, CustomOpTensor, ErrorCode, TargetType
from ...tensor import DType
from ..engines import CustomCall, CustomNode
from . import log
from .contexts import Context
from .custom_ops_opencl import Kernel, KernelSource
from .custom_ops_tensors import CustomTensor, structures
from .failure import Failure

Callback = Callable[..., int]
_NAME = "name"
"""The attribute that every node has: what it is called in the model."""


@dataclass(frozen=True)
class Operator:
    """What a program registered; callbacks that it left out are None."""

    op_type: str
    target: TargetType
    compute: Callback
    init: Callback | None
    prepare: Callback | None
    destroy: Callback | None
    kernel: KernelSource | None


class NodeCall(CustomCall):
    """One node under a registered operator, from the operator's init to its destroy.

    Callbacks are called without the GIL, by the thread that registers, runs or destroys.
    """

    def __init__(
        self,
        ctx: Context,
        node: CustomNode,
        operator: Operator,
        inputs: Sequence[CustomTensor],
        outputs: Sequence[CustomTensor],
    ) -> None:
        self.node = node
        self._ctx = ctx
        self._operator = operator
        self._tensors = (*inputs, *outputs)
        self.inputs = tuple(tensor.array for tensor in inputs)
        self.outputs = tuple(tensor.array for tensor in outputs)
        self.values = _values(node)
        self._kernel = Kernel(operator.kernel) if operator.kernel else None
        self._handle = next(_handles)
        self._shown = _Shown(inputs, outputs)
        self._structure = CustomOpContext()
        self._is_live = False

    def init(self) -> bool:
        """Call the operator's init; False where it leaves the node to the runtime's own."""
        callback = self._operator.init
        _nodes[self._handle] = self
        try:
            code = self._call(callback) if callback else 0
            if code != ErrorCode.SKIP_CUSTOM_OP_COMPUTE:
                self._check("init", code)
                self._is_live = True
        finally:
            if not self._is_live:
                del _nodes[self._handle]
        return self._is_live

    def run(self) -> None:
        if self._operator.prepare is not None:
            self._check("prepare", self._call(self._operator.prepare))
        self._check("compute", self._call(self._operator.compute))

    def destroy(self) -> None:
        """Call the operator's destroy, once; not where its init did not succeed."""
        if not self._is_live:
            return
        self._is_live = False
        callback = self._operator.destroy
        if callback is not None:
            with self._calling():
                code = callback(ctypes.byref(self._context()))
            if code:
                log.warning(f"{self._describe('destroy')} returned {code}")
        del _nodes[self._handle]

    def _call(self, callback: Callback) -> int:
        inputs, outputs = self._shown.fresh()
        context = self._context()
        with self._calling():
            return callback(ctypes.byref(context), inputs, len(inputs), outputs, len(outputs))

    def _context(self) -> CustomOpContext:
        """The structure with what the runtime has put into it; `priv_data` is the operator's."""
        context = self._structure
        context.target = self._operator.target
        context.internal_ctx = self._handle
        if self._kernel is not None:
            context.gpu_ctx = self._kernel.structure
        return context

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """While it lasts, the context refuses calls that would change what is being run."""
        self._ctx.callback_thread = threading.get_ident()
        try:
            yield
        finally:
            self._ctx.callback_thread = None

    def _check(self, callback: str, code: int) -> None:
        who = self._describe(callback)
        if code:
            raise Failure(ErrorCode.FAIL, f"{who} returned {code}")
        for tensor in self._tensors:
            tensor.check(who)

    def _describe(self, callback: str) -> str:
        return f"custom op {self._operator.op_type}, node {self.node.name}: {callback}"


class _Shown:
    """The structures that callbacks get: the same each time, whatever a callback did to them."""

    def __init__(self, inputs: Sequence[CustomTensor], outputs: Sequence[CustomTensor]) -> None:
        self._pairs = [(structures(tensors), structures(tensors)) for tensors in (inputs, outputs)]

    def fresh(self) -> tuple[ctypes.Array[CustomOpTensor], ctypes.Array[CustomOpTensor]]:
        for shown, original in self._pairs:
            ctypes.memmove(shown, original, ctypes.sizeof(original))
        return self._pairs[0][0], self._pairs[1][0]


_nodes: dict[int, NodeCall] = {}
_handles = itertools.count(1)


def find(handle: int) -> NodeCall | None:
    """The node behind an `internal_ctx`, None for one that isn't alive."""
    return _nodes.get(handle)


def _values(node: CustomNode) -> Mapping[str, NDArray[Any]]:
    """The node's attributes in memory that C may read; a text ends with a zero besides."""
    name = np.frombuffer(node.name.encode(), np.uint8)
    found = {_NAME: name, **node.attributes}
    return {key: converted for key, values in found.items() for converted in _for_c(values)}


def _for_c(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    if values.dtype.kind == "f" and values.dtype.itemsize > 4:
        values = values.astype(np.float32)
    if DType.from_numpy(values.dtype) is not None:
        ended = np.zeros(values.size + 1, values.dtype)
        ended[:-1] = values
        yield ended[:-1]
