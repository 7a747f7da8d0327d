"""Which family knows a shader, by the layer's name; a name that ends with `_` stands for more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .arithmetic import maximum, tensor_add, tensor_mul
from .reduction import maximum_of_rows, place_of_maximum, sum_of_pixels
from .selection import copy, gather
from .shader import Shader
from .softmax import softmax
from .task import ShaderTask

Family = Callable[[Shader], ShaderTask]

_EXTENSION = "com.vivantecorp.extension.evis."

FAMILIES: Mapping[str, Family] = {
    "ArgmaxLayer": place_of_maximum,
    "ReduceMeanLayer": sum_of_pixels,
    "Softmax2Layer": softmax,
    "TensorAdd": tensor_add,
    "TensorCopy": copy,
    "TensorGather": gather,
    "TensorMul": tensor_mul,
    "TensorReduceSum": sum_of_pixels,
    _EXTENSION + "maximum_U8U8toU8_": maximum,
    _EXTENSION + "minimum_U8U8toU8_": maximum,
    _EXTENSION + "reducemax_axis1_U8toF16_": maximum_of_rows,
}
