"""The `.nb` file: what is read of real ones and of ours, and what damage does."""

from __future__ import annotations

import contextlib
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anynpu
from anynpu.soft.formats import nbg
from anynpu.soft.formats.nbg import writer

from ..shared import NBG_SAMPLES

TARGETS = {"t527": 0x10000016, "a733": 0x1000003B, "v853": 0xEE}
INPUT = nbg.Tensor("x", (5, 4, 3, 1), 2, 2, scale=0.5, zero_point=7)
OUTPUT = nbg.Tensor("y", (10, 1), 5, 1, fixed_point_pos=12)
PLAIN = nbg.Tensor("z" * 80, (6,), 1, 0)


def soft(**changes: object) -> bytes:
    contents: dict[str, object] = {
        "name": "net",
        "target": 0x10000016,
        "cores": 1,
        "inputs": (INPUT, PLAIN),
        "outputs": (OUTPUT,),
        "layers": ("first", "second"),
        "memory_pool_size": 4096,
    }
    return writer.write_soft(b"the model", **(contents | changes))  # type: ignore[arg-type]


SOFT = soft()


def samples() -> list[Path]:
    return sorted(NBG_SAMPLES.rglob("*.nb"))


def require_samples() -> list[Path]:
    found = samples()
    if not found:
        pytest.skip(f"{NBG_SAMPLES} has no files")
    return found


# -------------------------------------------------------------------------------- what is written


def test_what_is_written_is_read() -> None:
    read = nbg.read(SOFT)
    assert (read.name, read.version, read.target, read.size) == (
        "net", 0x10020, 0x10000016, len(SOFT),
    )  # fmt: skip
    assert (read.cores, read.memory_pool_size, read.vip_sram_size) == (1, 4096, 0)
    assert read.inputs[0] == INPUT
    assert read.inputs[1].name == "z" * 63
    assert read.outputs == (OUTPUT,)
    assert [layer.name for layer in read.layers] == ["first", "second"]
    assert [operation.layer for operation in read.operations] == [None, 0, 1]
    assert [section.name for section in read.sections][-1] == "ONNX"
    assert read.onnx == b"the model"


def test_a_tensor_s_shape_and_size() -> None:
    assert INPUT.shape == (1, 3, 4, 5)
    assert (INPUT.elements, INPUT.size) == (60, 60)
    assert OUTPUT.size == 20
    assert nbg.Tensor("n", (3,), 13, 0).size == 2


@given(
    st.builds(
        nbg.Tensor,
        name=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=15),
        dims=st.lists(st.integers(1, 20), min_size=1, max_size=6).map(tuple),
        format=st.sampled_from([*range(15), 16]),
        quantization=st.just(2),
        scale=st.floats(2.0**-100, 2.0**100, width=32),
        zero_point=st.integers(-(2**31), 2**31 - 1),
    )
)
def test_any_tensor_is_read_as_it_was_written(tensor: nbg.Tensor) -> None:
    read = nbg.read(soft(inputs=(tensor,), outputs=(tensor, PLAIN)))
    assert read.inputs == (tensor,)
    assert read.outputs[0] == tensor


def test_more_dimensions_than_there_is_room_for() -> None:
    with pytest.raises(anynpu.ModelError, match="more than 6 dimensions"):
        soft(inputs=(nbg.Tensor("x", (1,) * 7, 2, 0),))


def test_names_are_cut_between_characters() -> None:
    assert nbg.read(soft(name="é" * 40)).name == "é" * 31


# ------------------------------------------------------------------------------------ real files


def test_every_real_file_is_read() -> None:
    for path in require_samples():
        read = nbg.read(path.read_bytes())
        assert read.onnx is None
        assert read.inputs
        assert read.outputs
        assert read.layers
        assert read.operations[0].layer is None
        assert read.cores == 1
        sections = [(section.offset, section.offset + section.size) for section in read.sections]
        assert max(end for _, end in sections) <= read.size
        chip = path.name.rsplit(".", 2)[-2]
        if chip in TARGETS:
            assert read.target == TARGETS[chip]


