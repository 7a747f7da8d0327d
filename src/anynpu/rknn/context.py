"""`Context`: one `rknn_context` as a Python object, every call checked."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ClosedError, ModelError, TensorError
from ..lifetime import Closeable
from ..tensor import DType, Layout, Quantization, TensorInfo
from . import abi
from .library import RknnLibrary, load
from .status import check

_S = TypeVar("_S", bound=ctypes.Structure)
_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


class Context(Closeable):
    """A model loaded into the runtime: `rknn_init` to `rknn_destroy`.

    `model` is a path, or the file's bytes (the library copies what it needs). `library` is what
    `rknn.library.load` takes. `inputs` and `outputs` describe the tensors as
    RKNN_QUERY_INPUT_ATTR and RKNN_QUERY_OUTPUT_ATTR do.

    One thread at a time may use a context. Close it with `close()` or `with`; it also closes when
    it is collected and when the interpreter exits. Failed calls raise `CallError`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        library: str | os.PathLike[str] | RknnLibrary | None = None,
        flags: abi.InitFlag = abi.InitFlag.PRIOR_HIGH,
    ) -> None:
        self.library = load(library)
        handle = abi.Handle()
        data, size, what = _model_argument(model)
        code = self.library.rknn_init(ctypes.byref(handle), data, size, int(flags), None)
        check("rknn_init", code, f"model: {what}; library: {self.library.path}")
        self._handle = handle.value
        self._finalizer = weakref.finalize(self, self.library.rknn_destroy, handle.value)
        try:
            count = self._query(abi.Query.IN_OUT_NUM, abi.InputOutputNum())
            self.inputs = self._tensors(abi.Query.INPUT_ATTR, count.n_input)
            self.outputs = self._tensors(abi.Query.OUTPUT_ATTR, count.n_output)
        except BaseException:
            self.close()
            raise
        self._input_structs = (abi.Input * len(self.inputs))()
        self._output_structs = (abi.Output * len(self.outputs))()

    # ------------------------------------------------------------------------------- lifetime

    @property
    def handle(self) -> int:
        """The `rknn_context` value; raises `ClosedError` after `close()`."""
        if not self._finalizer.alive:
            raise ClosedError("this context is closed")
        return int(self._handle)

    def close(self) -> None:
        """`rknn_destroy`; closing twice does nothing."""
        self._finalizer()

    # -------------------------------------------------------------------------------- queries

    def _query(self, query: abi.Query, info: _S) -> _S:
        code = self.library.rknn_query(
            self.handle, int(query), ctypes.byref(info), ctypes.sizeof(info)
        )
        check(f"rknn_query({query.symbol})", code)
        return info

    def _tensors(self, query: abi.Query, count: int) -> tuple[TensorInfo, ...]:
        return tuple(
            tensor_info(self._query(query, abi.TensorAttr(index=index))) for index in range(count)
        )

    def sdk_version(self) -> tuple[str, str]:
        """(version of the runtime library, version of the driver): RKNN_QUERY_SDK_VERSION."""
        info = self._query(abi.Query.SDK_VERSION, abi.SdkVersion())
        return _text(info.api_version), _text(info.drv_version)

    def custom_string(self) -> str:
        """What the model's author stored in it, often empty: RKNN_QUERY_CUSTOM_STRING."""
        return _text(self._query(abi.Query.CUSTOM_STRING, abi.CustomString()).string)

    def run_duration(self) -> int:
        """Microseconds of the last run, without setting inputs or reading outputs (PERF_RUN)."""
        return int(self._query(abi.Query.PERF_RUN, abi.PerfRun()).run_duration)

    # ------------------------------------------------------------------------------ inference

    def set_core_mask(self, mask: abi.CoreMask) -> None:
        """Choose the cores that `run` may use: `rknn_set_core_mask`."""
        check("rknn_set_core_mask", self.library.rknn_set_core_mask(self.handle, int(mask)))

    def set_inputs(
        self,
        arrays: Sequence[NDArray[Any]],
        formats: Sequence[abi.TensorFormat],
        *,
        pass_through: bool = False,
    ) -> None:
        """Give every input its data: `rknn_inputs_set`, which copies.

        One C-contiguous array and one format for each input in the model's order. Without
        `pass_through` the library normalises and converts from the array's dtype; with it the
        bytes go to the device as they are.
        """
        if len(arrays) != len(self.inputs):
            raise TensorError(f"the model has {len(self.inputs)} inputs, {len(arrays)} were given")
        for struct, info, array, fmt in zip(
            self._input_structs, self.inputs, arrays, formats, strict=True
        ):
            struct.index = info.index
            struct.buf = array.ctypes.data
            struct.size = array.nbytes
            struct.pass_through = pass_through
            struct.type = _tensor_type(array, info)
            struct.fmt = fmt
        code = self.library.rknn_inputs_set(self.handle, len(arrays), self._input_structs)
        if code:
            check("rknn_inputs_set", code, _describe_inputs(self.inputs, arrays, formats))

    def run(self) -> None:
        """Compute: `rknn_run`; blocks until the outputs are there."""
        code = self.library.rknn_run(self.handle, None)
        if code:
            check("rknn_run", code)

    def get_outputs(self, arrays: Sequence[NDArray[Any]], *, as_float: bool) -> None:
        """Write every output into its array: `rknn_outputs_get` into the caller's memory.

        One C-contiguous array for each output in the model's order: float32 with `as_float`, of
        the model's own dtype without.
        """
        if len(arrays) != len(self.outputs):
            raise TensorError(
                f"the model has {len(self.outputs)} outputs, {len(arrays)} arrays were given"
            )
        structs = self._output_structs
        for struct, info, array in zip(structs, self.outputs, arrays, strict=True):
            struct.want_float = as_float
            struct.is_prealloc = 1
            struct.index = info.index
            struct.buf = array.ctypes.data
            struct.size = array.nbytes
        code = self.library.rknn_outputs_get(self.handle, len(arrays), structs, None)
        if code:
            check("rknn_outputs_get", code)
        check(
            "rknn_outputs_release",
            self.library.rknn_outputs_release(self.handle, len(arrays), structs),
        )


