"""The state behind a handle of rknn_matmul_create."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from ....native.matmul import Int8Product
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
    `in_place` is the product of matrices where they lie, once it has been computed: `change` says
    that other ones are to be multiplied, or in another way.
    """

    purpose = "a matrix product"

    def __init__(self, products: Sequence[Product], device: Device) -> None:
        super().__init__(device)
        self.products = tuple(products)
        self.product = self.products[0]
        self.memories: dict[str, DeviceMemory] = {}
        self.scalings: dict[str, Scaling] = {}
        self.converted_b = Converted()
        self.in_place: Int8Product | None = None

    def change(self) -> None:
        """Forget what was made ready for the matrices and scales so far."""
        self.in_place = None

    def release(self) -> None:
        """Let go of the memories and of what was made of them."""
        self.change()
        self.memories.clear()
        self.converted_b = Converted()


def on_matmul(
    function: Callable[Concatenate[MatmulContext, _P], _R],
) -> Callable[Concatenate[int, _P], _R]:
    """Let a function that works on a product's context be called with its handle, as C does."""
    return on_kind(MatmulContext)(function)
