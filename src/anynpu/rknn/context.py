"""`Context`: one `rknn_context` as a Python object, every call checked."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, StateError, TensorError
from ..file_kinds import read_head
from ..lifetime import Closeable
from ..native.memory import address_of
from ..tensor import DType, TensorInfo
from . import abi
from .custom_ops import CustomOp, bind_all
from .custom_ops_python import PythonCallbacks
from .handle import ContextHandle
from .library import RknnLibrary, load
from .memory import Memory
from .model_check import check_packages
from .model_file import MAGIC
from .queries import MemorySize, Queries, shape_attributes, tensor_info

__all__ = ["Context", "Memory", "MemorySize", "tensor_info"]


class Context(Queries, Closeable):
    """A model loaded into the runtime: `rknn_init` to `rknn_destroy`, and all calls between.

    `model` is a path, or the file's bytes (the library copies what it needs); `offset` and `size`
    name a part of the file. `library` is what `rknn.library.load` takes. `flags` are those of
    section 4.3.1; `share_with` is the context whose weights (SHARE_WEIGHT_MEM) or on-chip memory
    (SHARE_SRAM) this one uses. `inputs` and `outputs` describe the tensors as
    RKNN_QUERY_INPUT_ATTR and RKNN_QUERY_OUTPUT_ATTR do.

    One thread at a time may use a context. Close it with `close()` or `with`; it also closes when
    it is collected and when the interpreter exits. Memory that arrays still share outlives it.
    Failed calls raise `CallError`, use after `close` raises `ClosedError`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        library: str | os.PathLike[str] | RknnLibrary | None = None,
        flags: abi.InitFlag = abi.InitFlag.PRIOR_HIGH,
        share_with: Context | None = None,
        offset: int = 0,
        size: int = 0,
    ) -> None:
        runtime = load(library)
        data, length, what = _model_argument(model)
        extend = abi.InitExtend(real_model_offset=offset, real_model_size=size)
        if share_with is not None:
            extend.ctx = share_with.handle
        needs_extend = share_with is not None or offset or size
        value = abi.Handle()
        code = runtime.rknn_init(
            ctypes.byref(value),
            data,
            length,
            int(flags),
            ctypes.byref(extend) if needs_extend else None,
        )
        if code:
            if runtime.is_soft:
                check_packages(model)
            what += _beginning(model)
            runtime.check("rknn_init", code, f"model: {what}; library: {runtime.path}")
        self._share_with = share_with
        self._open(runtime, value.value)

    def _open(self, library: RknnLibrary, value: int) -> None:
        handle = ContextHandle(library, value)
        self._finalizer = weakref.finalize(self, handle.close)
        self._bound: dict[str, Memory] = {}
        self._has_custom_ops = False
        self._callbacks: list[PythonCallbacks] = []
        try:
            super().__init__(handle)
        except BaseException:
            self.close()
            raise
        self._input_structs = (abi.Input * len(self.inputs))()
        self._output_structs = (abi.Output * len(self.outputs))()

    # ------------------------------------------------------------------------------- lifetime

    @property
    def library(self) -> RknnLibrary:
        """The runtime library that the context lives in."""
        return self._handle.library

    @property
    def handle(self) -> int:
        """The `rknn_context` value; raises `ClosedError` after `close()`."""
        return self._handle.value

    def dup(self) -> Context:
        """A context of its own for the same model, whose weights are there once: section 4.3.4."""
        source, value = abi.Handle(self.handle), abi.Handle()
        code = self.library.rknn_dup_context(ctypes.byref(source), ctypes.byref(value))
        self.library.check("rknn_dup_context", code)
        duplicate: Context = type(self).__new__(type(self))
        duplicate._share_with = self
        duplicate._open(self.library, value.value)
        return duplicate

    def close(self) -> None:
        """`rknn_destroy`; closing twice does nothing. Memory that arrays share goes with them."""
        self._bound.clear()
        self._finalizer()

    # ----------------------------------------------------------------------- custom operators

    def register_custom_ops(self, operators: Sequence[CustomOp]) -> None:
        """Let operators compute the nodes of their types: `rknn_register_custom_ops`, 4.7.1.

        A vendor's library keeps the operators of one call only, so a second one there raises
        `StateError`; on the soft NPU calls add up. A duplicate of the context knows none of them.
        """
        if not operators:
            return
        if self._has_custom_ops and not self.library.is_soft:
            raise StateError("the vendor's library takes all custom operators in one call only")
        array, callbacks = bind_all(operators, self.library)
        # C may call them even where registering fails, and until the context is destroyed.
        self._handle.keep_alive([array, *operators, *callbacks])
        self._callbacks += callbacks
        code = self.library.rknn_register_custom_ops(self.handle, array, len(array))
        if code:
            names = ", ".join(operator.op_type for operator in operators)
            self._fail("rknn_register_custom_ops", code, f"operators: {names}")
        self._has_custom_ops = True

    def _fail(self, call: str, code: int, detail: str = "") -> NoReturn:
        """Raise the exception for a code; its cause is what a custom operator in Python raised."""
        causes = [callbacks.failure for callbacks in self._callbacks if callbacks.failure]
        for callbacks in self._callbacks:
            callbacks.failure = None
        raise self.library.error_for(call, code, detail) from (causes[0] if causes else None)

    # ---------------------------------------------------------------------------------- cores

    def set_core_mask(self, mask: abi.CoreMask) -> None:
        """Choose the cores that `run` may use: section 4.3.2."""
        self.library.check(
            "rknn_set_core_mask", self.library.rknn_set_core_mask(self.handle, int(mask))
        )

    def set_batch_core_num(self, cores: int) -> None:
        """Spread a batch over a number of cores: section 4.3.3."""
        code = self.library.rknn_set_batch_core_num(self.handle, cores)
        self.library.check("rknn_set_batch_core_num", code, f"{cores} cores")

    # --------------------------------------------------------------------------------- shapes

    def set_input_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """Take up a set of input shapes from `dynamic_shapes()`, images as NHWC: section 4.3.20.

        Inputs and outputs, and memory set for them, begin anew. Raises `TensorError` for a set
        that the model doesn't list.
        """
        listed = self.dynamic_shapes()
        wanted = tuple(tuple(shape) for shape in shapes)
        if listed and wanted not in set(zip(*listed, strict=True)):
            sets = "\n".join(f"  {entry}" for entry in zip(*listed, strict=True))
            raise TensorError(
                f"take one set of its shapes: {wanted} are not in the model's list:\n{sets}"
            )
        attrs = shape_attributes(self.inputs, wanted)
        code = self.library.rknn_set_input_shapes(self.handle, len(attrs), attrs)
        self.library.check("rknn_set_input_shapes", code, f"shapes: {wanted}")
        self._bound.clear()

    # ------------------------------------------------------------------------------ inference

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
            raise TensorError(
                f"the model has {len(self.inputs)} inputs, {len(arrays)} were given: pass an array "
                f"for each"
            )
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
            self.library.check(
                "rknn_inputs_set", code, _describe_inputs(self.inputs, arrays, formats)
            )

    def run(self, *, timeout_ms: int = 0, non_block: bool = False) -> None:
        """Compute: `rknn_run`; until the outputs are there, or `CallTimeoutError` before.

        With `non_block` it returns at once, and `wait` waits.
        """
        if not timeout_ms and not non_block:
            code = self.library.rknn_run(self.handle, None)
        else:
            extend = abi.RunExtend(timeout_ms=timeout_ms, non_block=non_block, fence_fd=-1)
            code = self.library.rknn_run(self.handle, ctypes.byref(extend))
        if code:
            self._fail("rknn_run", code)

    def wait(self) -> None:
        """Wait for the run that was begun with `non_block`: `rknn_wait`, which boards refuse."""
        code = self.library.rknn_wait(self.handle, None)
        if code:
            self._fail("rknn_wait", code)

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
            self.library.check("rknn_outputs_get", code)
        self.library.check(
            "rknn_outputs_release",
            self.library.rknn_outputs_release(self.handle, len(arrays), structs),
        )

    # ------------------------------------------------------------------------------ zero copy

    def create_memory(
        self, size: int, flags: abi.MemoryFlag = abi.MemoryFlag.FLAGS_DEFAULT
    ) -> Memory:
        """New memory of `size` bytes that the NPU can use: `rknn_create_mem`, or with flags 2.

        A library before 2.0 has the first alone, and makes its memory whatever the flags say.
        """
        if flags and self.library.has("rknn_create_mem2"):
            pointer = self.library.rknn_create_mem2(self.handle, size, int(flags))
            return self._memory("rknn_create_mem2", pointer)
        return self._memory("rknn_create_mem", self.library.rknn_create_mem(self.handle, size))

    def memory_from_fd(
        self, fd: int, size: int, offset: int = 0, address: int | None = None
    ) -> Memory:
        """Memory that is a part of a descriptor: `rknn_create_mem_from_fd`.

        `address` is where the descriptor's first byte is mapped here, without one it is mapped: a
        runtime doesn't do that, and needs it to read and write the memory on the processor.
        """
        mapping = None
        if address is None:
            mapping = _mapped(fd, offset + size)
            address = None if mapping is None else address_of(mapping)
        pointer = self.library.rknn_create_mem_from_fd(self.handle, fd, address, size, offset)
        return self._memory("rknn_create_mem_from_fd", pointer, mapping)

    def memory_from_physical(self, physical: int, size: int, address: int | None = None) -> Memory:
        """Memory by its physical address: `rknn_create_mem_from_phys`."""
        pointer = self.library.rknn_create_mem_from_phys(self.handle, physical, address, size)
        return self._memory("rknn_create_mem_from_phys", pointer)

    def set_io_memory(self, memory: Memory, attr: abi.TensorAttr) -> None:
        """Let an input or output live in memory: `rknn_set_io_mem`.

        `attr` is from `attribute`, with `type`, `fmt` or `pass_through` changed as section 3.4 of
        the vendor's guide allows. The context keeps the memory alive.
        """
        code = self.library.rknn_set_io_mem(self.handle, memory.pointer, ctypes.byref(attr))
        self.library.check(
            "rknn_set_io_mem", code, f"tensor {tensor_info(attr)}; memory of {memory.size} bytes"
        )
        self._bound[f"{attr.index} {attr.name!r}"] = memory

    def set_weight_memory(self, memory: Memory) -> None:
        """Give the weights their memory, of `memory_size().weights` bytes: section 4.3.16."""
        self.library.check(
            "rknn_set_weight_mem", self.library.rknn_set_weight_mem(self.handle, memory.pointer)
        )
        self._bound["weights"] = memory

    def set_internal_memory(self, memory: Memory) -> None:
        """Give the intermediate tensors theirs, of `memory_size().internal` bytes: 4.3.17."""
        code = self.library.rknn_set_internal_mem(self.handle, memory.pointer)
        self.library.check("rknn_set_internal_mem", code, f"memory of {memory.size} bytes")
        self._bound["internal"] = memory

    def _memory(self, call: str, pointer: Any, mapping: Any = None) -> Memory:
        if not pointer:
            self.library.check(call, abi.ErrorCode.MALLOC_FAIL, "it returned NULL")
        return Memory(self._handle, pointer, mapping)


