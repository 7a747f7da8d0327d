"""What `rknn_query` answers, as Python objects."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..errors import ModelError
from ..tensor import DType, Layout, Quantization, TensorInfo
from . import abi
from .handle import ContextHandle

_S = TypeVar("_S", bound=ctypes.Structure)
_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


@dataclass(frozen=True)
class MemorySize:
    """RKNN_QUERY_MEM_SIZE, in bytes: section 4.2.7."""

    weights: int
    internal: int
    dma_allocated: int
    sram: int
    free_sram: int


class Queries:
    """The queries of a context. `inputs` and `outputs` are under the model's default shapes."""

    _handle: ContextHandle

    def __init__(self, handle: ContextHandle) -> None:
        self._handle = handle
        count = self._query(abi.Query.IN_OUT_NUM, abi.InputOutputNum())
        self._counts = (int(count.n_input), int(count.n_output))
        self.inputs = self._inputs(abi.Query.INPUT_ATTR)
        self.outputs = self._outputs(abi.Query.OUTPUT_ATTR)

    def attribute(self, query: abi.Query, index: int) -> abi.TensorAttr:
        """A tensor's C structure, to change and to pass to `set_io_memory`."""
        return self._query(query, abi.TensorAttr(index=index))

    def input_attribute(self, info: TensorInfo) -> abi.TensorAttr:
        """The C structure of an input that `info` describes, to change and to pass on."""
        attr = self.attribute(abi.Query.INPUT_ATTR, info.index)
        attr.n_dims = len(info.shape)
        attr.dims[: len(info.shape)] = info.shape
        attr.w_stride = info.width_stride
        attr.size, attr.size_with_stride = info.size, info.size_with_stride
        return attr

    @staticmethod
    def describe(attr: abi.TensorAttr) -> TensorInfo:
        """A C structure as a `TensorInfo`."""
        return tensor_info(attr)

    def image_inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs with images as NHWC: the runtime of RV1103 and RV1106 shows channel blocks."""
        if any(info.layout is Layout.NC1HWC2 for info in self.inputs):
            return self.nhwc_inputs()
        return self.inputs

    def logical_outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs with images as NCHW, whatever the runtime shows."""
        if not any(info.layout is Layout.NC1HWC2 for info in self.outputs):
            return self.outputs
        return tuple(_as_planes(info) for info in self.nhwc_outputs())

    def native_inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs as the NPU reads them: RKNN_QUERY_NATIVE_INPUT_ATTR."""
        return self._inputs(abi.Query.NATIVE_INPUT_ATTR)

    def native_outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs as the NPU writes them: RKNN_QUERY_NATIVE_OUTPUT_ATTR."""
        return self._outputs(abi.Query.NATIVE_OUTPUT_ATTR)

    def nhwc_inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs as NHWC: RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR."""
        return self._inputs(abi.Query.NATIVE_NHWC_INPUT_ATTR)

    def nhwc_outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs as NHWC: RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR."""
        return self._outputs(abi.Query.NATIVE_NHWC_OUTPUT_ATTR)

    def current_inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs under the shapes in use: RKNN_QUERY_CURRENT_INPUT_ATTR."""
        return self._inputs(abi.Query.CURRENT_INPUT_ATTR)

    def current_outputs(self) -> tuple[TensorInfo, ...]:
        """The outputs under the shapes in use: RKNN_QUERY_CURRENT_OUTPUT_ATTR."""
        return self._outputs(abi.Query.CURRENT_OUTPUT_ATTR)

    def current_native_inputs(self) -> tuple[TensorInfo, ...]:
        """RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR."""
        return self._inputs(abi.Query.CURRENT_NATIVE_INPUT_ATTR)

    def current_native_outputs(self) -> tuple[TensorInfo, ...]:
        """RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR."""
        return self._outputs(abi.Query.CURRENT_NATIVE_OUTPUT_ATTR)

    def dynamic_shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each input the shapes that it may have, in the order of their sets; images are NHWC.

        RKNN_QUERY_INPUT_DYNAMIC_RANGE. Empty for a model of fixed shapes, and for a library that
        knows no dynamic ones: versions before 1.5, and that of RV1103 and RV1106 (Table 4-2 of the
        RKNN C API reference), which would log the query as an error.
        """
        library = self._handle.library
        setters = ("rknn_set_input_shape", "rknn_set_input_shapes")
        if library.is_small or not any(map(library.has, setters)):
            return ()
        ranges = []
        for index in range(self._counts[0]):
            info = abi.InputRange(index=index)
            code = self._call(abi.Query.INPUT_DYNAMIC_RANGE, info)
            if code in (abi.ErrorCode.MODEL_INVALID, abi.ErrorCode.PARAM_INVALID):
                return ()
            self._handle.library.check("rknn_query(RKNN_QUERY_INPUT_DYNAMIC_RANGE)", code)
            ranges.append(
                tuple(
                    tuple(info.dyn_range[number][: info.n_dims])
                    for number in range(info.shape_number)
                )
            )
        return tuple(ranges)

    def sdk_version(self) -> tuple[str, str]:
        """(version of the runtime library, version of the driver): RKNN_QUERY_SDK_VERSION."""
        info = self._query(abi.Query.SDK_VERSION, abi.SdkVersion())
        return text(info.api_version), text(info.drv_version)

    def custom_string(self) -> str:
        """What the model's author stored in it, often empty: RKNN_QUERY_CUSTOM_STRING."""
        return text(self._query(abi.Query.CUSTOM_STRING, abi.CustomString()).string)

    def memory_size(self) -> MemorySize:
        """What the model takes: RKNN_QUERY_MEM_SIZE."""
        info = self._query(abi.Query.MEM_SIZE, abi.MemSize())
        return MemorySize(
            weights=info.total_weight_size,
            internal=info.total_internal_size,
            dma_allocated=info.total_dma_allocated_size,
            sram=info.total_sram_size,
            free_sram=info.free_sram_size,
        )

    def run_duration(self) -> int:
        """Microseconds of the last run, without setting inputs or reading outputs (PERF_RUN)."""
        return int(self._query(abi.Query.PERF_RUN, abi.PerfRun()).run_duration)

    def perf_detail(self) -> str:
        """The runtime's table of layers of the last run: RKNN_QUERY_PERF_DETAIL.

        Without InitFlag.COLLECT_PERF_MASK the text is empty, or the call fails.
        """
        info = self._query(abi.Query.PERF_DETAIL, abi.PerfDetail())
        return text(ctypes.string_at(info.perf_data, info.data_len))

    def _call(self, query: abi.Query, info: ctypes.Structure) -> int:
        return self._handle.library.rknn_query(
            self._handle.value, int(query), ctypes.byref(info), ctypes.sizeof(info)
        )

    def _query(self, query: abi.Query, info: _S) -> _S:
        self._handle.library.check(f"rknn_query({query.symbol})", self._call(query, info))
        return info

    def _inputs(self, query: abi.Query) -> tuple[TensorInfo, ...]:
        return tuple(tensor_info(self.attribute(query, i)) for i in range(self._counts[0]))

    def _outputs(self, query: abi.Query) -> tuple[TensorInfo, ...]:
        return tuple(tensor_info(self.attribute(query, i)) for i in range(self._counts[1]))


