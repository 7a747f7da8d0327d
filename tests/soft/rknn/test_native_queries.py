"""The native, NHWC and current attributes of rknn_query."""

from __future__ import annotations

import ctypes

import pytest
from onnx import TensorProto

from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import Query
from anynpu.rknn.abi import TensorFormat as Fmt
from anynpu.rknn.library import RknnLibrary

from ... import models
from ...capi import SUCC, attribute, opened, query


def dims(attr: abi.TensorAttr) -> list[int]:
    return list(attr.dims[: attr.n_dims])


@pytest.mark.parametrize(
    ("soc", "channels", "int8", "half"),
    [
        # RK3588: 64 -> 4, 80 -> 6, 1 -> 2 in int8, 6 -> 2 in float16; RK3568: 255 -> 32 in int8.
        ("rk3588", 64, (4, 16), (8, 8)),
        ("rk3588", 80, (6, 16), (10, 8)),
        ("rk3588", 1, (2, 16), (2, 8)),
        ("rk3588", 6, (2, 16), (2, 8)),
        ("rk3568", 255, (32, 8), (64, 4)),
        ("rk3562", 20, (2, 16), (3, 8)),
    ],
)
def test_native_outputs_are_channel_blocks(
    npu: RknnLibrary, soc: str, channels: int, int8: tuple[int, int], half: tuple[int, int]
) -> None:
    shape, metadata = (1, channels, 4, 5), {"anynpu.soc": soc}
    for model, kind, (c1, c2) in (
        (models.quantized(shape, metadata=metadata), abi.TensorType.INT8, int8),
        (models.add_one(shape, metadata), abi.TensorType.FLOAT16, half),
    ):
        with opened(npu, model) as context:
            attr = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        assert (attr.fmt, attr.type, attr.name) == (Fmt.NC1HWC2, kind, b"y")
        assert dims(attr) == [1, c1, 4, 5, c2]  # 20 pixels, a multiple of four
        assert attr.n_elems == c1 * 4 * 5 * c2
        bytes_each = 1 if kind == abi.TensorType.INT8 else 2
        assert attr.size == attr.size_with_stride == attr.n_elems * bytes_each
        assert attr.w_stride == 0


@pytest.mark.parametrize(("h", "w", "pixels"), [(13, 13, 172), (3, 1, 4), (2, 5, 12), (1, 1, 1)])
def test_surfaces_have_pixels_to_spare(npu: RknnLibrary, h: int, w: int, pixels: int) -> None:
    """A channel block of a detector's head of 13x13 takes 172 pixels: the height is 1 then."""
    with opened(npu, models.quantized((1, 255, h, w))) as context:
        attr = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
    assert dims(attr) == [1, 16, 1, pixels, 16]
    assert attr.size == attr.size_with_stride == attr.n_elems == 16 * pixels * 16


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_native_pictures_are_nhwc(npu: RknnLibrary, channels: int) -> None:
    with opened(npu, models.quantized((1, channels, 4, 5))) as context:
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
    assert (attr.fmt, dims(attr)) == (Fmt.NHWC, [1, 4, 5, channels])
    assert (attr.w_stride, attr.size_with_stride) == (16, 4 * 16 * channels)


def test_native_features_are_channel_blocks(npu: RknnLibrary) -> None:
    with opened(npu, models.quantized((1, 20, 4, 5))) as context:
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
    assert (attr.fmt, dims(attr), attr.w_stride) == (Fmt.NC1HWC2, [1, 2, 4, 5, 16], 5)


def test_four_halves_are_a_block_on_rk3566(npu: RknnLibrary) -> None:
    """They are NHWC in name; rows aren't padded."""
    for soc, stride in (("rk3566", 5), ("rk3588", 8)):
        with opened(npu, models.add_one((1, 4, 4, 5), {"anynpu.soc": soc})) as context:
            attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        assert (attr.fmt, attr.w_stride) == (Fmt.NHWC, stride)
        assert attr.size_with_stride == 4 * stride * 4 * 2


@pytest.mark.parametrize("command", [Query.NATIVE_INPUT_ATTR, Query.NATIVE_OUTPUT_ATTR])
def test_what_is_no_image_has_no_layout(npu: RknnLibrary, command: Query) -> None:
    with opened(npu, models.add_one((2, 3))) as context:
        attr = attribute(npu, context, command)
        assert (attr.fmt, dims(attr)) == (Fmt.UNDEFINED, [2, 3])
    for kind in (TensorProto.INT64, TensorProto.BOOL):
        with opened(npu, models.passes(kind, (1, 2, 3, 4))) as context:
            attr = attribute(npu, context, command)
            assert (attr.fmt, dims(attr)) == (Fmt.NCHW, [1, 2, 3, 4])
            assert attr.w_stride == (4 if command == Query.NATIVE_INPUT_ATTR else 0)


