"""The state behind a handle of rknn_matmul_create."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from ....rknn.matmul_product import Product
from ...device import Device
from ...device_memory import DeviceMemory
from ..contexts import DeviceContext, on_kind
from .operands import Converted
from .scaling import Scaling

_P = ParamSpec("_P")
_R = TypeVar("_R")


class MatmulContext(DeviceContext):
    """A product of one shape, or of one of several.

    `memories` are those bound to A, B and C; `scalings` what rknn_matmul_set_quant_params gave.
    """

    purpose = "a matrix product"

    def __init__(self, products: Sequence[Product], device: Device) -> None:
        super().__init__(device)
        self.products = tuple(products)
        self.product = self.products[0]
        self.memories: dict[str, DeviceMemory] = {}
        self.scalings: dict[str, Scaling] = {}
        self.converted_b = Converted()

    def release(self) -> None:
        """Let go of the memories and of what was made of them."""
        self.memories.clear()
        self.converted_b = Converted()


def on_matmul(
    function: Callable[Concatenate[MatmulContext, _P], _R],
) -> Callable[Concatenate[int, _P], _R]:
    """Let a function that works on a product's context be called with its handle, as C does."""
    return on_kind(MatmulContext)(function)
