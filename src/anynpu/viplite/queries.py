"""What `vip_query_network`, `vip_query_input` and `vip_query_output` answer, as Python objects."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import CallError, ModelError
from ..tensor import DType, Layout, Quantization, TensorInfo
from . import abi
from .formats import DTYPES, size_of
from .runtime import Handle

_Prop = abi.NetworkProperty


@dataclass(frozen=True)
class RunTime:
    """What the last run took, inputs and outputs aside: VIP_NETWORK_PROP_PROFILING."""

    microseconds: int
    cycles: int


class Queries:
    """The queries of a network."""

    _handle: Handle

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.inputs = self._tensors("vip_query_input", _Prop.INPUT_COUNT)
        self.outputs = self._tensors("vip_query_output", _Prop.OUTPUT_COUNT)

    @property
    def name(self) -> str:
        """The network's name."""
        return text(self.query(_Prop.NETWORK_NAME).value)

    @property
    def layer_count(self) -> int:
        """How many layers it has."""
        return int(self.query(_Prop.LAYER_COUNT).value)

    @property
    def core_count(self) -> int:
        """How many of a device's cores it runs on at once."""
        return int(self.query(_Prop.CORE_COUNT).value)

    @property
    def memory_pool_size(self) -> int:
        """Bytes of its intermediate tensors; networks that take turns may share a pool."""
        return int(self.query(_Prop.MEMORY_POOL_SIZE).value)

    def run_time(self) -> RunTime:
        """What the last run took."""
        profile = self.query(_Prop.PROFILING)
        return RunTime(int(profile.inference_time), int(profile.total_cycle))

    def query(self, prop: abi.NetworkProperty) -> Any:
        """The C value of a property: `vip_query_network`."""
        value = abi.NETWORK_VALUES[prop]()
        code = self._handle.library.vip_query_network(
            self._handle.value, int(prop), ctypes.byref(value)
        )
        self._handle.library.check("vip_query_network", code, prop.symbol)
        return value

    def _tensors(self, call: str, count: abi.NetworkProperty) -> tuple[TensorInfo, ...]:
        function = getattr(self._handle.library, call)

        def ask(index: int, prop: abi.BufferProperty) -> Any:
            value = abi.BUFFER_VALUES[prop]()
            code = function(self._handle.value, index, int(prop), ctypes.byref(value))
            self._handle.library.check(call, code, f"{prop.symbol} of number {index}")
            return value

        return tuple(tensor_info(index, ask) for index in range(int(self.query(count).value)))


def tensor_info(index: int, ask: Callable[[int, abi.BufferProperty], Any]) -> TensorInfo:
    """Describe an input or output.

    The interface gives sizes from the innermost one on; shapes here are the other way round, in
    the order that memory has: an image of sizes 640, 480, 3, 1 (W, H, C, N) has the shape
    (1, 3, 480, 640), NCHW. Raises `ModelError` for what no document names.
    """
    prop = abi.BufferProperty
    count = int(ask(index, prop.NUM_OF_DIMENSION).value)
    sizes = tuple(ask(index, prop.SIZES_OF_DIMENSION)) if 0 <= count <= abi.MAX_DIMS else ()
    name = _name(index, ask)
    if len(sizes) != abi.MAX_DIMS:
        raise ModelError(f"tensor {name!r} has {count} dimensions; there are {abi.MAX_DIMS}")
    shape = sizes[:count][::-1]
    dtype = element_type(int(ask(index, prop.DATA_FORMAT).value), name)
    size = size_of(shape, dtype)
    return TensorInfo(
        index=index,
        name=name,
        shape=shape,
        dtype=dtype,
        layout=layout_of(shape),
        quantization=_quantization(index, ask, name),
        size=size,
        size_with_stride=size,
    )


def _name(index: int, ask: Callable[[int, abi.BufferProperty], Any]) -> str:
    """The tensor's name; its number where it has none, or the library is too old to tell."""
    try:
        return text(ask(index, abi.BufferProperty.NAME).value) or f"#{index}"
    except CallError as error:
        if error.code not in (abi.Status.NOT_SUPPORTED, abi.Status.INVALID_ARGUMENTS):
            raise
        return f"#{index}"


def element_type(number: int, name: str) -> DType:
    """The dtype of a format; raises `ModelError` for one that no document names."""
    try:
        return DTYPES[abi.BufferFormat(number)]
    except ValueError:
        known = ", ".join(f"{form.value} {form.name}" for form in abi.BufferFormat)
        raise ModelError(
            f"tensor {name!r} has the element format {number}; known are {known}"
        ) from None


def _quantization(
    index: int, ask: Callable[[int, abi.BufferProperty], Any], name: str
) -> Quantization | None:
    prop = abi.BufferProperty
    number = int(ask(index, prop.QUANT_FORMAT).value)
    if number == abi.QuantizeFormat.NONE:
        return None
    if number == abi.QuantizeFormat.DYNAMIC_FIXED_POINT:
        return Quantization.fixed_point(int(ask(index, prop.FIXED_POINT_POS).value))
    if number == abi.QuantizeFormat.TF_ASYMM:
        return Quantization(
            float(ask(index, prop.TF_SCALE).value), int(ask(index, prop.TF_ZERO_POINT).value)
        )
    known = ", ".join(f"{form.value} {form.name}" for form in abi.QuantizeFormat)
    raise ModelError(f"tensor {name!r} has the quantisation {number}; known are {known}")


def layout_of(shape: tuple[int, ...]) -> Layout:
    """The order of axes that a shape is taken for: images lie in memory as planes."""
    return Layout.NCHW if len(shape) == 4 else Layout.UNDEFINED


def text(raw: bytes) -> str:
    """A C string as Python's."""
    return raw.decode("utf-8", "replace")