def tensor_info(attr: abi.TensorAttr) -> TensorInfo:
    """A C attribute as a `TensorInfo`; raises `ModelError` for types newer than this API."""
    name = _text(attr.name)
    try:
        dtype = DType[abi.TensorType(attr.type).name]
        layout = Layout[abi.TensorFormat(attr.fmt).name]
        method = abi.QuantizationType(attr.qnt_type)
    except ValueError as error:
        raise ModelError(f"tensor {name!r} is beyond RKNN API {abi.API_VERSION}: {error}") from None
    quantization = None
    if dtype not in _FLOATS and method is abi.QuantizationType.AFFINE_ASYMMETRIC:
        quantization = Quantization(attr.scale, attr.zp)
    elif dtype not in _FLOATS and method is abi.QuantizationType.DFP:
        quantization = Quantization(2.0**-attr.fl, 0)
    return TensorInfo(
        index=attr.index,
        name=name,
        shape=tuple(attr.dims[: min(attr.n_dims, abi.MAX_DIMS)]),
        dtype=dtype,
        layout=layout,
        quantization=quantization,
        size=attr.size,
        size_with_stride=attr.size_with_stride,
        width_stride=attr.w_stride,
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _model_argument(model: str | os.PathLike[str] | bytes) -> tuple[bytes, int, str]:
    """What `rknn_init` takes for a model: the pointer, the size (0 for a path), and its name."""
    if isinstance(model, bytes):
        if not model:
            raise ModelError("the model is empty: 0 bytes were given")
        return model, len(model), f"{len(model)} bytes"
    path = os.path.abspath(os.fspath(model))
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no model file {path}")
    return os.fsencode(path), 0, path


_TYPES = {dtype: abi.TensorType[dtype.name] for dtype in DType}


def _tensor_type(array: NDArray[Any], info: TensorInfo) -> abi.TensorType:
    dtype = DType.from_numpy(array.dtype)
    if dtype is None or not array.flags.c_contiguous:
        raise TensorError(
            f"input {info.name!r}: the library takes C-contiguous arrays of "
            f"{', '.join(d.name.lower() for d in DType if d.numpy_name)}; found {array.dtype}"
            f"{'' if array.flags.c_contiguous else ', not contiguous'}"
        )
    return _TYPES[dtype]


def _describe_inputs(
    infos: Sequence[TensorInfo],
    arrays: Sequence[NDArray[np.generic]],
    formats: Sequence[abi.TensorFormat],
) -> str:
    return "\n".join(
        f"input {info}; given {array.dtype} {'x'.join(map(str, array.shape))} as {fmt.name}"
        for info, array, fmt in zip(infos, arrays, formats, strict=True)
    )