def test_tensors_are_those_of_the_model_a_file_was_made_from() -> None:
    require_samples()
    compared = 0
    for path in samples():
        model = path.with_name(path.name.rsplit(".", 2)[0] + ".onnx")
        if not model.is_file() or path.name.startswith("acuity"):
            continue
        graph = onnx.load(model).graph
        constants = {tensor.name for tensor in graph.initializer}
        read = nbg.read(path.read_bytes())
        shapes = [
            [
                tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)
                for info in infos
                if info.name not in constants
            ]
            for infos in (graph.input, graph.output)
        ]
        assert [tensor.shape for tensor in read.inputs] == shapes[0], path
        assert [tensor.shape for tensor in read.outputs] == shapes[1], path
        with np.load(path.with_name(model.stem + ".npz")) as arrays:
            names = [name for name in arrays.files if name.startswith("in_")]
            assert sorted(arrays[name].shape for name in names) == sorted(shapes[0]), path
            for tensor in read.outputs:
                assert_holds(tensor, arrays["q_out"])
        compared += 1
    assert compared > 90


def assert_holds(tensor: nbg.Tensor, values: np.ndarray) -> None:
    """The toolkit's quantised results must be multiples of what the file says."""
    if tensor.quantization == 2:
        steps = values / tensor.scale
    elif tensor.quantization == 1:
        steps = values * 2.0**tensor.fixed_point_pos
    else:
        return
    # The toolkit's own scales are those of the file, but for rounding.
    assert np.abs(steps - np.rint(steps)).max() < 0.05


def test_the_newest_toolkit_s_description_agrees() -> None:
    require_samples()
    files = sorted(NBG_SAMPLES.glob("*.meta.json"))
    assert files
    for file in files:
        described = json.loads(file.read_text())
        read = nbg.read(file.with_name(file.name.replace(".meta.json", ".nb")).read_bytes())
        assert read.version == 0x20005
        for side, tensors in (("Inputs", read.inputs), ("Outputs", read.outputs)):
            entries = list(described[side].values())
            assert [tuple(entry["shape"]) for entry in entries] == [t.shape for t in tensors]
            for entry, tensor in zip(entries, tensors, strict=True):
                assert tensor.format == 2
                assert tensor.scale == pytest.approx(entry["quantize"]["scale"], rel=1e-6)
                assert tensor.zero_point == entry["quantize"]["zero_point"]


# ---------------------------------------------------------------------------------------- damage


@given(length=st.integers(0, len(SOFT) - 1))
def test_every_truncation_is_noticed(length: int) -> None:
    with pytest.raises(anynpu.ModelError, match=r"truncated|not a \.nb"):
        nbg.read(SOFT[:length])


def with_word(offset: int, value: int) -> bytes:
    data = bytearray(SOFT)
    struct.pack_into("<I", data, offset, value)
    return bytes(data)


INPUTS_AT = 920
ONNX_AT = nbg.read(SOFT).sections[-1].offset


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, 0, "not a .nb file"),
        (4, 0x30001, "version 0x30001 at offset 4"),
        (4, 0x10002, "version 0x10002 at offset 4"),
        (4, 0x20005, "truncated .nb file"),
        (76, 3, "not 3 entries of 76"),
        (80, 2, "not 2 entries of 24 or 28 or 32"),
        (84, 0xFFFFFFFF, "section 'inputs' at offset 920"),
        (376, 0x7FFFFFFF, "section 'inputs', which offset 376 announces"),
        (376, 380, "inside the header"),
        (INPUTS_AT, 0, "0 dimensions"),
        (INPUTS_AT, 7, "7 dimensions"),
        (INPUTS_AT + 4, 0, "sizes"),
        (INPUTS_AT + 4, 0xFFFFFFFF, "sizes"),
        (INPUTS_AT + 28, 15, "format 15"),
        (INPUTS_AT + 36, 3, "quantisation 3"),
        (INPUTS_AT + 44, 0x7FC00000, "scale nan"),
        (INPUTS_AT + 44, 0, "scale 0.0"),
        (INPUTS_AT + 3 * 116 + 2 * 76 + 32 + 8, 2, "belongs to layer 2 of 2"),
        (ONNX_AT + 8, 1000, "an ONNX file of 1000 bytes"),
    ],
)
def test_what_is_wrong_is_said_with_its_offset(offset: int, value: int, message: str) -> None:
    with pytest.raises(anynpu.ModelError, match=message):
        nbg.read(with_word(offset, value))


def test_a_fixed_point_position_that_makes_no_sense() -> None:
    with pytest.raises(anynpu.ModelError, match="fixed-point position 100"):
        nbg.read(soft(outputs=(nbg.Tensor("y", (3,), 5, 1, fixed_point_pos=100),)))


# ----------------------------------------------------------------------------------- version 2.x


