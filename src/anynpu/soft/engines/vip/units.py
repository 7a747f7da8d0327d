"""The chip's units, by the kind of an operation: who makes a description of it.

What carries a description out is registered with `reference.compute`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...formats.nbg.model import OperationKind, Source
from .commands.nn import POINTERS
from .decode.matrix_product import (
    decode_made_product,
    decode_matrix_product,
    is_turned_product,
)
from .decode.nn import decode_nn
from .decode.shader import decode_shader
from .decode.sp import decode_sp
from .decode.tp import decode_tp
from .operation import OperationContext
from .reference import matrix_product as _matrix_product
from .reference import nn as _nn
from .reference import shader as _shader
from .reference import sp as _sp
from .reference import tp as _tp
from .tasks import Task

Decoder = Callable[[OperationContext], Task]

_COMPUTED_KERNELS = 1 << 19
"""The bit of word 27 that says that a command's kernels come from memory."""

_BLOCK_TRANSPOSE = 2
"""The bit of word 31 that says that words have other meanings."""


def _has_made_coefficients(context: OperationContext) -> bool:
    place = POINTERS["coefficients"]
    if not context.has(place) or context.words[31] & _BLOCK_TRANSPOSE:
        return False
    return context.address(place).space.source is Source.CONSTANTS


def _decode_nn(context: OperationContext) -> Task:
    is_product = context.words[27] & _COMPUTED_KERNELS or is_turned_product(context)
    if is_product and not context.words[31] & _BLOCK_TRANSPOSE:
        return decode_matrix_product(context)
    if _has_made_coefficients(context):
        return decode_made_product(context)
    return decode_nn(context)


DECODERS: Mapping[int, Decoder] = {
    OperationKind.NN: _decode_nn,
    OperationKind.NN_TABLE: _decode_nn,
    OperationKind.NN_TRANSPOSE: decode_nn,
    OperationKind.SHADER: decode_shader,
    OperationKind.SP: decode_sp,
    OperationKind.TP: decode_tp,
}

__all__ = ["DECODERS", "Decoder", "_matrix_product", "_nn", "_shader", "_sp", "_tp"]
