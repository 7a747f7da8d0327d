"""vip_query_input and vip_query_output, vip_set_input and vip_set_output."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ...viplite.abi import BUFFER_VALUES, BufferProperty
from ..formats.nbg import Tensor
from .answers import name_of, put
from .buffers import BUFFERS, Buffer
from .failure import invalid
from .networks import Network, on_network


@on_network
def vip_query_input(network: Network, index: int, property: int, value: int | None) -> None:
    """What the network binary says of an input."""
    _answer(_tensor(network.nbg.inputs, index, "input"), property, value)


@on_network
def vip_query_output(network: Network, index: int, property: int, value: int | None) -> None:
    """What the network binary says of an output."""
    _answer(_tensor(network.nbg.outputs, index, "output"), property, value)


@on_network
def vip_set_input(network: Network, index: int, input: int | None) -> None:
    """Let an input live in a buffer, from the next run on."""
    _ = network.prepared
    _bind(network.inputs, _tensor(network.nbg.inputs, index, "input"), index, input)


@on_network
def vip_set_output(network: Network, index: int, output: int | None) -> None:
    """Let an output live in a buffer, from the next run on."""
    _ = network.prepared
    _bind(network.outputs, _tensor(network.nbg.outputs, index, "output"), index, output)


def _tensor(tensors: Sequence[Tensor], index: int, side: str) -> Tensor:
    if not 0 <= index < len(tensors):
        raise invalid(f"there is no {side} {index}; the network has {len(tensors)}")
    return tensors[index]


def _answer(tensor: Tensor, property: int, value: int | None) -> None:
    answers = {
        BufferProperty.QUANT_FORMAT: tensor.quantization,
        BufferProperty.NUM_OF_DIMENSION: len(tensor.dims),
        BufferProperty.SIZES_OF_DIMENSION: tensor.dims,
        BufferProperty.DATA_FORMAT: tensor.format,
        BufferProperty.FIXED_POINT_POS: tensor.fixed_point_pos,
        BufferProperty.TF_SCALE: tensor.scale,
        BufferProperty.TF_ZERO_POINT: tensor.zero_point,
        BufferProperty.NAME: name_of(tensor.name),
    }
    if property not in answers:
        raise invalid(f"a tensor has no property {property}")
    wanted = BufferProperty(property)
    kind = BUFFER_VALUES[wanted]
    if wanted is BufferProperty.SIZES_OF_DIMENSION:
        # A program may have room for no more than what NUM_OF_DIMENSION said.
        kind = ctypes.c_uint32 * len(tensor.dims)
    put(value, kind, answers[wanted])


def _bind(bindings: dict[int, Buffer], tensor: Tensor, index: int, handle: int | None) -> None:
    buffer = BUFFERS.find(handle)
    if buffer.size < tensor.size:
        raise invalid(
            f"the buffer for {tensor.name!r} has {buffer.size} bytes; the tensor takes "
            f"{tensor.size}"
        )
    bindings[index] = buffer
