"""The RKNN C API, declared once.

Constants, structures and functions as version 2.3.2 has them, with the older names that shipping
programs still call. Three users derive everything else from these tables: `library.py` binds a
vendor's library with them, the soft NPU turns its functions into C callbacks with them, and
`header.py` writes C from them. The section numbers are those of the RKNN C API reference.

Structures mirror C; a field named `dims` is an array that C sees. An enumeration's member knows
its C name (`symbol`). Nothing here needs NumPy.
"""

from __future__ import annotations

import ctypes
import enum
import os
import sys
from ctypes import (
    POINTER,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_int8,
    c_int16,
    c_int32,
    c_int64,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass, replace
from typing import Any

from .. import declarations
from ..declarations import Enumeration, Named, Symbolic, symbols
from ..soc import Family
from ..structures import Structure

API_VERSION = "2.3.2"


def handle_type(machine: str, largest_size: int) -> Any:
    """What a handle is in a process, by `os.uname().machine` and `sys.maxsize`.

    It has 32 bits for 32-bit ARM, whatever the kernel is: one of 64 bits says aarch64 to such a
    process too.
    """
    is_arm32 = largest_size < 2**32 and machine.startswith(("arm", "aarch64"))
    return c_uint32 if is_arm32 else c_uint64


Handle: Any = handle_type(os.uname().machine, sys.maxsize)
"""`rknn_context`, `rknn_matmul_ctx` and a custom operator's internal context, as values."""
CONTEXT = Named("rknn_context", Handle)
MATMUL_CONTEXT = Named("rknn_matmul_ctx", Handle)
INTERNAL_CONTEXT = Named("rknn_custom_op_interal_context", Handle)
HANDLES = (CONTEXT, MATMUL_CONTEXT, INTERNAL_CONTEXT)
"""The types that C has for them, whose width only its compiler knows. The second i is the API's."""

# ------------------------------------------------------------------------------- enumerations


@symbols(
    "RKNN_ERR_",
    SUCC="RKNN_SUCC",
    SKIP_CUSTOM_OP_COMPUTE="RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE",
)
class ErrorCode(Symbolic, enum.IntEnum):
    """What functions return (section 5). The spelling INCOMPATILE is the API's own."""

    SUCC = 0
    FAIL = -1
    TIMEOUT = -2
    DEVICE_UNAVAILABLE = -3
    MALLOC_FAIL = -4
    PARAM_INVALID = -5
    MODEL_INVALID = -6
    CTX_INVALID = -7
    INPUT_INVALID = -8
    OUTPUT_INVALID = -9
    DEVICE_UNMATCH = -10
    INCOMPATILE_PRE_COMPILE_MODEL = -11
    INCOMPATILE_OPTIMIZATION_LEVEL_VERSION = -12
    TARGET_PLATFORM_UNMATCH = -13
    SKIP_CUSTOM_OP_COMPUTE = -14


@symbols("RKNN_FLAG_")
class InitFlag(Symbolic, enum.IntFlag):
    """`flag` of `rknn_init` (section 4.3.1)."""

    PRIOR_HIGH = 0
    PRIOR_MEDIUM = 1
    PRIOR_LOW = 2
    ASYNC_MASK = 0x4
    COLLECT_PERF_MASK = 0x8
    MEM_ALLOC_OUTSIDE = 0x10
    SHARE_WEIGHT_MEM = 0x20
    FENCE_IN_OUTSIDE = 0x40
    FENCE_OUT_OUTSIDE = 0x80
    COLLECT_MODEL_INFO_ONLY = 0x100
    INTERNAL_ALLOC_OUTSIDE = 0x200
    EXECUTE_FALLBACK_PRIOR_DEVICE_GPU = 0x400
    ENABLE_SRAM = 0x800
    SHARE_SRAM = 0x1000
    DISABLE_PROC_HIGH_PRIORITY = 0x2000
    DISABLE_FLUSH_INPUT_MEM_CACHE = 0x4000
    DISABLE_FLUSH_OUTPUT_MEM_CACHE = 0x8000
    MODEL_BUFFER_ZERO_COPY = 0x10000


@symbols("RKNN_QUERY_")
class Query(Symbolic, enum.IntEnum):
    """`cmd` of `rknn_query` (section 4.3.6); members with the same number are aliases."""

    IN_OUT_NUM = 0
    INPUT_ATTR = 1
    OUTPUT_ATTR = 2
    PERF_DETAIL = 3
    PERF_RUN = 4
    SDK_VERSION = 5
    MEM_SIZE = 6
    CUSTOM_STRING = 7
    NATIVE_INPUT_ATTR = 8
    NATIVE_OUTPUT_ATTR = 9
    NATIVE_NC1HWC2_INPUT_ATTR = 8
    NATIVE_NC1HWC2_OUTPUT_ATTR = 9
    NATIVE_NHWC_INPUT_ATTR = 10
    NATIVE_NHWC_OUTPUT_ATTR = 11
    DEVICE_MEM_INFO = 12
    INPUT_DYNAMIC_RANGE = 13
    CURRENT_INPUT_ATTR = 14
    CURRENT_OUTPUT_ATTR = 15
    CURRENT_NATIVE_INPUT_ATTR = 16
    CURRENT_NATIVE_OUTPUT_ATTR = 17


@symbols("RKNN_TENSOR_")
class TensorType(Symbolic, enum.IntEnum):
    """`rknn_tensor_type`; the names are those of `anynpu.tensor.DType`."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT8 = 2
    UINT8 = 3
    INT16 = 4
    UINT16 = 5
    INT32 = 6
    UINT32 = 7
    INT64 = 8
    BOOL = 9
    INT4 = 10
    BFLOAT16 = 11


@symbols("RKNN_TENSOR_")
class TensorFormat(Symbolic, enum.IntEnum):
    """`rknn_tensor_format`; the names are those of `anynpu.tensor.Layout`."""

    NCHW = 0
    NHWC = 1
    NC1HWC2 = 2
    UNDEFINED = 3


@symbols("RKNN_TENSOR_QNT_")
class QuantizationType(Symbolic, enum.IntEnum):
    """`rknn_tensor_qnt_type`."""

    NONE = 0
    DFP = 1
    AFFINE_ASYMMETRIC = 2


@symbols("RKNN_TENSOR_MEMORY_FLAGS_")
class MemoryOrigin(Symbolic, enum.IntEnum):
    """`flags` of `rknn_tensor_mem` (section 4.2.8)."""

    ALLOC_INSIDE = 1
    FROM_FD = 2
    FROM_PHYS = 3
    UNKNOWN = 4


@symbols("RKNN_FLAG_MEMORY_", ALLOC_NO_CONTEXT="RKNN_MEM_FLAG_ALLOC_NO_CONTEXT")
class MemoryFlag(Symbolic, enum.IntFlag):
    """`alloc_flags` of `rknn_create_mem2` (section 4.3.14)."""

    FLAGS_DEFAULT = 0
    CACHEABLE = 1
    NON_CACHEABLE = 2
    TRY_ALLOC_SRAM = 4
    ALLOC_NO_CONTEXT = 0x20000


@symbols("RKNN_MEMORY_SYNC_")
class SyncMode(Symbolic, enum.IntEnum):
    """`mode` of `rknn_mem_sync` (section 4.3.21)."""

    TO_DEVICE = 1
    FROM_DEVICE = 2
    BIDIRECTIONAL = 3


@symbols("RKNN_NPU_CORE_", CORE_0="RKNN_NPU_CORE_0", CORE_1="RKNN_NPU_CORE_1",
          CORE_2="RKNN_NPU_CORE_2", CORE_0_1="RKNN_NPU_CORE_0_1",
          CORE_0_1_2="RKNN_NPU_CORE_0_1_2")  # fmt: skip
class CoreMask(Symbolic, enum.IntEnum):
    """`rknn_core_mask` (section 4.3.2)."""

    AUTO = 0
    CORE_0 = 1
    CORE_1 = 2
    CORE_2 = 4
    CORE_0_1 = 3
    CORE_0_1_2 = 7
    ALL = 0xFFFF
    UNDEFINED = 0x10000


@symbols("RKNN_")
class MatmulType(Symbolic, enum.IntEnum):
    """`rknn_matmul_type` (section 4.4.1): A's type, B's type, C's type."""

    FLOAT16_MM_FLOAT16_TO_FLOAT32 = 1
    INT8_MM_INT8_TO_INT32 = 2
    INT8_MM_INT8_TO_INT8 = 3
    FLOAT16_MM_FLOAT16_TO_FLOAT16 = 4
    FLOAT16_MM_INT8_TO_FLOAT32 = 5
    FLOAT16_MM_INT8_TO_FLOAT16 = 6
    FLOAT16_MM_INT4_TO_FLOAT32 = 7
    FLOAT16_MM_INT4_TO_FLOAT16 = 8
    INT8_MM_INT8_TO_FLOAT32 = 9
    INT4_MM_INT4_TO_INT16 = 10
    INT8_MM_INT4_TO_INT32 = 11
    FLOAT16_MM_INT4_TO_BFLOAT16 = 12
    INT8_MM_INT4_TO_FLOAT16 = 15


@symbols("RKNN_QUANT_TYPE_")
class MatmulQuantization(Symbolic, enum.IntEnum):
    """`rknn_matmul_quant_type`."""

    PER_LAYER_SYM = 0
    PER_LAYER_ASYM = 1
    PER_CHANNEL_SYM = 2
    PER_CHANNEL_ASYM = 3
    PER_GROUP_SYM = 4
    PER_GROUP_ASYM = 5


@symbols("RKNN_MM_LAYOUT_")
class MatmulLayout(Symbolic, enum.IntEnum):
    """`rknn_matmul_layout`."""

    NORM = 0
    NATIVE = 1
    TP_NORM = 2


@symbols("RKNN_TARGET_TYPE_")
class TargetType(Symbolic, enum.IntEnum):
    """`rknn_target_type`: where a custom operator runs (section 4.6.2)."""

    CPU = 1
    GPU = 2


ENUMERATIONS: dict[str, Enumeration] = {
    "rknn_query_cmd": Query,
    "rknn_tensor_type": TensorType,
    "rknn_tensor_format": TensorFormat,
    "rknn_tensor_qnt_type": QuantizationType,
    "rknn_tensor_mem_flags": MemoryOrigin,
    "rknn_mem_alloc_flags": MemoryFlag,
    "rknn_mem_sync_mode": SyncMode,
    "rknn_core_mask": CoreMask,
    "rknn_matmul_type": MatmulType,
    "rknn_matmul_quant_type": MatmulQuantization,
    "rknn_matmul_layout": MatmulLayout,
    "rknn_target_type": TargetType,
}
"""C's enumerations by their C names; `ErrorCode` and `InitFlag` are #defines there."""

# ------------------------------------------------------------------------------------- limits

MAX_DIMS = 16
MAX_NUM_CHANNEL = 15
MAX_NAME_LEN = 256
MAX_DYNAMIC_SHAPE_NUM = 512
CUSTOM_OP_MAX_STR_LEN = 64
CUSTOM_OP_MAX_VALUE_LEN = 32

LIMITS = {
    "RKNN_MAX_DIMS": MAX_DIMS,
    "RKNN_MAX_NUM_CHANNEL": MAX_NUM_CHANNEL,
    "RKNN_MAX_NAME_LEN": MAX_NAME_LEN,
    "RKNN_MAX_DYNAMIC_SHAPE_NUM": MAX_DYNAMIC_SHAPE_NUM,
    "RKNN_CUSTOM_OP_MAX_STR_LEN": CUSTOM_OP_MAX_STR_LEN,
    "RKNN_CUSTOM_OP_MAX_VALUE_LEN": CUSTOM_OP_MAX_VALUE_LEN,
    "RKNN_QUERY_CMD_MAX": max(Query) + 1,
    "RKNN_TENSOR_TYPE_MAX": max(TensorType) + 1,
    "RKNN_TENSOR_FORMAT_MAX": max(TensorFormat) + 1,
    "RKNN_TENSOR_QNT_MAX": max(QuantizationType) + 1,
    "RKNN_TARGET_TYPE_MAX": max(TargetType) + 1,
}

# --------------------------------------------------------------------------------- structures
# A field that C declares with an enumeration's type (ENUMERATED) is an int here, as wide and as
# signed.


class InputOutputNum(Structure):
    """rknn_input_output_num (4.2.2)."""

    _fields_ = [("n_input", c_uint32), ("n_output", c_uint32)]


class TensorAttr(Structure):
    """rknn_tensor_attr (4.2.4)."""

    _fields_ = [
        ("index", c_uint32),
        ("n_dims", c_uint32),
        ("dims", c_uint32 * MAX_DIMS),
        ("name", c_char * MAX_NAME_LEN),
        ("n_elems", c_uint32),
        ("size", c_uint32),
        ("fmt", c_int),
        ("type", c_int),
        ("qnt_type", c_int),
        ("fl", c_int8),
        ("zp", c_int32),
        ("scale", c_float),
        ("w_stride", c_uint32),
        ("size_with_stride", c_uint32),
        ("pass_through", c_uint8),
        ("h_stride", c_uint32),
    ]


class InputRange(Structure):
    """rknn_input_range (4.2.3)."""

    _fields_ = [
        ("index", c_uint32),
        ("shape_number", c_uint32),
        ("fmt", c_int),
        ("name", c_char * MAX_NAME_LEN),
        ("dyn_range", c_uint32 * MAX_DIMS * MAX_DYNAMIC_SHAPE_NUM),
        ("n_dims", c_uint32),
    ]


class PerfDetail(Structure):
    """rknn_perf_detail (4.2.5)."""

    _fields_ = [("perf_data", POINTER(c_char)), ("data_len", c_uint64)]


class PerfRun(Structure):
    """rknn_perf_run (4.2.6)."""

    _fields_ = [("run_duration", c_int64)]


class SdkVersion(Structure):
    """rknn_sdk_version (4.2.1)."""

    _fields_ = [("api_version", c_char * 256), ("drv_version", c_char * 256)]


class MemSize(Structure):
    """rknn_mem_size (4.2.7; the reference's 12 reserved words are 10)."""

    _fields_ = [
        ("total_weight_size", c_uint32),
        ("total_internal_size", c_uint32),
        ("total_dma_allocated_size", c_uint64),
        ("total_sram_size", c_uint32),
        ("free_sram_size", c_uint32),
        ("reserved", c_uint32 * 10),
    ]


class CustomString(Structure):
    """rknn_custom_string (4.2.14)."""

    _fields_ = [("string", c_char * 1024)]


class TensorMem(Structure):
    """rknn_tensor_mem (4.2.8)."""

    _fields_ = [
        ("virt_addr", c_void_p),
        ("phys_addr", c_uint64),
        ("fd", c_int32),
        ("offset", c_int32),
        ("size", c_uint32),
        ("flags", c_uint32),
        ("priv_data", c_void_p),
    ]


class Input(Structure):
    """rknn_input (4.2.9)."""

    _fields_ = [
        ("index", c_uint32),
        ("buf", c_void_p),
        ("size", c_uint32),
        ("pass_through", c_uint8),
        ("type", c_int),
        ("fmt", c_int),
    ]


class Output(Structure):
    """rknn_output (4.2.10)."""

    _fields_ = [
        ("want_float", c_uint8),
        ("is_prealloc", c_uint8),
        ("index", c_uint32),
        ("buf", c_void_p),
        ("size", c_uint32),
    ]


class InitExtend(Structure):
    """rknn_init_extend (4.2.11); fields grew inside `reserved` from version to version."""

    _fields_ = [
        ("ctx", Handle),
        ("real_model_offset", c_int32),
        ("real_model_size", c_uint32),
        ("model_buffer_fd", c_int32),
        ("model_buffer_flags", c_uint32),
        ("reserved", c_uint8 * 112),
    ]


class RunExtend(Structure):
    """rknn_run_extend (4.2.12)."""

    _fields_ = [
        ("frame_id", c_uint64),
        ("non_block", c_int32),
        ("timeout_ms", c_int32),
        ("fence_fd", c_int32),
    ]


class OutputExtend(Structure):
    """rknn_output_extend (4.2.13; `frame_id` is 64 bits wide)."""

    _fields_ = [("frame_id", c_uint64)]


class MatmulTensorAttr(Structure):
    """rknn_matmul_tensor_attr (4.4.2)."""

    _fields_ = [
        ("name", c_char * MAX_NAME_LEN),
        ("n_dims", c_uint32),
        ("dims", c_uint32 * MAX_DIMS),
        ("size", c_uint32),
        ("type", c_int),
    ]


class MatmulIoAttr(Structure):
    """rknn_matmul_io_attr (4.4.3)."""

    _fields_ = [("A", MatmulTensorAttr), ("B", MatmulTensorAttr), ("C", MatmulTensorAttr)]


class MatmulShape(Structure):
    """rknn_matmul_shape (4.4.5)."""

    _fields_ = [("M", c_int32), ("K", c_int32), ("N", c_int32)]


class MatmulInfo(Structure):
    """rknn_matmul_info (4.4.1); up to 1.6.0 it ended after 24 bytes, with 32-bit layouts."""

    _fields_ = [
        ("M", c_int32),
        ("K", c_int32),
        ("N", c_int32),
        ("type", c_int),
        ("B_layout", c_int16),
        ("B_quant_type", c_int16),
        ("AC_layout", c_int16),
        ("AC_quant_type", c_int16),
        ("iommu_domain_id", c_int32),
        ("group_size", c_int16),
        ("reserved", c_int8 * 34),
    ]


class QuantParams(Structure):
    """rknn_quant_params (4.4.4)."""

    _fields_ = [
        ("name", c_char * MAX_NAME_LEN),
        ("scale", POINTER(c_float)),
        ("scale_len", c_int32),
        ("zp", POINTER(c_int32)),
        ("zp_len", c_int32),
    ]


class GpuOpContext(Structure):
    """rknn_gpu_op_context (4.6.1)."""

    _fields_ = [("cl_context", c_void_p), ("cl_command_queue", c_void_p), ("cl_kernel", c_void_p)]


class CustomOpContext(Structure):
    """rknn_custom_op_context (4.6.2)."""

    _fields_ = [
        ("target", c_int),
        ("internal_ctx", Handle),
        ("gpu_ctx", GpuOpContext),
        ("priv_data", c_void_p),
    ]


class CustomOpTensor(Structure):
    """rknn_custom_op_tensor (4.6.3)."""

    _fields_ = [("attr", TensorAttr), ("mem", TensorMem)]


class CustomOpAttr(Structure):
    """rknn_custom_op_attr (4.6.4)."""

    _fields_ = [
        ("name", c_char * MAX_NAME_LEN),
        ("dtype", c_int),
        ("n_elems", c_uint32),
        ("data", c_void_p),
    ]


CustomOpCallback = ctypes.CFUNCTYPE(
    c_int,
    POINTER(CustomOpContext),
    POINTER(CustomOpTensor),
    c_uint32,
    POINTER(CustomOpTensor),
    c_uint32,
)
CustomOpDestroyCallback = ctypes.CFUNCTYPE(c_int, POINTER(CustomOpContext))


class CustomOp(Structure):
    """rknn_custom_op (4.6.5)."""

    _fields_ = [
        ("version", c_uint32),
        ("target", c_int),
        ("op_type", c_char * MAX_NAME_LEN),
        ("cl_kernel_name", c_char * MAX_NAME_LEN),
        ("cl_kernel_source", c_char_p),
        ("cl_source_size", c_uint64),
        ("cl_build_options", c_char * MAX_NAME_LEN),
        ("init", CustomOpCallback),
        ("prepare", CustomOpCallback),
        ("compute", CustomOpCallback),
        ("compute_native", CustomOpCallback),
        ("destroy", CustomOpDestroyCallback),
    ]


STRUCTURES: dict[str, type[Structure]] = {
    "rknn_input_output_num": InputOutputNum,
    "rknn_tensor_attr": TensorAttr,
    "rknn_input_range": InputRange,
    "rknn_perf_detail": PerfDetail,
    "rknn_perf_run": PerfRun,
    "rknn_sdk_version": SdkVersion,
    "rknn_mem_size": MemSize,
    "rknn_custom_string": CustomString,
    "rknn_tensor_mem": TensorMem,
    "rknn_input": Input,
    "rknn_output": Output,
    "rknn_init_extend": InitExtend,
    "rknn_run_extend": RunExtend,
    "rknn_output_extend": OutputExtend,
    "rknn_matmul_tensor_attr": MatmulTensorAttr,
    "rknn_matmul_io_attr": MatmulIoAttr,
    "rknn_matmul_shape": MatmulShape,
    "rknn_matmul_info": MatmulInfo,
    "rknn_quant_params": QuantParams,
    "rknn_gpu_op_context": GpuOpContext,
    "rknn_custom_op_context": CustomOpContext,
    "rknn_custom_op_tensor": CustomOpTensor,
    "rknn_custom_op_attr": CustomOpAttr,
    "rknn_custom_op": CustomOp,
}
"""C's structures by their C names, in an order in which C can declare them."""

ENUMERATED = {
    "rknn_tensor_attr.fmt": "rknn_tensor_format",
    "rknn_tensor_attr.type": "rknn_tensor_type",
    "rknn_tensor_attr.qnt_type": "rknn_tensor_qnt_type",
    "rknn_input_range.fmt": "rknn_tensor_format",
    "rknn_input.type": "rknn_tensor_type",
    "rknn_input.fmt": "rknn_tensor_format",
    "rknn_matmul_tensor_attr.type": "rknn_tensor_type",
    "rknn_matmul_info.type": "rknn_matmul_type",
    "rknn_custom_op_context.target": "rknn_target_type",
    "rknn_custom_op_attr.dtype": "rknn_tensor_type",
    "rknn_custom_op.target": "rknn_target_type",
}
"""The fields that C declares with an enumeration's type; C++ assigns no int to such a thing."""

HANDLE_FIELDS = {
    "rknn_init_extend.ctx": CONTEXT.symbol,
    "rknn_custom_op_context.internal_ctx": INTERNAL_CONTEXT.symbol,
}
"""The fields that hold a handle."""

# ---------------------------------------------------------------------------------- functions

EVERY_CHIP = frozenset(Family)
NOT_RV1106 = frozenset({Family.RK356X, Family.RK3588})
MULTI_CORE = frozenset({Family.RK3588})
NO_CHIP: frozenset[Family] = frozenset()


def _enumerated(name: str) -> Named:
    """An argument that C declares with an enumeration's type: C++ and Go take nothing else."""
    assert name in ENUMERATIONS
    return Named(name, c_int)


@dataclass(frozen=True)
class Function(declarations.Function):
    """One exported function.

    `families` are the chips that support it (Table 4-1); `in_librknnmrt` says whether the small
    runtime of RV1103/RV1106 exports it too. `header_arguments` is how many of the arguments the
    vendor's header of today has, where an older form had more.
    """

    families: frozenset[Family]
    in_librknnmrt: bool = False
    header_arguments: int | None = None

    @property
    def with_narrow_handles(self) -> Function:
        """The same function with 32-bit handles, whatever the machine.

        A shipping client of librknnmrt declares handles so on 64-bit machines too: it has four
        bytes to write one to, and passes registers whose upper halves mean nothing.
        """
        narrow: dict[Any, Any] = dict.fromkeys(HANDLES, c_uint32)
        narrow |= {handle.pointer: POINTER(c_uint32) for handle in HANDLES}
        arguments = tuple((name, narrow.get(kind, kind)) for name, kind in self.arguments)
        return replace(self, arguments=arguments)


def _returns_code(
    name: str,
    since: str,
    families: frozenset[Family],
    in_librknnmrt: bool,
    **arguments: Any,
) -> Function:
    return Function(name, c_int, tuple(arguments.items()), since, families, in_librknnmrt)


def _returns_memory(
    name: str,
    since: str,
    families: frozenset[Family],
    in_librknnmrt: bool,
    **arguments: Any,
) -> Function:
    result = POINTER(TensorMem)
    return Function(name, result, tuple(arguments.items()), since, families, in_librknnmrt)


_FUNCTIONS = (
    _returns_code(
        "rknn_init", "1.2.0", EVERY_CHIP, True,
        context=CONTEXT.pointer, model=c_void_p, size=c_uint32, flag=c_uint32,
        extend=POINTER(InitExtend),
    ),
    _returns_code(
        "rknn_dup_context", "1.2.0", NOT_RV1106, True,
        context_in=CONTEXT.pointer, context_out=CONTEXT.pointer,
    ),
    _returns_code("rknn_destroy", "1.2.0", EVERY_CHIP, True, context=CONTEXT),
    _returns_code(
        "rknn_query", "1.2.0", EVERY_CHIP, True,
        context=CONTEXT, cmd=_enumerated("rknn_query_cmd"), info=c_void_p, size=c_uint32,
    ),
    _returns_code(
        "rknn_inputs_set", "1.2.0", NOT_RV1106, True,
        context=CONTEXT, n_inputs=c_uint32, inputs=POINTER(Input),
    ),
    _returns_code(
        "rknn_set_batch_core_num", "1.3.0", MULTI_CORE, False,
        context=CONTEXT, core_num=c_int,
    ),
    _returns_code(
        "rknn_set_core_mask", "1.2.0", MULTI_CORE, False,
        context=CONTEXT, core_mask=_enumerated("rknn_core_mask"),
    ),
    _returns_code(
        "rknn_run", "1.2.0", EVERY_CHIP, True,
        context=CONTEXT, extend=POINTER(RunExtend),
    ),
    _returns_code(
        "rknn_wait", "1.2.0", NO_CHIP, True,
        context=CONTEXT, extend=POINTER(RunExtend),
    ),
    _returns_code(
        "rknn_outputs_get", "1.2.0", NOT_RV1106, True,
        context=CONTEXT, n_outputs=c_uint32, outputs=POINTER(Output), extend=POINTER(OutputExtend),
    ),
    _returns_code(
        "rknn_outputs_release", "1.2.0", EVERY_CHIP, True,
        context=CONTEXT, n_outputs=c_uint32, outputs=POINTER(Output),
    ),
    _returns_memory(
        "rknn_create_mem_from_phys", "1.2.0", EVERY_CHIP, True,
        ctx=CONTEXT, phys_addr=c_uint64, virt_addr=c_void_p, size=c_uint32,
    ),
    _returns_memory(
        "rknn_create_mem_from_fd", "1.2.0", EVERY_CHIP, True,
        ctx=CONTEXT, fd=c_int32, virt_addr=c_void_p, size=c_uint32, offset=c_int32,
    ),
    _returns_memory(
        "rknn_create_mem_from_mb_blk", "1.2.0", NO_CHIP, False,
        ctx=CONTEXT, mb_blk=c_void_p, offset=c_int32,
    ),
    _returns_memory("rknn_create_mem", "1.2.0", EVERY_CHIP, True, ctx=CONTEXT, size=c_uint32),
    _returns_memory(
        "rknn_create_mem2", "2.0.0b0", EVERY_CHIP, True,
        ctx=CONTEXT, size=c_uint64, alloc_flags=c_uint64,
    ),
    _returns_code(
        "rknn_destroy_mem", "1.3.0", EVERY_CHIP, True,
        ctx=CONTEXT, mem=POINTER(TensorMem),
    ),
    _returns_code(
        "rknn_set_weight_mem", "1.2.0", EVERY_CHIP, True,
        ctx=CONTEXT, mem=POINTER(TensorMem),
    ),
    _returns_code(
        "rknn_set_internal_mem", "1.2.0", EVERY_CHIP, True,
        ctx=CONTEXT, mem=POINTER(TensorMem),
    ),
    _returns_code(
        "rknn_set_io_mem", "1.2.0", EVERY_CHIP, True,
        ctx=CONTEXT, mem=POINTER(TensorMem), attr=POINTER(TensorAttr),
    ),
    _returns_code(
        "rknn_set_input_shape", "1.5.0", NO_CHIP, True,
        ctx=CONTEXT, attr=POINTER(TensorAttr),
    ),
    _returns_code(
        "rknn_set_input_shapes", "1.5.2", NOT_RV1106, True,
        ctx=CONTEXT, n_inputs=c_uint32, attr=POINTER(TensorAttr),
    ),
    _returns_code(
        "rknn_mem_sync", "1.6.0", EVERY_CHIP, True,
        context=CONTEXT, mem=POINTER(TensorMem), mode=_enumerated("rknn_mem_sync_mode"),
    ),
    _returns_code(
        "rknn_matmul_create", "1.5.0", NOT_RV1106, False,
        ctx=MATMUL_CONTEXT.pointer, info=POINTER(MatmulInfo), io_attr=POINTER(MatmulIoAttr),
    ),
    # 2.0.0b0 had it under the first name, with the second's arguments.
    *(
        _returns_code(
            name, since, NOT_RV1106, False,
            ctx=MATMUL_CONTEXT.pointer, info=POINTER(MatmulInfo), shape_num=c_int,
            dynamic_shapes=POINTER(MatmulShape), io_attrs=POINTER(MatmulIoAttr),
        )
        for name, since in (
            ("rknn_matmul_create_dyn_shape", "2.0.0b0"),
            ("rknn_matmul_create_dynamic_shape", "2.1.0"),
        )
    ),
    _returns_code(
        "rknn_matmul_set_io_mem", "1.5.0", NOT_RV1106, False,
        ctx=MATMUL_CONTEXT, mem=POINTER(TensorMem), attr=POINTER(MatmulTensorAttr),
    ),
    _returns_code(
        "rknn_matmul_set_core_mask", "1.5.0", MULTI_CORE, False,
        context=MATMUL_CONTEXT, core_mask=_enumerated("rknn_core_mask"),
    ),
    _returns_code(
        "rknn_matmul_set_quant_params", "2.0.0b0", NOT_RV1106, False,
        context=MATMUL_CONTEXT, params=POINTER(QuantParams),
    ),
    _returns_code(
        "rknn_matmul_get_quant_params", "2.0.0b0", NOT_RV1106, False,
        ctx=MATMUL_CONTEXT, params=POINTER(QuantParams), scale=POINTER(c_float),
    ),
    _returns_code(
        "rknn_matmul_set_dynamic_shape", "2.0.0b0", NOT_RV1106, False,
        ctx=MATMUL_CONTEXT, shape=POINTER(MatmulShape),
    ),
    _returns_code("rknn_matmul_run", "1.5.0", NOT_RV1106, False, ctx=MATMUL_CONTEXT),
    _returns_code("rknn_matmul_destroy", "1.5.0", NOT_RV1106, False, ctx=MATMUL_CONTEXT),
    # Up to 2.0.0b0 the fifth to seventh arguments were int subN, int subK, rknn_matmul_type; since
    # 2.1.0 the fifth is an rknn_matmul_info* and there are no more. Registers hold both forms.
    replace(
        _returns_code(
            "rknn_B_normal_layout_to_native_layout", "2.0.0b0", NOT_RV1106, False,
            B_input=c_void_p, B_output=c_void_p, K=c_int, N=c_int,
            info=Named("rknn_matmul_info *", c_void_p), sub_k=c_int, type=c_int,
        ),
        header_arguments=5,
    ),
    _returns_code(
        "rknn_register_custom_ops", "1.6.0", NOT_RV1106, False,
        ctx=CONTEXT, op=POINTER(CustomOp), custom_op_num=c_uint32,
    ),
    Function(
        "rknn_custom_op_get_op_attr",
        None,
        (
            ("op_ctx", POINTER(CustomOpContext)),
            ("attr_name", c_char_p),
            ("op_attr", POINTER(CustomOpAttr)),
        ),
        "1.6.0",
        NOT_RV1106,
    ),
)  # fmt: skip
FUNCTIONS: dict[str, Function] = {function.name: function for function in _FUNCTIONS}

# ------------------------------------------------------------------------------------ queries


@dataclass(frozen=True)
class QueryRule:
    """What `rknn_query` takes and where (Table 4-2): the structure, first version, chips."""

    structure: type[Structure]
    since: str
    families: frozenset[Family]


QUERIES: dict[Query, QueryRule] = {
    Query.IN_OUT_NUM: QueryRule(InputOutputNum, "1.2.0", EVERY_CHIP),
    Query.INPUT_ATTR: QueryRule(TensorAttr, "1.2.0", EVERY_CHIP),
    Query.OUTPUT_ATTR: QueryRule(TensorAttr, "1.2.0", EVERY_CHIP),
    Query.PERF_DETAIL: QueryRule(PerfDetail, "1.2.0", NOT_RV1106),
    Query.PERF_RUN: QueryRule(PerfRun, "1.2.0", NOT_RV1106),
    Query.SDK_VERSION: QueryRule(SdkVersion, "1.2.0", EVERY_CHIP),
    Query.MEM_SIZE: QueryRule(MemSize, "1.2.0", EVERY_CHIP),
    Query.CUSTOM_STRING: QueryRule(CustomString, "1.2.0", EVERY_CHIP),
    Query.NATIVE_INPUT_ATTR: QueryRule(TensorAttr, "1.2.0", EVERY_CHIP),
    Query.NATIVE_OUTPUT_ATTR: QueryRule(TensorAttr, "1.2.0", EVERY_CHIP),
    Query.NATIVE_NHWC_INPUT_ATTR: QueryRule(TensorAttr, "1.3.0", EVERY_CHIP),
    Query.NATIVE_NHWC_OUTPUT_ATTR: QueryRule(TensorAttr, "1.3.0", EVERY_CHIP),
    Query.INPUT_DYNAMIC_RANGE: QueryRule(InputRange, "1.5.0", NOT_RV1106),
    Query.CURRENT_INPUT_ATTR: QueryRule(TensorAttr, "1.5.0", NOT_RV1106),
    Query.CURRENT_OUTPUT_ATTR: QueryRule(TensorAttr, "1.5.0", NOT_RV1106),
    Query.CURRENT_NATIVE_INPUT_ATTR: QueryRule(TensorAttr, "1.5.2", NOT_RV1106),
    Query.CURRENT_NATIVE_OUTPUT_ATTR: QueryRule(TensorAttr, "1.5.2", NOT_RV1106),
}
"""Every query but DEVICE_MEM_INFO, whose structure no header declares."""
