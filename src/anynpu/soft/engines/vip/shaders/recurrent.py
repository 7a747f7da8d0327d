"""Steps of recurrent networks, behind the products of their inputs and states."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from ..rounding import to_halves
from .quantized import F16, U8, reals_of, to_bytes, types
from .shader import Shader
from .task import Array, ShaderTask

_F32 = np.float32

_LSTM, _GRU = "cf6c40807b3f0089", "6375c0a86205771a"
"""Programs of float16 sums of products to uint8 states."""

_LSTM_OF_HALVES, _GRU_OF_HALVES = "f10f853524dfe34d", "8ba95a0088b9828d"
"""Those to float16 states."""

_NO_LIMIT = 0x7BFFFFFF
"""A float32 so large that it limits nothing."""

_LOG2_E, _TWO_LOG2_E = 0x3FB8AA3B, 0x4038AA3B
"""As float32: what an argument is multiplied by for a power of two."""

_SIGN = 1 << 31


def _sigmoid(values: Array) -> Array:
    with np.errstate(over="ignore"):
        result: Array = _F32(1) / (_F32(1) + np.exp2(-values * _F32(np.log2(np.e))))
    return result


def _tanh(values: Array) -> Array:
    with np.errstate(over="ignore"):
        power = np.exp2(-values * _F32(2 * np.log2(np.e)))
    result: Array = _F32(2) / (_F32(1) + power) - _F32(1)
    return result


def lstm_unit(shader: Shader) -> ShaderTask:
    """One step of an LSTM: its output twice, and the cell's state as float16.

    Sums of the input and of the state for each gate are float16; gates come in the order input,
    forget, cell, output.
    """
    registers = range(0x00, 0x180, 0x20)
    if shader.program not in (_LSTM, _LSTM_OF_HALVES):
        raise Unknown(f"a step of {shader.name!r} in this form")
    is_real = shader.program == _LSTM_OF_HALVES
    *inputs, output, cell, state = shader.images(*registers)
    images = (*inputs, output, cell, state)
    result = F16 if is_real else U8
    if types(*images) != (F16,) * 9 + (result, F16, result):
        raise Unknown(f"a step of {shader.name!r} of other types")
    if any(image.shape != output.shape for image in images):
        raise Unknown(f"a step of {shader.name!r} of images of different sizes")
    shader.expect({0x180: 0, 0x194: _LOG2_E, 0x198: _TWO_LOG2_E})
    if is_real:
        shader.expect({0x1E0 + 4 * lane: _NO_LIMIT for lane in range(4)})
        shader.expect({0x1F0 + 4 * lane: _NO_LIMIT | _SIGN for lane in range(4)})
        shader.expect({0x19C: 0})
    scale, zero = (_F32(1), _F32(0)) if is_real else (shader.real(0x200), shader.real(0x204))

    def function(*values: Array) -> tuple[Array, ...]:
        reals = [reals_of(part) for part in values]
        sums = [one + other for one, other in zip(reals[:4], reals[5:], strict=True)]
        enter, forget, new, leave = sums
        kept = _sigmoid(forget) * reals[4] + _sigmoid(enter) * _tanh(new)
        real = _sigmoid(leave) * _tanh(kept)
        found = to_halves(real) if is_real else to_bytes(real * scale + zero)
        return found, to_halves(kept), found

    return ShaderTask(tuple(inputs), output, function, (cell, state))


def gru_cell(shader: Shader) -> ShaderTask:
    """One step of a GRU that resets behind the product: its state twice.

    Sums of the input and of the state are float16, for the update, the reset and the new state.
    """
    if shader.program == _GRU_OF_HALVES:
        return _gru_of_halves(shader)
    if shader.program != _GRU:
        raise Unknown(f"a step of {shader.name!r} in this form")
    *inputs, output, state = shader.images(*range(0x00, 0x120, 0x20))
    images = (*inputs, output, state)
    if types(*images) != (U8,) + (F16,) * 6 + (U8, U8):
        raise Unknown(f"a step of {shader.name!r} of other types")
    if any(image.shape != output.shape for image in images):
        raise Unknown(f"a step of {shader.name!r} of images of different sizes")
    shader.expect({0x1F8: _LOG2_E | _SIGN, 0x1FC: _TWO_LOG2_E | _SIGN})
    own_scale, own_constant = shader.real(0x1E0), shader.real(0x1E4)
    scale, zero = shader.real(0x1E8), shader.real(0x1EC)

    def function(before: Array, *values: Array) -> tuple[Array, ...]:
        own = before.astype(_F32) * own_scale + own_constant
        reals = [reals_of(part) for part in values]
        update, reset = _sigmoid(reals[0] + reals[3]), _sigmoid(reals[1] + reals[4])
        new = _tanh(reals[2] + reset * reals[5])
        found = to_bytes((update * (own - new) + new) * scale + zero)
        return found, found

    return ShaderTask(tuple(inputs), output, function, (state,))


def _gru_of_halves(shader: Shader) -> ShaderTask:
    """The same with a state of float16."""
    *inputs, output, state = shader.images(*range(0x00, 0x120, 0x20))
    images = (*inputs, output, state)
    if types(*images) != (F16,) * 9 or any(image.shape != output.shape for image in images):
        raise Unknown(f"a step of {shader.name!r} of other types or sizes")
    shader.expect({0x1E8: _LOG2_E | _SIGN, 0x1EC: _TWO_LOG2_E | _SIGN})

    def function(*values: Array) -> tuple[Array, ...]:
        before, *reals = (reals_of(part) for part in values)
        update, reset = _sigmoid(reals[0] + reals[3]), _sigmoid(reals[1] + reals[4])
        new = _tanh(reals[2] + reset * reals[5])
        found = to_halves((_F32(1) - update) * new + update * before)
        return found, found

    return ShaderTask(tuple(inputs), output, function, (state,))
