"""A graph's inputs and outputs as ports."""

from __future__ import annotations

import pytest

import anynpu
from anynpu.soft.engines import NativeForm, Normalization
from anynpu.soft.engines.compiled.ports import variant_of
from anynpu.soft.formats.rknn.model import InputNormalization, TensorLayout
from anynpu.tensor import DType, Layout, Quantization

from .parts import IDENTITY, blocked, model_of, plain

EDGES = ((0,), (1,))


def given(
    mean: tuple[float, ...], std: tuple[float, ...], order: tuple[int, ...] = (0, 1, 2, 3)
) -> InputNormalization:
    return InputNormalization(mean, std, order)


def test_a_picture_and_features() -> None:
    x = blocked("x", (1, 3, 4, 5), 3, scale=(0.5,), zero_point=(-3,))
    y = blocked("y", (1, 40, 4, 5), 16)
    normalization = given((1, 2, 3, 1), (4, 5, 6, 4))
    model = model_of([x, y], edges=EDGES, normalizations=(normalization,))
    variant = variant_of(model, model.graphs[0])
    (source,), (target,) = variant.inputs, variant.outputs
    assert (source.name, source.shape, source.dtype) == ("x", (1, 3, 4, 5), DType.INT8)
    assert source.quantization == Quantization(0.5, -3)
    assert source.normalization == Normalization((1, 2, 3), (4, 5, 6))
    assert source.native == NativeForm(Layout.NHWC, (1, 4, 5, 3))
    assert target.native == NativeForm(Layout.NC1HWC2, (1, 3, 4, 5, 16))
    assert target.normalization is None


def test_plain_tensors_and_a_batch() -> None:
    x = plain("x", (2, 3, 4, 5), layout=TensorLayout.NCHW)
    model = model_of([x, plain("y", (2, 7))], edges=EDGES, batch=4)
    variant = variant_of(model, model.graphs[0])
    assert variant.inputs[0].shape == (8, 3, 4, 5)
    assert variant.inputs[0].native == NativeForm(Layout.NCHW, (8, 3, 4, 5))
    assert variant.outputs[0].native == NativeForm(Layout.UNDEFINED, (8, 7))


@pytest.mark.parametrize(
    ("channels", "normalization", "expected"),
    [
        (16, IDENTITY, None),
        (16, given((2,) * 4, (3,) * 4), Normalization((2,), (3,))),
        (1, given((2, 0, 0, 2), (3, 1, 1, 3)), Normalization((2,), (3,))),
    ],
)
def test_normalisations(
    channels: int, normalization: InputNormalization, expected: Normalization | None
) -> None:
    x = blocked("x", (1, channels, 2, 2), 16)
    model = model_of([x], edges=((0,), ()), normalizations=(normalization,))
    assert variant_of(model, model.graphs[0]).inputs[0].normalization == expected


@pytest.mark.parametrize(
    ("channels", "normalization"),
    [
        (16, given((1, 2, 3, 4), (1,) * 4)),  # of which channel is which?
        (3, given((1, 2, 3, 1), (1,) * 4, (2, 1, 0, 3))),
    ],
)
def test_normalisations_that_nobody_has_described(
    channels: int, normalization: InputNormalization
) -> None:
    x = blocked("x", (1, channels, 2, 2), 16)
    model = model_of([x], edges=((0,), ()), normalizations=(normalization,))
    with pytest.raises(anynpu.ModelError, match="which anynpu doesn't know"):
        variant_of(model, model.graphs[0])


def test_a_batch_that_no_memory_holds_is_refused() -> None:
    model = model_of([blocked("x", (1, 16, 64, 64), 16)], edges=((0,), ()), batch=999_999)
    with pytest.raises(anynpu.ModelError, match="too large"):
        variant_of(model, model.graphs[0])
