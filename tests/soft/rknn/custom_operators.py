"""Custom operators of the tests: C callbacks made of Python functions on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary
from anynpu.tensor import DType

Arrays = list[np.ndarray]
Compute = Callable[[Any, Arrays, Arrays], int | None]


def arrays(tensors: Any, count: int) -> Arrays:
    """The data of the tensors that a callback got."""
    found = []
    for tensor in tensors[:count]:
        attr, mem = tensor.attr, tensor.mem
        dtype = DType[abi.TensorType(attr.type).name].numpy
        shape = tuple(attr.dims[: attr.n_dims])
        size = int(np.prod(shape, dtype=int)) * dtype.itemsize
        assert (attr.n_elems * dtype.itemsize, attr.size, mem.size) == (size, size, size)
        memory = (ctypes.c_uint8 * size).from_address(mem.virt_addr + mem.offset)
        found.append(np.frombuffer(memory, dtype).reshape(shape))  # type: ignore[call-overload]
    return found


_alive: list[object] = []
"""Whose callbacks C may call until a context is destroyed."""


class CustomOperator:
    """An operator whose callbacks are recorded in `events`, as (callback, node's number)."""

    def __init__(
        self,
        op_type: str,
        compute: Compute,
        *,
        init: Callable[..., int] | None = None,
        prepare: Callable[..., int] | None = None,
        destroy: Callable[..., int] | None = None,
        **fields: Any,
    ) -> None:
        self.events: list[tuple[str, int]] = []
        self.tensors: list[abi.CustomOpTensor] = []

        def at(name: str, function: Callable[..., int] | None) -> Callable[..., int]:
            def call(context: Any, *rest: Any) -> int:
                self.events.append((name, context.contents.internal_ctx))
                return function(context, *rest) if function else 0

            return call

        def compute_arrays(context: Any, inputs: Any, n: int, outputs: Any, m: int) -> int:
            self.tensors = [
                abi.CustomOpTensor.from_buffer_copy(tensor)
                for tensor in (*inputs[:n], *outputs[:m])
            ]
            return compute(context, arrays(inputs, n), arrays(outputs, m)) or 0

        self.structure = abi.CustomOp(
            version=1,
            op_type=op_type.encode(),
            init=abi.CustomOpCallback(at("init", init)),
            prepare=abi.CustomOpCallback(at("prepare", prepare)),
            compute=abi.CustomOpCallback(at("compute", compute_arrays)),
            destroy=abi.CustomOpDestroyCallback(at("destroy", destroy)),
            **{"target": abi.TargetType.CPU, **fields},
        )

    @property
    def moments(self) -> list[str]:
        return [name for name, _ in self.events]


def register(npu: RknnLibrary, context: int, *operators: CustomOperator) -> int:
    """The code of rknn_register_custom_ops; the array is destroyed after it."""
    _alive.extend(operators)
    array = (abi.CustomOp * len(operators))(*(operator.structure for operator in operators))
    code = npu.rknn_register_custom_ops(context, array, len(array))
    ctypes.memset(array, 0xFF, ctypes.sizeof(array))
    return code


def attribute(npu: RknnLibrary, context: Any, name: str) -> tuple[int, np.ndarray] | None:
    """(type, values) of a node's attribute inside a callback; None where it has none."""
    found = abi.CustomOpAttr(n_elems=77)
    npu.rknn_custom_op_get_op_attr(context, name.encode(), ctypes.byref(found))
    assert found.name == name.encode()
    if not found.n_elems and not found.data:
        return None
    dtype = DType[abi.TensorType(found.dtype).name].numpy
    memory = (ctypes.c_uint8 * (found.n_elems * dtype.itemsize)).from_address(found.data)
    return found.dtype, np.frombuffer(bytes(memory), dtype)


def scale(factor: float) -> Compute:
    """The operator y = x * factor."""

    def compute(context: Any, inputs: Arrays, outputs: Arrays) -> None:
        np.multiply(inputs[0], np.asarray(factor, inputs[0].dtype), out=outputs[0])

    return compute


def by_name(functions: dict[str, Callable[..., np.ndarray]]) -> Sequence[CustomOperator]:
    """An operator for each name, which stores what the function makes of the inputs."""

    def operator(name: str, function: Callable[..., np.ndarray]) -> CustomOperator:
        def compute(context: Any, inputs: Arrays, outputs: Arrays) -> None:
            outputs[0][...] = function(*inputs)

        return CustomOperator(name, compute)

    return [operator(*item) for item in functions.items()]