def version_2(tensor: bytes = b"", cut: int = 0) -> bytes:
    """A file of version 2.x with an input, an output, a layer and two operations."""
    entry = tensor or struct.pack(
        "<I6IIIIfi64s", 4, 8, 8, 3, 1, 1, 1, 2, 0, 2, 0.5, 128, b"input/output[0]"
    )
    parts = {
        0x23: (struct.pack("<64sI152x", b"tiny_NCHW", 1), 220),
        0x26: (struct.pack("<I", 45568), 4),
        1: (entry, 112),
        2: (entry, 112),
        3: (struct.pack("<64sIII", b"ConvolutionReluPoolingLayer2", 4, 1, 0xFFFFFFFF), 76),
        4: (struct.pack("<16I", 0xFFFF, 0xFFFF, 0xFFFFFFFF, *[0] * 5, 2, *[0] * 7), 32),
        7: (bytes(192), 192),
        0x28: (b"", 8),
    }
    offset, table, body = 60 + 44 * len(parts), b"", b""
    for kind, (part, item) in parts.items():
        table += struct.pack("<IQQ12xI8x", kind, offset + len(body), len(part), item)
        body += part
    size = offset + len(body) - cut
    head = struct.pack("<4sIIIQII16x", b"VPMN", 0x20005, 0x10000016, 0, size, 48, 12)
    head += struct.pack("<III", 60, 44, len(parts))
    return (head + table + body)[:size]


def test_a_file_of_version_2() -> None:
    read = nbg.read(version_2())
    assert (read.name, read.version, read.target) == ("tiny_NCHW", 0x20005, 0x10000016)
    assert (read.cores, read.memory_pool_size, read.vip_sram_size) == (1, 0, 45568)
    expected = nbg.Tensor("input/output[0]", (8, 8, 3, 1), 2, 2, scale=0.5, zero_point=128)
    assert read.inputs == read.outputs == (expected,)
    assert [layer.name for layer in read.layers] == ["ConvolutionReluPoolingLayer2"]
    assert [(o.kind, o.layer) for o in read.operations] == [(0xFFFF, None), (2, 0)]
    assert [section.name for section in read.sections] == [
        "network", "VIP SRAM", "inputs", "outputs", "layers", "operations", "NN operations",
    ]  # fmt: skip


def test_a_fixed_point_in_version_2() -> None:
    """As in the structures of the C API, it lies where the scale would be."""
    entry = struct.pack("<I6IIIIii64s", 1, 9, *[1] * 5, 5, 0, 1, 12, 0, b"y")
    assert nbg.read(version_2(entry)).inputs == (nbg.Tensor("y", (9,), 5, 1, fixed_point_pos=12),)


def test_damaged_files_of_version_2() -> None:
    whole = version_2()
    with pytest.raises(anynpu.ModelError, match="offset 16 announces"):
        nbg.read(whole[:-1])
    with pytest.raises(anynpu.ModelError, match="section 'NN operations', which offset"):
        nbg.read(version_2(cut=1))
    for position in range(len(whole)):
        for value in (0, 0xFF):
            data = bytearray(whole)
            data[position] = value
            with contextlib.suppress(anynpu.ModelError):
                nbg.read(bytes(data))


def mutations(count: int, seed: int) -> Iterator[bytes]:
    """Files with a few bytes or words changed, or a part cut out."""
    originals = [
        SOFT,
        soft(layers=()),
        version_2(),
        *(path.read_bytes()[:65536] for path in samples()),
    ]
    rng = random.Random(seed)
    edges = [0, 1, 2**31 - 1, 2**32 - 1, 0x80000000, 0x10000]
    for _ in range(count):
        data = bytearray(rng.choice(originals))
        for _ in range(rng.randint(1, 4)):
            # Most of what matters lies in front.
            position = rng.randrange(min(len(data), rng.choice([100, 700, 1600, len(data)])) - 3)
            if rng.random() < 0.5:
                data[position] = rng.randrange(256)
            else:
                struct.pack_into("<I", data, position & ~3, rng.choice(edges))
        if rng.random() < 0.1:
            start = rng.randrange(len(data))
            del data[start : start + rng.randrange(100)]
        yield bytes(data)


def test_damaged_files() -> None:
    for data in mutations(3000, 1):
        with contextlib.suppress(anynpu.ModelError):
            nbg.read(data)


@pytest.mark.nightly
def test_very_many_damaged_files() -> None:
    for data in mutations(100_000, 2):
        with contextlib.suppress(anynpu.ModelError):
            nbg.read(data)
