"""What a product is to the model of a chip's clock."""

from __future__ import annotations

from ....rknn.matmul_product import Product
from ...engines.program import Layer


def layer(product: Product) -> Layer:
    """The product as a layer of a network."""
    sizes = product.sizes
    return Layer(
        name=product.kind.symbol,
        op_type="MatMul",
        inputs=((product.m, product.k), (product.k, product.n)),
        output=(product.m, product.n),
        dtype=product.operands.a,
        macs=product.m * product.k * product.n,
        read_bytes=sizes["A"] + sizes["B"],
        written_bytes=sizes["C"],
        weight_bytes=sizes["B"],
        channels_in=product.k,
        channels_out=product.n,
    )
