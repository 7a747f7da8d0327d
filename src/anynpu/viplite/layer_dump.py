"""The outputs of single layers, which networks of 2.0 keep when they are asked to."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..errors import StateError
from ..shared_arrays import SharedArrays
from ..tensor import Quantization, TensorInfo
from . import abi
from .formats import own_values, size_of, stored_dtype, stored_shape
from .queries import element_type, layout_of, text
from .runtime import Handle
from .status import check


@dataclass(frozen=True)
class LayerOutput:
    """One output of a layer: `values` is a copy, quantised as `info` says."""

    layer: str
    layer_id: int
    info: TensorInfo
    values: NDArray[Any]


class LayerDump:
    """The layers of a network that are kept: `vip_nld_layer_id_t` and `vip_nld_output_t`."""

    def __init__(self, handle: Handle, layer_ids: Sequence[int]) -> None:
        self._ids = (ctypes.c_int32 * len(layer_ids))(*layer_ids)
        self._wanted = abi.LayerDumpIds(len(layer_ids), self._ids)
        self._found = abi.LayerOutputs()
        prop = abi.NetworkProperty.SET_LAYER_DUMP_ID
        code = handle.library.vip_set_network(handle.value, int(prop), ctypes.byref(self._wanted))
        check("vip_set_network", code, f"{prop.symbol} {list(layer_ids)}")
        prop = abi.NetworkProperty.GET_LAYER_DUMP_OUTPUT
        code = handle.library.vip_query_network(handle.value, int(prop), ctypes.byref(self._found))
        check("vip_query_network", code, prop.symbol)

    def outputs(self) -> list[LayerOutput]:
        """What the last run left, copied; raises `StateError` before one."""
        return [_output(each) for each in self._found.info[: self._found.count]]


def _output(found: Any) -> LayerOutput:
    param, layer = found.param, text(found.layer_name)
    shape = tuple(param.dim_size[: min(param.dim_count, abi.MAX_DIMS)])[::-1]
    name = f"{layer}:{found.layer_output_index}"
    dtype = element_type(int(param.data_format), name)
    size = size_of(shape, dtype)
    if not found.memory or found.size < size:
        raise StateError(f"the output {name!r} is not there before a run of the prepared network")
    info = TensorInfo(
        index=int(found.layer_output_index),
        name=name,
        shape=shape,
        dtype=dtype,
        layout=layout_of(shape),
        quantization=_quantization(param),
        size=size,
        size_with_stride=int(found.size),
    )
    stored = SharedArrays().array(
        found, found.memory, found.size, stored_shape(shape, dtype), stored_dtype(dtype)
    )
    return LayerOutput(layer, int(found.layer_id), info, own_values(stored, info).copy())


def _quantization(param: Any) -> Quantization | None:
    if param.quant_format == abi.QuantizeFormat.DYNAMIC_FIXED_POINT:
        return Quantization.fixed_point(int(param.quant_data.dfp.fixed_point_pos))
    if param.quant_format == abi.QuantizeFormat.TF_ASYMM:
        affine = param.quant_data.affine
        return Quantization(float(affine.tf_scale), int(affine.tf_zero_point))
    return None