def tensor_info(attr: abi.TensorAttr) -> TensorInfo:
    """A C attribute as a `TensorInfo`; raises `ModelError` for types newer than this API."""
    name = text(attr.name)
    try:
        dtype = DType[abi.TensorType(attr.type).name]
        layout = Layout[abi.TensorFormat(attr.fmt).name]
        method = abi.QuantizationType(attr.qnt_type)
    except ValueError as error:
        raise ModelError(f"tensor {name!r} is beyond RKNN API {abi.API_VERSION}: {error}") from None
    return TensorInfo(
        index=attr.index,
        name=name,
        shape=tuple(attr.dims[: min(attr.n_dims, abi.MAX_DIMS)]),
        dtype=dtype,
        layout=layout,
        quantization=_quantization(attr, dtype, method),
        size=attr.size,
        size_with_stride=attr.size_with_stride,
        width_stride=attr.w_stride,
    )


def _quantization(
    attr: abi.TensorAttr, dtype: DType, method: abi.QuantizationType
) -> Quantization | None:
    if dtype in _FLOATS:
        return None
    if method is abi.QuantizationType.DFP:
        return Quantization.fixed_point(attr.fl)
    if method is not abi.QuantizationType.AFFINE_ASYMMETRIC:
        return None
    # librknnrt 1.5.2 says so of tensors of whole numbers and of truth values.
    is_itself = not dtype.is_quantizable and (attr.scale, attr.zp) == (1, 0)
    return None if is_itself else Quantization(attr.scale, attr.zp)


def _as_planes(info: TensorInfo) -> TensorInfo:
    if info.layout is not Layout.NHWC:
        return info
    n, h, w, c = info.shape
    return replace(info, shape=(n, c, h, w), layout=Layout.NCHW)


def shape_attributes(
    infos: Sequence[TensorInfo], shapes: Sequence[Sequence[int]]
) -> ctypes.Array[abi.TensorAttr]:
    """What `rknn_set_input_shapes` takes for a shape of each input."""
    attrs = (abi.TensorAttr * len(infos))()
    for attr, info, shape in zip(attrs, infos, shapes, strict=True):
        attr.index = info.index
        attr.name = info.name.encode()[: abi.MAX_NAME_LEN - 1]
        attr.n_dims = len(shape)
        attr.dims[: len(shape)] = shape
        attr.fmt = abi.TensorFormat[info.layout.name]
    return attrs


def text(raw: bytes) -> str:
    """A C string as Python's."""
    return raw.decode("utf-8", "replace")
