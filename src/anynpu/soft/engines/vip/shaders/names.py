"""Which family knows a shader, by the layer's name; a name that ends with `_` stands for more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .activation import activation, nearest_whole, rounding, sign
from .arithmetic import maximum, tensor_add, tensor_div, tensor_mul
from .coefficients import LAYER
from .comparison import choice, comparison, logic
from .normalization import (
    batch_normalization,
    instance_means,
    instance_normalization,
    instance_sums,
    layer_normalization,
    length_normalization,
)
from .padding import padding
from .pooling import average_pooling, max_pooling
from .power import tensor_pow
from .products import (
    convolution,
    depthwise_convolution,
    fully_connected,
    product_of_tensors,
    transposed_convolution,
)
from .recurrent import gru_cell, lstm_unit
from .reduction import extreme, place_of_maximum, place_of_minimum, product, sum_of_pixels
from .resizing import resize_bilinear, resize_nearest, tensor_scale
from .selection import copy, gather, repetition, slice_rows
from .shader import Shader
from .slopes import slopes, slopes_of_reals
from .softmax import log_softmax, softmax
from .task import ShaderTask

Family = Callable[[Shader], ShaderTask]

_EXTENSION = "com.vivantecorp.extension.evis."

FAMILIES: Mapping[str, Family] = {
    "ActivationLayer": activation,
    "ArgmaxLayer": place_of_maximum,
    "BatchNormalizationLayer": batch_normalization,
    LAYER: convolution,
    "BatchGemm": product_of_tensors,
    "DeConvolutionLayer": transposed_convolution,
    "DepthwiseConvLayer": depthwise_convolution,
    "FullyConnectedLayer": fully_connected,
    "L2NormalizeLayer": length_normalization,
    "LayerNormalizationLayer": layer_normalization,
    "LogsoftmaxLayer": log_softmax,
    "Max Pooling": max_pooling,
    "PReluLayer": slopes,
    "PoolingLayer2": average_pooling,
    "ReduceMeanLayer": sum_of_pixels,
    "Softmax2Layer": softmax,
    "TensorAdd": tensor_add,
    "TensorCopy": copy,
    "TensorDiv": tensor_div,
    "TensorGather": gather,
    "TensorMul": tensor_mul,
    "TensorPadOperation2": padding,
    "TensorPow": tensor_pow,
    "TensorReduceSum": sum_of_pixels,
    "TensorSelectLayer": choice,
    "TensorRounding": rounding,
    "TensorScale": tensor_scale,
    "TensorStrideSlice": slice_rows,
    "TensorTile": repetition,
    "TensorSub": tensor_add,
    "RelationalOpsLayer": comparison,
    _EXTENSION + "argmin_axis0_F16toI16_": place_of_minimum,
    _EXTENSION + "argmin_axis1_F16toI16_": place_of_minimum,
    _EXTENSION + "argmin_axis0_U8toI16_": place_of_minimum,
    _EXTENSION + "argmin_axis1_U8toI16_": place_of_minimum,
    _EXTENSION + "grucell_reset_after_activation_F": gru_cell,
    _EXTENSION + "grucell_reset_after_activation_U": gru_cell,
    _EXTENSION + "instance_norm_U8_F32toU8_": instance_normalization,
    _EXTENSION + "instance_norm_F16_F32toF16_": instance_normalization,
    _EXTENSION + "instance_norm_means": instance_means,
    _EXTENSION + "instance_norm_sums_F16_": instance_sums,
    _EXTENSION + "instance_norm_sums_U8_": instance_sums,
    _EXTENSION + "layer_norm_axis0_U8_F32toU8_2D": layer_normalization,
    _EXTENSION + "lstmunit_activation_S_F16toF16_F": lstm_unit,
    _EXTENSION + "logical_and_I8toI8_": logic,
    _EXTENSION + "logical_not_I8toI8_": logic,
    _EXTENSION + "logical_or_I8toI8_": logic,
    _EXTENSION + "lstmunit_activation_S_F16toU8_F1": lstm_unit,
    _EXTENSION + "maximum_F16F16toF16_": maximum,
    _EXTENSION + "maximum_F16F16toU8_": maximum,
    _EXTENSION + "maximum_U8F16toU8_": maximum,
    _EXTENSION + "maximum_U8U8toU8_": maximum,
    _EXTENSION + "minimum_F16F16toF16_": maximum,
    _EXTENSION + "minimum_F16F16toU8_": maximum,
    _EXTENSION + "minimum_U8F16toU8_": maximum,
    _EXTENSION + "minimum_U8U8toU8_": maximum,
    _EXTENSION + "prelu_U8F16toF16_": slopes_of_reals,
    _EXTENSION + "reducemax_axis0_U8toF16_": extreme,
    _EXTENSION + "reducemax_axis0_U8toU8_": extreme,
    _EXTENSION + "reducemax_axis1_F16toF16_": extreme,
    _EXTENSION + "reducemax_axis1_U8toF16_": extreme,
    _EXTENSION + "reducemax_axis1_U8toU8_": extreme,
    _EXTENSION + "reducemin_axis0_U8toF16_": extreme,
    _EXTENSION + "reducemin_axis0_U8toU8_": extreme,
    _EXTENSION + "reducemin_axis1_F16toF16_": extreme,
    _EXTENSION + "reducemin_axis1_U8toF16_": extreme,
    _EXTENSION + "reducemin_axis1_U8toU8_": extreme,
    _EXTENSION + "reduceprod_axis0_U8toF16_": product,
    _EXTENSION + "reduceprod_axis1_F16toF16_": product,
    _EXTENSION + "reduceprod_axis1_U8toF16_": product,
    _EXTENSION + "resize_bilinear_U8toU8_SAME_2x_u": resize_bilinear,
    _EXTENSION + "resize_nearest_F16toF16_": resize_nearest,
    _EXTENSION + "resize_nearest_U8toU8_": resize_nearest,
    _EXTENSION + "round_F16toF16_": nearest_whole,
    _EXTENSION + "round_U8toF16_": nearest_whole,
    _EXTENSION + "sign_U8toF16_": sign,
}