def test_nhwc_attributes(npu: RknnLibrary) -> None:
    """Inputs of other than 1, 3 and 4 channels have no such form: the native one is answered."""
    with opened(npu, models.quantized((1, 20, 4, 5))) as context:
        native = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        assert bytes(attribute(npu, context, Query.NATIVE_NHWC_INPUT_ATTR)) == bytes(native)
        attr = attribute(npu, context, Query.NATIVE_NHWC_OUTPUT_ATTR)
        assert (attr.fmt, dims(attr), attr.w_stride) == (Fmt.NHWC, [1, 4, 5, 20], 0)
        assert attr.size == 400
    with opened(npu, models.quantized((1, 3, 4, 5))) as context:
        attr = attribute(npu, context, Query.NATIVE_NHWC_INPUT_ATTR)
        assert (attr.fmt, dims(attr), attr.w_stride) == (Fmt.NHWC, [1, 4, 5, 3], 16)
    for soc, kind, shape, channels, size in (
        ("rk3566", models.quantized, (1, 7, 5, 9), 8, 360),
        ("rk3566", models.add_one, (1, 7, 5, 9), 8, 720),
        ("rk3566", models.add_one, (1, 10, 5, 7), 12, 840),
        ("rk3588", models.quantized, (1, 7, 5, 9), 7, 320),
        ("rk3588", models.add_one, (1, 7, 5, 9), 7, 632),
    ):
        with opened(npu, kind(shape, metadata={"anynpu.soc": soc})) as context:
            attr = attribute(npu, context, Query.NATIVE_NHWC_OUTPUT_ATTR)
        assert (dims(attr)[3], attr.size_with_stride) == (channels, size)
    with opened(npu, models.add_one((2, 3))) as context:
        for command in (Query.NATIVE_NHWC_INPUT_ATTR, Query.NATIVE_NHWC_OUTPUT_ATTR):
            assert attribute(npu, context, command).fmt == Fmt.UNDEFINED


CURRENT = {
    Query.CURRENT_INPUT_ATTR: Query.INPUT_ATTR,
    Query.CURRENT_OUTPUT_ATTR: Query.OUTPUT_ATTR,
    Query.CURRENT_NATIVE_INPUT_ATTR: Query.NATIVE_INPUT_ATTR,
    Query.CURRENT_NATIVE_OUTPUT_ATTR: Query.NATIVE_OUTPUT_ATTR,
}


@pytest.mark.parametrize("command", CURRENT)
def test_a_static_model_has_no_current_shapes(
    npu: RknnLibrary, command: Query, capfd: pytest.CaptureFixture[str]
) -> None:
    is_native = command in (Query.CURRENT_NATIVE_INPUT_ATTR, Query.CURRENT_NATIVE_OUTPUT_ATTR)
    with opened(npu, models.add_one()) as context:
        attr = abi.TensorAttr()
        code = query(npu, context, command, attr)
        assert code == (Code.CTX_INVALID if is_native else Code.MODEL_INVALID)
        # A structure that is too short is found before.
        code = npu.rknn_query(context, command, ctypes.byref(attr), ctypes.sizeof(attr) - 1)
        assert code == Code.PARAM_INVALID
    assert "rknn model is static shape type" in capfd.readouterr().err


@pytest.mark.parametrize("command", [*CURRENT.values(), 10, 11])
def test_an_index_out_of_range(npu: RknnLibrary, command: int) -> None:
    with opened(npu, models.add_one()) as context:
        for index in (1, 2**32 - 1):
            attr = abi.TensorAttr(index=index)
            assert query(npu, context, command, attr) == Code.PARAM_INVALID


def test_memory_info_of_the_device_has_no_structure(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        info = abi.InputRange()
        assert query(npu, context, Query.DEVICE_MEM_INFO, info) == Code.FAIL
        assert npu.rknn_query(context, Query.DEVICE_MEM_INFO, None, 8) == Code.PARAM_INVALID


def test_every_structure_may_not_be_too_short(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        for command, rule in abi.QUERIES.items():
            size = ctypes.sizeof(rule.structure)
            buffer = ctypes.create_string_buffer(b"\xaa" * size, size)
            code = npu.rknn_query(context, command, buffer, size - 1)
            assert npu.rknn_query(context, command, None, size) == Code.PARAM_INVALID
            if command is Query.MEM_SIZE:
                assert code == SUCC, "as much is filled in as there is room for"
                assert buffer.raw[-1:] == b"\xaa"
                code = npu.rknn_query(context, command, buffer, 7)
            if command not in CURRENT:
                assert code == Code.PARAM_INVALID, command


def test_what_an_answer_leaves_alone(npu: RknnLibrary) -> None:
    """Dimensions beyond n_dims and pass_through; of texts all bytes are written."""
    with opened(npu, models.add_one()) as context:
        attr = abi.TensorAttr.from_buffer_copy(b"\xaa" * ctypes.sizeof(abi.TensorAttr))
        attr.index = 0
        assert query(npu, context, Query.INPUT_ATTR, attr) == SUCC
        assert attr.dims[:5] == [1, 4, 5, 3, 0xAAAAAAAA]
        assert attr.pass_through == 0xAA
        name = bytes(attr)[abi.TensorAttr.name.offset :][: abi.MAX_NAME_LEN]
        assert name == b"x".ljust(abi.MAX_NAME_LEN, b"\0")
        text = abi.CustomString.from_buffer_copy(b"\xaa" * ctypes.sizeof(abi.CustomString))
        assert query(npu, context, Query.CUSTOM_STRING, text) == SUCC
        assert not any(bytes(text))