def _mapped(fd: int, size: int) -> NDArray[np.uint8] | None:
    """The first bytes of a descriptor, shared; None for what can't be mapped."""
    try:
        return np.frombuffer(mmap.mmap(fd, size), np.uint8)
    except (OSError, ValueError, OverflowError):
        return None


def _model_argument(model: str | os.PathLike[str] | bytes) -> tuple[bytes, int, str]:
    """What `rknn_init` takes for a model: the pointer, the size (0 for a path), and its name."""
    if isinstance(model, bytes):
        if not model:
            raise ModelError("the model is empty: 0 bytes were given")
        return model, len(model), f"{len(model)} bytes"
    path = os.path.abspath(os.fspath(model))
    # librknnrt 1.5.2 ends the process over a folder and over an empty file.
    if not read_head(path):
        raise ModelError(f"the model {path} is empty: 0 bytes were found")
    return os.fsencode(path), 0, path


def _beginning(model: str | os.PathLike[str] | bytes) -> str:
    """How a file that was refused begins, where that isn't how a `.rknn` file does."""
    head = read_head(model)
    if head.startswith(MAGIC):
        return ""
    return f", which begins with {head[:8].hex(' ')}, no .rknn file's {MAGIC.hex(' ')} ({MAGIC!r})"


_TYPES = {
    dtype: abi.TensorType[dtype.name] for dtype in DType if dtype.name in abi.TensorType.__members__
}


def _tensor_type(array: NDArray[Any], info: TensorInfo) -> abi.TensorType:
    dtype = DType.from_numpy(array.dtype)
    if dtype not in _TYPES or not array.flags.c_contiguous:
        raise TensorError(
            f"input {info.name!r}: the library takes C-contiguous arrays of "
            f"{', '.join(d.name.lower() for d in _TYPES if d.numpy_name)}; found {array.dtype}"
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
