"""Calibration data of strangers: the file is named, and nothing large is made of it."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

import anynpu
from anynpu.soft.build.calibration import CalibrationFolder

from .. import models

SHAPE = (1, 3, 16, 16)
_MOST_BYTES = 8 << 20


def reader(folder: Path, model: bytes | None = None) -> CalibrationFolder:
    return CalibrationFolder(folder, onnx.load_from_string(model or models.convolution()), {})


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def announcing(shape: object, dtype: str = "<f4", header: int | None = None) -> bytes:
    """A .npy file of 64 bytes that says it holds an array of some shape."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    begin = b"\x93NUMPY\x02\x00" + struct.pack("<I", header if header is not None else len(text))
    return begin + text + bytes(64)


def png(width: int, height: int) -> bytes:
    """A sound beginning of a picture, as large as it says."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


WHOLE = npy(np.zeros(SHAPE, np.float32))


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("short.npy", WHOLE[:-1], "takes 3072 bytes; the file has another number of them"),
        ("long.npy", WHOLE + b"x", "takes 3072 bytes; the file has another number of them"),
        ("shorter.npy", WHOLE[:20], "header that isn't known"),
        ("empty.npy", b"", "not in the .npy format"),
        ("large.npy", announcing((1 << 40, 3, 16, 16)), "has the shape"),
        ("header.npy", announcing(SHAPE, header=0xFFFFFFFF), "header of 4294967295 bytes"),
        ("nested.npy", announcing("(" * 3000), "header that isn't known"),
        ("negative.npy", announcing((1, 3, -16, -16)), "has the shape"),
        ("words.npy", announcing("(1, 3, 'a', 16)"), "isn't known|has the shape"),
        ("pickled.npy", npy(np.array([{}])), "what is pickled isn't read"),
        ("text.npy", npy(np.full(SHAPE, "a")), "not numbers"),
        ("nan.npy", npy(np.full(SHAPE, np.nan, np.float32)), "aren't finite"),
        ("infinite.npy", npy(np.full(SHAPE, 1e300)), "aren't finite"),
        ("cut.png", png(16, 16)[:40], "not an image that can be read"),
        ("large.png", png(100_000, 100_000), "10000000000|100000x100000 pixels"),
        ("other.png", b"GIF89a" + bytes(40), "not an image that can be read"),
        ("text.jpg", b"hello", "not an image that can be read"),
    ],
)
def test_a_file_is_named(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(data)
    with little_memory(), pytest.raises(anynpu.OptionError, match=problem) as error:
        reader(tmp_path).get_next()
    assert name in str(error.value)


@contextmanager
def little_memory() -> Iterator[None]:
    """Python and NumPy take no more than a few megabytes."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < _MOST_BYTES
    finally:
        tracemalloc.stop()


def archive(
    folder: Path, members: dict[str, bytes], zeros: int = 0, compression: int = zipfile.ZIP_STORED
) -> None:
    """A .npz file; past the last member's bytes there is a given number of zeros."""
    with zipfile.ZipFile(folder / "data.npz", "w", compression) as file:
        for name, data in members.items():
            with file.open(name, "w") as member:
                member.write(data)
                for _ in range(zeros >> 20 if name == list(members)[-1] else 0):
                    member.write(bytes(1 << 20))


ONE = npy(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"a.npy": ONE}, "not .'a', 'b'."),
        ({"a.npy": ONE, "b.npy": ONE, "c.npy": ONE}, "not .'a', 'b'."),
        ({"a.npy": ONE, "b.npy": b""}, "not in the .npy format"),
        ({"a.npy": ONE, "b.npy": ONE}, "another number of them"),
        ({"a.npy": ONE, "b.npy": announcing((1 << 40, 3))}, "'b' has the shape"),
        ({"a.npy": ONE, "b.npy": npy(np.array([{}, {}]))}, "pickled"),
    ],
)
def test_an_archive_s_arrays_are_named(
    tmp_path: Path, members: dict[str, bytes], problem: str
) -> None:
    archive(tmp_path, members, zeros=1 << 28, compression=zipfile.ZIP_DEFLATED)
    with little_memory(), pytest.raises(anynpu.OptionError, match=problem) as error:
        reader(tmp_path, models.two_inputs()).get_next()
    assert "data.npz" in str(error.value)


def damage(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize("change", [lambda d: d[:-30], lambda d: damage(d, 60), lambda _: b"PK"])
def test_damaged_archives(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    archive(tmp_path, {"a.npy": ONE, "b.npy": ONE})
    path = tmp_path / "data.npz"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(anynpu.OptionError, match=r"data\.npz"):
        reader(tmp_path, models.two_inputs()).get_next()


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(anynpu.OptionError, match=r"a\.npy is not a file"):
        reader(tmp_path).get_next()


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "|u1", "<i2", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [SHAPE, SHAPE[1:], (1, 16, 16, 3), (16, 16, 3)])
def test_arrays_are_read_as_numpy_reads_them(
    tmp_path: Path, dtype: str, order: str, shape: tuple[int, ...]
) -> None:
    values = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    np.save(tmp_path / "a.npy", np.asarray(values, order=order))  # type: ignore[call-overload]
    feeds = reader(tmp_path).get_next()
    assert feeds is not None
    wanted = values.reshape((1, *values.shape[-3:]))
    if wanted.shape != SHAPE:
        wanted = wanted.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(feeds["x"], wanted.astype(np.float32))
