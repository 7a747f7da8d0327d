"""Custom operators written in Python: from C callbacks to functions and classes on NumPy arrays."""

from __future__ import annotations

import _thread
import ctypes
import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StateError, TensorError
from ..tensor import DType
from . import abi
from .library import RknnLibrary

Arrays = tuple[NDArray[Any], ...]

_log = logging.getLogger("anynpu.rknn")
_tokens = itertools.count(1)
_REDELIVERY_DELAY = 0.001


class UseBuiltin(Exception):
    """Raised by a custom operator's `__init__`: the runtime's operator of this name computes."""


class CustomOpNode:
    """The node of a model that a custom operator is called for.

    Valid during the call that it is given to; attributes that were read once can be read later.
    """

    def __init__(self, library: RknnLibrary) -> None:
        self._library = library
        self._context: Any = None
        self._attributes: dict[str, Any] = {}

    @contextmanager
    def called_with(self, context: Any) -> Iterator[None]:
        """While it lasts, attributes can be read: `context` is what the callback got."""
        self._context = context
        try:
            yield
        finally:
            self._context = None

    @property
    def name(self) -> str:
        """What the node is called in the model."""
        return str(self.attribute("name", ""))

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as a number, a text, or an array of several numbers, which is a copy.

        `default` where the node has no such attribute: rknn_custom_op_get_op_attr, section 4.7.2.
        """
        if name not in self._attributes:
            if self._context is None:
                raise StateError(
                    f"attribute {name!r} can be read inside of an operator's call only"
                )
            found = abi.CustomOpAttr()
            self._library.rknn_custom_op_get_op_attr(
                self._context, name.encode(), ctypes.byref(found)
            )
            self._attributes[name] = _attribute_value(found)
        value = self._attributes[name]
        return default if value is None else value


def _attribute_value(found: abi.CustomOpAttr) -> Any:
    if not found.n_elems or not found.data:
        return None
    dtype = DType[abi.TensorType(found.dtype).name].numpy
    values = _view(found.data, dtype, (found.n_elems,)).copy()
    if dtype == np.uint8:
        return values.tobytes().rstrip(b"\0").decode(errors="replace")
    return values[0].item() if values.size == 1 else values


class _Views:
    """The tensors that a node's callbacks get, as arrays on their memory.

    They are made anew when the runtime passes other structures than before, which is rare.
    """

    def __init__(self, *, is_output: bool) -> None:
        self._is_output = is_output
        self._structures = b""
        self._arrays: Arrays = ()

    def get(self, tensors: Any, count: int) -> Arrays:
        """The arrays; inputs can't be written to."""
        if not count:
            return ()
        size = count * ctypes.sizeof(abi.CustomOpTensor)
        structures = ctypes.string_at(tensors, size)
        if structures != self._structures:
            self._arrays = tuple(_array(tensors[index]) for index in range(count))
            for array in self._arrays:
                array.flags.writeable = self._is_output
            self._structures = structures
        return self._arrays


@dataclass
class _Node:
    """What is kept of one node between its callbacks."""

    node: CustomOpNode
    inputs: _Views
    outputs: _Views
    instance: Any = None


def _array(tensor: abi.CustomOpTensor) -> NDArray[Any]:
    attr, mem = tensor.attr, tensor.mem
    kind = abi.TensorType(attr.type)
    if kind in (abi.TensorType.INT4, abi.TensorType.BFLOAT16):
        raise TensorError(f"tensor {attr.name.decode()!r} is {kind.name}, which NumPy doesn't have")
    shape = tuple(attr.dims[: attr.n_dims])
    return _view((mem.virt_addr or 0) + mem.offset, DType[kind.name].numpy, shape)


def _view(address: int, dtype: np.dtype[Any], shape: Sequence[int]) -> NDArray[Any]:
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_uint8 * size).from_address(address)
    values: NDArray[Any] = np.ndarray(shape, dtype, memory)  # type: ignore[arg-type]
    return values


class PythonCallbacks:
    """The C callbacks of one operator; they live as long as this object.

    `make(node, inputs, outputs)` gives the object whose `prepare`, `compute` and `destroy` are
    called for one node. Contexts call from any of their threads, each node from one at a time.
    `failure` is the last exception that ended a call.
    """

    def __init__(self, op_type: str, make: Callable[..., Any], library: RknnLibrary) -> None:
        self._op_type = op_type
        self._make = make
        self._library = library
        self.failure: BaseException | None = None
        self._nodes: dict[int, _Node] = {}
        self.init = abi.CustomOpCallback(self._guarded("init", self._init))
        self.prepare = abi.CustomOpCallback(self._guarded("prepare", self._call("prepare")))
        self.compute = abi.CustomOpCallback(self._guarded("compute", self._call("compute")))
        self.destroy = abi.CustomOpDestroyCallback(self._guarded("destroy", self._destroy))

    def _guarded(self, callback: str, function: Callable[..., None]) -> Callable[..., int]:
        """No exception may reach C: it is logged, and the call fails."""

        def call(*arguments: Any) -> int:
            try:
                function(*arguments)
            except UseBuiltin:
                if callback == "init":
                    return int(abi.ErrorCode.SKIP_CUSTOM_OP_COMPUTE)
                _log.error("custom op %s: UseBuiltin outside of __init__", self._op_type)
                return int(abi.ErrorCode.FAIL)
            except KeyboardInterrupt:
                # C is between us and the program that Ctrl-C is meant for.
                threading.Timer(_REDELIVERY_DELAY, _thread.interrupt_main).start()
                return int(abi.ErrorCode.FAIL)
            except BaseException as error:
                self.failure = error
                _log.exception("custom op %s: %s failed", self._op_type, callback)
                return int(abi.ErrorCode.FAIL)
            return int(abi.ErrorCode.SUCC)

        return call

    def _init(self, context: Any, inputs: Any, n: int, outputs: Any, m: int) -> None:
        kept = _Node(CustomOpNode(self._library), _Views(is_output=False), _Views(is_output=True))
        with kept.node.called_with(context):
            arrays = kept.inputs.get(inputs, n), kept.outputs.get(outputs, m)
            kept.instance = self._make(kept.node, *arrays)
        token = next(_tokens)
        self._nodes[token] = kept
        context.contents.priv_data = token

    def _call(self, name: str) -> Callable[..., None]:
        def call(context: Any, inputs: Any, n: int, outputs: Any, m: int) -> None:
            kept = self._nodes[context.contents.priv_data]
            method = getattr(kept.instance, name, None)
            if method is not None:
                with kept.node.called_with(context):
                    method(kept.inputs.get(inputs, n), kept.outputs.get(outputs, m))

        return call

    def _destroy(self, context: Any) -> None:
        kept = self._nodes.pop(context.contents.priv_data)
        method = getattr(kept.instance, "destroy", None)
        if method is not None:
            method()


class FunctionOp:
    """A function as an operator: it has no state, and gets the node with every call."""

    def __init__(self, function: Callable[..., Any], node: CustomOpNode) -> None:
        self._function, self._node = function, node

    def compute(self, inputs: Arrays, outputs: Arrays) -> None:
        """Call the function; what it returns, if anything, becomes the outputs."""
        results = self._function(self._node, inputs, outputs)
        if results is None:
            return
        given = results if isinstance(results, (tuple, list)) else (results,)
        if len(given) != len(outputs):
            raise TensorError(f"{len(given)} results for {len(outputs)} outputs")
        for result, output in zip(given, outputs, strict=True):
            if np.shape(result) != output.shape:
                raise TensorError(f"a result of shape {np.shape(result)} for {output.shape}")
            np.copyto(output, result, casting="unsafe")
