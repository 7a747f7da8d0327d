"""The VIPLite C API and libawnn's, declared once.

Enumerations, structures and functions of the three interfaces that Allwinner's chips have, by
version. Three users derive everything else from these tables: `library.py` binds a vendor's
library with them, the soft NPU turns its functions into C callbacks with them, and `header.py`
writes C from them. The section numbers are those of Allwinner's NPU RuntimeAPI guide, version 2.3.

Structures mirror C. An enumeration's member knows its C name (`symbol`). Nothing here needs NumPy.
"""

from __future__ import annotations

import enum
from ctypes import (
    POINTER,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from typing import Any

from .. import declarations
from ..declarations import Enumeration, Named, Symbolic, symbols
from ..soc import VIP_SOCS
from ..structures import Structure, Union

# ------------------------------------------------------------------------------------ versions


class Interface(enum.Enum):
    """A version of the interface: the chips that have it, and what goes with it there.

    `label` is how the vendor counts it, `npu_version` the name that its SDK uses for the chips'
    NPU, `target` the field of a network binary (NBG) made for it (`anynpu.soc` has the chips).
    `libraries` are in the order in which they are loaded; the last one exports the functions.
    """

    V85X = ("V85x", 85, "v1")
    V1_13 = ("1.13", 113, "v2")
    V2_0 = ("2.0", 200, "v3")

    def __init__(self, label: str, number: int, npu_version: str) -> None:
        self.label = label
        self.number = number
        self.npu_version = npu_version
        found = [soc for soc in VIP_SOCS.values() if soc.npu_version == npu_version]
        self.chips = tuple(soc.name for soc in found)
        self.target = found[0].target

    @property
    def libraries(self) -> tuple[str, str]:
        """The libraries that a program links with."""
        if self is Interface.V2_0:
            return ("libVIPhal.so", "libNBGlinker.so")
        return ("libVIPuser.so", "libVIPlite.so")

    def has(self, symbol: str) -> bool:
        """Whether the interface has an enumerator or a function of that C name."""
        first, last = _FIRST_WITH.get(symbol, Interface.V85X), _LAST_WITH.get(symbol, self)
        return first.number <= self.number <= last.number

    @classmethod
    def of_version(cls, version: int) -> Interface | None:
        """The interface of a library by its `vip_get_version`, None for one not known here."""
        major, minor = version >> 16, version >> 8 & 0xFF
        if (major, minor) == (2, 0):
            return cls.V2_0
        if major == 1 and minor <= 13:
            return cls.V1_13 if minor == 13 else cls.V85X
        return None

    @classmethod
    def of_npu(cls, npu_version: str) -> Interface:
        """The interface of the chips with an NPU of that name."""
        return next(each for each in cls if each.npu_version == npu_version)


def version_text(version: int) -> str:
    """What `vip_get_version` returns, as people write it: 0x00020003 is 2.0.3."""
    return f"{version >> 16}.{version >> 8 & 0xFF}.{version & 0xFF}"


# ------------------------------------------------------------------------------- enumerations


@symbols("VIP_ERROR_", SUCCESS="VIP_SUCCESS")
class Status(Symbolic, enum.IntEnum):
    """What functions return (section 2.5)."""

    FUSA = -17
    NAN_INF = -16
    CANCELED = -15
    RECOVERY = -14
    POWER_STOP = -13
    POWER_OFF = -12
    FAILURE = -11
    NETWORK_INCOMPATIBLE = -10
    NETWORK_NOT_PREPARED = -9
    MISSING_INPUT_OUTPUT = -8
    INVALID_NETWORK = -7
    OUT_OF_MEMORY = -6
    OUT_OF_RESOURCE = -5
    NOT_SUPPORTED = -4
    INVALID_ARGUMENTS = -3
    IO = -2
    TIMEOUT = -1
    SUCCESS = 0


@symbols("VIP_BUFFER_FORMAT_")
class BufferFormat(Symbolic, enum.IntEnum):
    """The element type of a buffer."""

    FP32 = 0
    FP16 = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    CHAR = 6
    BFP16 = 7
    INT32 = 8
    UINT32 = 9
    INT64 = 10
    UINT64 = 11
    FP64 = 12
    INT4 = 13
    UINT4 = 14
    BOOL8 = 16


@symbols("VIP_BUFFER_QUANTIZE_")
class QuantizeFormat(Symbolic, enum.IntEnum):
    """How elements stand for real values: not, by a binary point, by scale and zero point."""

    NONE = 0
    DYNAMIC_FIXED_POINT = 1
    TF_ASYMM = 2


@symbols("VIP_BUFFER_MEMORY_TYPE_")
class MemoryType(Symbolic, enum.IntEnum):
    """`memory_type`: where a buffer's memory comes from."""

    DEFAULT = 0
    HOST = 1
    SECURE = 2
    DMA_BUF = 3


@symbols("VIP_CREATE_NETWORK_FROM_")
class CreateNetworkType(Symbolic, enum.IntEnum):
    """`type` of `vip_create_network` (section 2.3.2)."""

    NONE = 0
    FILE = 1
    MEMORY = 2
    FLASH = 4


@symbols("VIP_DUP_")
class DupNetworkType(Symbolic, enum.IntFlag):
    """`type` of `vip_dup_network` (section 2.4.1.4)."""

    NONE = 0
    FOR_CMD_BY_NETWORK = 1
    FOR_CMD_BY_NBG = 2
    FROM_NBG_FILE = 0x100
    FROM_NBG_MEMORY = 0x200
    FROM_NBG_FLASH = 0x400
    FROM_NETWORK = 0x800


@symbols("VIP_POWER_PROPERTY_")
class PowerProperty(Symbolic, enum.IntEnum):
    """What `vip_power_management` does."""

    NONE = 0
    SET_FREQUENCY = 1
    OFF = 2
    ON = 4
    STOP = 8
    START = 16


@symbols("VIP_QUERY_HW_PROP_")
class HardwareProperty(Symbolic, enum.IntEnum):
    """What `vip_query_hardware` answers."""

    CID = 0
    DEVICE_COUNT = 1
    CORE_COUNT_EACH_DEVICE = 2


@symbols("VIP_NETWORK_PROP_")
class NetworkProperty(Symbolic, enum.IntEnum):
    """What `vip_query_network` answers (below 64) and `vip_set_network` sets."""

    LAYER_COUNT = 0
    INPUT_COUNT = 1
    OUTPUT_COUNT = 2
    NETWORK_NAME = 3
    ADDRESS_INFO = 4
    READ_REG_IRQ = 5
    MEMORY_POOL_SIZE = 6
    PROFILING = 7
    CORE_COUNT = 8
    GET_LAYER_DUMP_OUTPUT = 9
    CHANGE_PPU_PARAM = 64
    SET_MEMORY_POOL = 65
    SET_DEVICE_ID = 66
    SET_DEVICE_INDEX = 66
    SET_PRIORITY = 67
    SET_TIME_OUT = 68
    SET_COEFF_MEMORY = 69
    SET_CORE_INDEX = 70
    SET_ENABLE_NPD = 71
    SET_VIPSRAM_PRELOAD = 72
    SET_LAYER_DUMP_ID = 73


OPERATION_RANGE = 1024
"""A network property that no header names: `uint32_t[2]`, the first and last operation to run."""


SOFT_TWIN = 0x414E5457
"""A network property that only anynpu's soft NPU has: `const char *`, the path of the ONNX file to
compute a compiled network with. Set it before the network is prepared."""

SOFT_TWIN_FOLLOWS = 1 << 30
"""A bit beside the type that `vip_create_network` gets, which only the soft NPU knows: `SOFT_TWIN`
will be set, so that what the file holds needn't be known."""


@symbols("VIP_GROUP_PROP_")
class GroupProperty(Symbolic, enum.IntEnum):
    """What `vip_query_group` answers (below 64) and `vip_set_group` sets."""

    PROFILING = 0
    SET_DEVICE_ID = 64
    SET_DEVICE_INDEX = 64
    SET_CORE_INDEX = 65
    SET_TIME_OUT = 68


@symbols("VIP_BUFFER_PROP_")
class BufferProperty(Symbolic, enum.IntEnum):
    """What `vip_query_input` and `vip_query_output` answer (section 2.3.13)."""

    QUANT_FORMAT = 0
    NUM_OF_DIMENSION = 1
    SIZES_OF_DIMENSION = 2
    DATA_FORMAT = 3
    FIXED_POINT_POS = 4
    TF_SCALE = 5
    TF_ZERO_POINT = 6
    NAME = 7


@symbols("VIP_BUFFER_OPER_TYPE_")
class BufferOperation(Symbolic, enum.IntEnum):
    """What `vip_flush_buffer` does with the processor's cache."""

    NONE = 0
    FLUSH = 1
    INVALIDATE = 2


@symbols("vip_", FALSE="vip_false_e", TRUE="vip_true_e")
class Bool(Symbolic, enum.IntEnum):
    """The interface's truth values."""

    FALSE = 0
    TRUE = 1


ENUMERATIONS: dict[str, Enumeration] = {
    "vip_bool_e": Bool,
    "vip_status_e": Status,
    "vip_buffer_format_e": BufferFormat,
    "vip_buffer_quantize_format_e": QuantizeFormat,
    "vip_buffer_memory_type_e": MemoryType,
    "vip_create_network_type_e": CreateNetworkType,
    "vip_dup_network_type_e": DupNetworkType,
    "vip_power_property_e": PowerProperty,
    "vip_query_hardware_property_e": HardwareProperty,
    "vip_network_property_e": NetworkProperty,
    "vip_group_property_e": GroupProperty,
    "vip_buffer_property_e": BufferProperty,
    "vip_buffer_operation_type_e": BufferOperation,
}
"""C's enumerations by their C names."""

# ------------------------------------------------------------------------------------- limits

MAX_DIMS = 6
MAX_NAME_LEN = 64
ALIGNMENT = 64
"""Bytes that addresses and sizes of foreign memory are multiples of (section 2.4.2)."""

LIMITS = {
    "VIP_BUFFER_QUANTIZE_MAX": max(QuantizeFormat) + 1,
    "VIP_BUFFER_MEMORY_TYPE_MAX": max(MemoryType) + 1,
    "VIP_CREATE_NETWORK_MAX": max(CreateNetworkType) + 1,
    "VIP_DUP_NETWORK_MAX": DupNetworkType.FROM_NETWORK + 1,
    "VIP_POWER_PROPERTY_MAX": max(PowerProperty) + 1,
    "VIP_QUERY_HW_PROP_MAX": max(HardwareProperty) + 1,
    "VIP_BUFFER_OPER_TYPE_MAX": max(BufferOperation) + 1,
}
"""The enumerators that only say where an enumeration ends."""

_FIRST_WITH = {
    "VIP_ERROR_FUSA": Interface.V2_0,
    "VIP_ERROR_NAN_INF": Interface.V2_0,
    "VIP_ERROR_CANCELED": Interface.V1_13,
    "VIP_BUFFER_FORMAT_BOOL8": Interface.V2_0,
    "VIP_NETWORK_PROP_GET_LAYER_DUMP_OUTPUT": Interface.V2_0,
    "VIP_NETWORK_PROP_SET_CORE_INDEX": Interface.V2_0,
    "VIP_NETWORK_PROP_SET_ENABLE_NPD": Interface.V2_0,
    "VIP_NETWORK_PROP_SET_VIPSRAM_PRELOAD": Interface.V2_0,
    "VIP_NETWORK_PROP_SET_LAYER_DUMP_ID": Interface.V2_0,
    "VIP_GROUP_PROP_SET_CORE_INDEX": Interface.V2_0,
    "vip_create_buffer_cache": Interface.V1_13,
    "vip_set_log_path": Interface.V1_13,
}
_LAST_WITH = {"VIP_NETWORK_PROP_READ_REG_IRQ": Interface.V1_13}

# --------------------------------------------------------------------------------- structures
# A field that C declares with an enumeration's type is an int here, as wide and as signed.


class DynamicFixedPoint(Structure):
    """`quant_data.dfp`: real = q / 2**fixed_point_pos."""

    _fields_ = [("fixed_point_pos", c_int32)]


class Affine(Structure):
    """`quant_data.affine` of a buffer: real = (q - zeroPoint) * scale."""

    _fields_ = [("scale", c_float), ("zeroPoint", c_int32)]


class QuantData(Union):
    """`quant_data` of vip_buffer_create_params_t; `quant_format` says which holds."""

    _fields_ = [("dfp", DynamicFixedPoint), ("affine", Affine)]


class BufferCreateParams(Structure):
    """vip_buffer_create_params_t (section 2.2.1); `sizes` has the innermost dimension first."""

    _fields_ = [
        ("num_of_dims", c_uint32),
        ("sizes", c_uint32 * MAX_DIMS),
        ("data_format", c_int),
        ("quant_format", c_int),
        ("quant_data", QuantData),
        ("memory_type", c_uint32),
    ]


class PowerFrequency(Structure):
    """vip_power_frequency_t: per cent of the highest frequency."""

    _fields_ = [("fscale_percent", c_uint8)]


class InferenceProfile(Structure):
    """vip_inference_profile_t: microseconds and cycles of the last run."""

    _fields_ = [("inference_time", c_uint32), ("total_cycle", c_uint32)]


class PpuParam(Structure):
    """vip_ppu_param_t: the work of a shader operation."""

    _fields_ = [
        ("work_dim", c_uint32),
        ("global_offset", c_uint32 * 3),
        ("global_scale", c_uint32 * 3),
        ("local_size", c_uint32 * 3),
        ("global_size", c_uint32 * 3),
    ]


class LayerDumpIds(Structure):
    """vip_nld_layer_id_t: the layers whose outputs a network keeps (2.0)."""

    _fields_ = [("layer_count", c_int32), ("layer_id", POINTER(c_int32))]


class LayerAffine(Structure):
    """`quant_data.affine` of a layer's output."""

    _fields_ = [("tf_scale", c_float), ("tf_zero_point", c_int32)]


class LayerQuantData(Union):
    """`quant_data` of vip_buffer_param_t."""

    _fields_ = [("dfp", DynamicFixedPoint), ("affine", LayerAffine)]


class BufferParam(Structure):
    """vip_buffer_param_t: what a layer's output is."""

    _fields_ = [
        ("dim_count", c_uint32),
        ("dim_size", c_uint32 * MAX_DIMS),
        ("data_format", c_uint32),
        ("quant_format", c_uint32),
        ("quant_data", LayerQuantData),
    ]


class LayerOutput(Structure):
    """vip_nld_output_info_t: one output of a layer, in memory of the caller's."""

    _fields_ = [
        ("layer_name", c_char * MAX_NAME_LEN),
        ("layer_id", c_uint32),
        ("layer_output_index", c_uint32),
        ("uid", c_uint32),
        ("param", BufferParam),
        ("size", c_uint32),
        ("memory", c_void_p),
    ]


class LayerOutputs(Structure):
    """vip_nld_output_t: what GET_LAYER_DUMP_OUTPUT fills."""

    _fields_ = [("count", c_uint32), ("info", POINTER(LayerOutput))]


STRUCTURES: dict[str, type[Structure]] = {
    "vip_buffer_create_params_t": BufferCreateParams,
    "vip_power_frequency_t": PowerFrequency,
    "vip_inference_profile_t": InferenceProfile,
    "vip_ppu_param_t": PpuParam,
    "vip_nld_layer_id_t": LayerDumpIds,
    "vip_buffer_param_t": BufferParam,
    "vip_nld_output_info_t": LayerOutput,
    "vip_nld_output_t": LayerOutputs,
}
"""C's structures by their C names, in an order in which C can declare them."""

# ---------------------------------------------------------------------------------- functions

NETWORK = Named("vip_network", c_void_p)
BUFFER = Named("vip_buffer", c_void_p)
GROUP = Named("vip_group", c_void_p)
HANDLES = (NETWORK, BUFFER, GROUP)

_STATUS = Named("vip_status_e", c_int)
_DATA = Named("const void *", c_void_p)
_TEXT = Named("char *", c_char_p)
_CREATE = POINTER(BufferCreateParams)
_CONST_CREATE = Named("const vip_buffer_create_params_t *", _CREATE)


@dataclass(frozen=True)
class Function(declarations.Function):
    """One exported function.

    `first` is the first interface that has it. `old` is the form that V85x has instead.
    `is_optional`: a document has it, and no library that was seen.
    """

    first: Interface
    old: declarations.Function | None = None
    is_optional: bool = False

    def form(self, interface: Interface) -> declarations.Function:
        """The function as an interface has it."""
        return self.old if self.old is not None and interface is Interface.V85X else self


def _function(
    name: str,
    result: Any,
    old: declarations.Function | None = None,
    is_optional: bool = False,
    **arguments: Any,
) -> Function:
    first = _FIRST_WITH.get(name, Interface.V85X)
    return Function(name, result, tuple(arguments.items()), first.label, first, old, is_optional)


def _status(name: str, **arguments: Any) -> Function:
    return _function(name, _STATUS, **arguments)


def _old(name: str, **arguments: Any) -> declarations.Function:
    return declarations.Function(name, _STATUS, tuple(arguments.items()), Interface.V85X.label)


def _enumerated(name: str) -> Named:
    assert name in ENUMERATIONS
    return Named(name, c_int)


_FUNCTIONS = (
    _function("vip_get_version", c_uint32),
    _status("vip_init", old=_old("vip_init", video_mem_size=c_uint32)),
    _status("vip_destroy"),
    _status(
        "vip_query_hardware",
        property=_enumerated("vip_query_hardware_property_e"), size=c_uint32, value=c_void_p,
    ),
    _status(
        "vip_create_buffer",
        create_param=_CREATE, size_of_param=c_uint32, buffer=BUFFER.pointer,
    ),
    _status(
        "vip_create_buffer_cache",
        create_param=_CREATE, size_of_param=c_uint32, buffer=BUFFER.pointer,
    ),
    _status(
        "vip_create_buffer_from_physical",
        create_param=_CONST_CREATE,
        physical_table=Named("const vip_address_t *", POINTER(c_uint64)),
        size_table=Named("const uint32_t *", POINTER(c_uint32)),
        physical_num=c_uint32, buffer=BUFFER.pointer,
    ),
    _status(
        "vip_create_buffer_from_handle",
        create_param=_CONST_CREATE, handle_logical=c_void_p, handle_size=c_uint32,
        buffer=BUFFER.pointer,
    ),
    _status(
        "vip_create_buffer_from_fd",
        create_param=_CONST_CREATE, fd=c_uint32, memory_size=c_uint32, buffer=BUFFER.pointer,
    ),
    _status("vip_destroy_buffer", buffer=BUFFER),
    _function("vip_map_buffer", c_void_p, buffer=BUFFER),
    _status("vip_unmap_buffer", buffer=BUFFER),
    _function("vip_get_buffer_size", c_uint32, buffer=BUFFER),
    _status(
        "vip_flush_buffer",
        buffer=BUFFER, type=_enumerated("vip_buffer_operation_type_e"),
    ),
    _status(
        "vip_create_network",
        data=_DATA, size_of_data=c_uint32, type=_enumerated("vip_create_network_type_e"),
        network=NETWORK.pointer,
    ),
    _status(
        "vip_dup_network",
        data=_DATA, size_of_data=c_uint32, type=_enumerated("vip_dup_network_type_e"),
        network=NETWORK, dup_network=NETWORK.pointer,
    ),
    # The header of 2.0 leaves it out, the library has it.
    _status("vip_weak_dup_network", network=NETWORK, dup_network=NETWORK.pointer),
    _status("vip_destroy_network", network=NETWORK),
    _status("vip_set_network", network=NETWORK, property=c_int, value=c_void_p),
    _status("vip_query_network", network=NETWORK, property=c_int, value=c_void_p),
    _status("vip_prepare_network", network=NETWORK),
    _status(
        "vip_query_input", network=NETWORK, index=c_uint32, property=c_int, value=c_void_p,
    ),
    _status(
        "vip_query_output", network=NETWORK, index=c_uint32, property=c_int, value=c_void_p,
    ),
    _status("vip_set_input", network=NETWORK, index=c_uint32, input=BUFFER),
    _status("vip_set_output", network=NETWORK, index=c_uint32, output=BUFFER),
    _status("vip_run_network", network=NETWORK),
    _status("vip_finish_network", network=NETWORK),
    _status("vip_trigger_network", network=NETWORK),
    _status("vip_wait_network", network=NETWORK),
    _status("vip_cancel_network", network=NETWORK),
    _status(
        "vip_power_management",
        old=_old(
            "vip_power_management",
            network=NETWORK, property=_enumerated("vip_power_property_e"), value=c_void_p,
        ),
        device=c_uint32, property=_enumerated("vip_power_property_e"), value=c_void_p,
    ),
    _status("vip_create_group", count=c_uint32, group=GROUP.pointer),
    _status("vip_destroy_group", group=GROUP),
    _status("vip_set_group", group=GROUP, property=c_int, value=c_void_p),
    _status("vip_query_group", group=GROUP, property=c_int, value=c_void_p),
    _status("vip_add_network", group=GROUP, network=NETWORK),
    _status("vip_run_group", group=GROUP, num=c_uint32),
    _status("vip_trigger_group", group=GROUP, num=c_uint32),
    _status("vip_wait_group", group=GROUP),
    _status("vip_set_ppu_param", network=NETWORK, param=POINTER(PpuParam), index=c_uint32),
    _status("vip_set_log_path", is_optional=True, path=_TEXT),
)  # fmt: skip
FUNCTIONS: dict[str, Function] = {function.name: function for function in _FUNCTIONS}


def functions(interface: Interface) -> dict[str, declarations.Function]:
    """The functions of an interface, in the forms that it has.

    V85x's library exports 33, and it is not on record which: all that aren't known to be newer
    are counted among them.
    """
    declared = FUNCTIONS.values()
    return {f.name: f.form(interface) for f in declared if interface.number >= f.first.number}


# ------------------------------------------------------------------------------------- libawnn

AWNN_CONTEXT = Named("Awnn_Context_t *", c_void_p)


def _awnn(name: str, result: Any, **arguments: Any) -> declarations.Function:
    return declarations.Function(name, result, tuple(arguments.items()), "libawnn")


_AWNN_FUNCTIONS = (
    _awnn("awnn_init", None),
    _awnn("awnn_uninit", None),
    _awnn("awnn_create", AWNN_CONTEXT, nbg=c_char_p),
    _awnn("awnn_destroy", None, context=AWNN_CONTEXT),
    _awnn("awnn_set_input_buffers", None, context=AWNN_CONTEXT, input_buffers=POINTER(c_void_p)),
    _awnn("awnn_run", None, context=AWNN_CONTEXT),
    _awnn("awnn_get_output_buffers", POINTER(POINTER(c_float)), context=AWNN_CONTEXT),
    _awnn("awnn_get_output_buffer", c_void_p, context=AWNN_CONTEXT, i=c_int),
    _awnn("awnn_dump_io", None, context=AWNN_CONTEXT, path=c_char_p),
)
AWNN_FUNCTIONS = {function.name: function for function in _AWNN_FUNCTIONS}
"""libawnn's functions (section 3); the fields of its context are no one's business."""

# ---------------------------------------------------------------------------------- properties

BUFFER_VALUES: dict[BufferProperty, Any] = {
    BufferProperty.QUANT_FORMAT: c_int32,
    BufferProperty.NUM_OF_DIMENSION: c_uint32,
    BufferProperty.SIZES_OF_DIMENSION: c_uint32 * MAX_DIMS,
    BufferProperty.DATA_FORMAT: c_int32,
    BufferProperty.FIXED_POINT_POS: c_int32,
    BufferProperty.TF_SCALE: c_float,
    BufferProperty.TF_ZERO_POINT: c_int32,
    BufferProperty.NAME: c_char * MAX_NAME_LEN,
}
"""What `value` of `vip_query_input` and `vip_query_output` points to."""

NETWORK_VALUES: dict[NetworkProperty, Any] = {
    NetworkProperty.LAYER_COUNT: c_uint32,
    NetworkProperty.INPUT_COUNT: c_uint32,
    NetworkProperty.OUTPUT_COUNT: c_uint32,
    NetworkProperty.NETWORK_NAME: c_char * MAX_NAME_LEN,
    NetworkProperty.MEMORY_POOL_SIZE: c_uint32,
    NetworkProperty.PROFILING: InferenceProfile,
    NetworkProperty.CORE_COUNT: c_uint8,
    NetworkProperty.GET_LAYER_DUMP_OUTPUT: LayerOutputs,
    NetworkProperty.CHANGE_PPU_PARAM: c_uint32,
    NetworkProperty.SET_MEMORY_POOL: BUFFER,
    NetworkProperty.SET_DEVICE_INDEX: c_uint32,
    NetworkProperty.SET_PRIORITY: c_uint8,
    NetworkProperty.SET_TIME_OUT: c_uint32,
    NetworkProperty.SET_COEFF_MEMORY: BUFFER,
    NetworkProperty.SET_CORE_INDEX: c_int32,
    NetworkProperty.SET_ENABLE_NPD: c_int32,
    NetworkProperty.SET_VIPSRAM_PRELOAD: c_int32,
    NetworkProperty.SET_LAYER_DUMP_ID: LayerDumpIds,
}
"""What `value` of `vip_query_network` and `vip_set_network` points to; a `BUFFER` is itself passed.

What ADDRESS_INFO and READ_REG_IRQ point to is in no header.
"""

GROUP_VALUES: dict[GroupProperty, Any] = {
    GroupProperty.PROFILING: InferenceProfile,
    GroupProperty.SET_DEVICE_INDEX: c_uint32,
    GroupProperty.SET_CORE_INDEX: c_int32,
    GroupProperty.SET_TIME_OUT: c_uint32,
}
"""What `value` of `vip_query_group` and `vip_set_group` points to."""

HARDWARE_VALUES: dict[HardwareProperty, Any] = {
    HardwareProperty.CID: c_uint32,
    HardwareProperty.DEVICE_COUNT: c_uint32,
    HardwareProperty.CORE_COUNT_EACH_DEVICE: c_uint32,
}
"""What `value` of `vip_query_hardware` points to; the last has one for each device."""
