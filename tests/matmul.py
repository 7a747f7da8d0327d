"""A C client of the matrix products, and what they should give, element by element in NumPy."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary

SUCC = abi.ErrorCode.SUCC
NORM, NATIVE, TP_NORM = abi.MatmulLayout
T = abi.MatmulType

TYPES = {
    "rk3588": (T(1), T(2), T(3), T(4), T(9), T(10)),
    "rk3576": (T(1), T(2), T(4), T(5), T(6), T(7), T(8), T(11), T(12), T(15)),
    "rk3562": (T(1), T(2)),
    "rk3566": (T(1), T(2)),
    "rk3568": (T(1), T(2)),
}
"""The types of each chip."""

BLOCKS = {
    "rk3566": {"INT8": (8, 16, 32), "FLOAT16": (4, 8, 16)},
    "rk3568": {"INT8": (8, 16, 32), "FLOAT16": (4, 8, 16)},
    "rk3562": {"INT8": (16, 16, 32), "FLOAT16": (8, 8, 32)},
    "rk3576": {"INT8": (16, 32, 32), "FLOAT16": (8, 16, 32)},
    "rk3588": {"INT8": (16, 32, 32), "FLOAT16": (8, 16, 32), "INT4": (32, 64, 32)},
}
"""Columns of A, columns of B and rows of B in a native block, by chip and A's type."""

SEGMENT = {"rk3588": 8192, "rk3576": 4096}


def types_of(kind: abi.MatmulType) -> tuple[str, str, str]:
    """The names of A's, B's and C's element types."""
    a, rest = kind.name.split("_MM_")
    b, c = rest.split("_TO_")
    return a, b, c


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random values of an element type: float16, or int8 that hold int8 or int4."""
    if dtype == "FLOAT16":
        return rng.uniform(-1, 1, shape).astype(np.float16)
    bound = 8 if dtype == "INT4" else 128
    return rng.integers(-bound, bound, shape).astype(np.int8)


def encode(array: np.ndarray, dtype: str, *, high_first: bool = False) -> bytes:
    """The bytes of values in their order; two int4 share one."""
    if dtype != "INT4":
        return np.ascontiguousarray(array).tobytes()
    pairs = array.reshape(-1, 2).astype(np.uint8) & 15
    first, second = (4, 0) if high_first else (0, 4)
    return (pairs[:, 0] << first | pairs[:, 1] << second).astype(np.uint8).tobytes()


def lay_out_a(a: np.ndarray, block: int) -> np.ndarray:
    """(M, K) to (K / block, M, block)."""
    m, k = a.shape
    out = np.empty((k // block, m, block), a.dtype)
    for column in range(k):
        out[column // block, :, column % block] = a[:, column]
    return out


def lay_out_b(b: np.ndarray, block_n: int, block_k: int, segment: int | None) -> np.ndarray:
    """(K, N) to the native layout, flat, by the formula for an element's place."""
    k, n = b.shape
    rows, columns = np.arange(k)[:, None], np.arange(n)
    start = rows // (segment or k) * (segment or k)
    blocks = np.minimum(segment or k, k - start) // block_k
    row = rows - start
    place = (columns // block_n * blocks + row // block_k) * block_n + columns % block_n
    out = np.empty(k * n, b.dtype)
    out[start * n + place * block_k + row % block_k] = b
    return out


def from_blocks(c: np.ndarray, n: int) -> np.ndarray:
    """(N / block, M, block) to (M, N)."""
    block = c.shape[2]
    return np.stack([c[column // block, :, column % block] for column in range(n)], axis=1)


def shapes_of(*shapes: tuple[int, int, int]) -> ctypes.Array[abi.MatmulShape]:
    """C's array of shapes."""
    return (abi.MatmulShape * len(shapes))(*(abi.MatmulShape(*shape) for shape in shapes))


@dataclass
class Client:
    """What a program does: create, allocate, fill, set, run, read."""

    npu: RknnLibrary
    soc: str
    kind: abi.MatmulType
    shape: tuple[int, int, int]
    b_layout: abi.MatmulLayout = NORM
    ac_layout: abi.MatmulLayout = NORM
    b_quantization: int = 0
    group_size: int = 0
    more_shapes: tuple[tuple[int, int, int], ...] = ()
    context: int = 0
    mems: dict[str, Any] = field(default_factory=dict)

    def create(self) -> int:
        """The code of creating it."""
        m, k, n = self.shape
        self.info = abi.MatmulInfo(
            M=m, K=k, N=n, type=self.kind, B_layout=self.b_layout, AC_layout=self.ac_layout,
            B_quant_type=self.b_quantization, group_size=self.group_size,
        )  # fmt: skip
        handle = abi.Handle(0xDEAD)
        shapes = (self.shape, *self.more_shapes)
        self.attrs = (abi.MatmulIoAttr * len(shapes))()
        if not self.more_shapes:
            code = self.npu.rknn_matmul_create(
                ctypes.byref(handle), ctypes.byref(self.info), self.attrs
            )
        else:
            listed = shapes_of(*shapes)
            code = self.npu.rknn_matmul_create_dynamic_shape(
                ctypes.byref(handle), ctypes.byref(self.info), len(shapes), listed, self.attrs
            )
        self.context, self.attr = handle.value, self.attrs[0]
        return code

    def __enter__(self) -> Client:
        assert self.create() == SUCC
        for name in "ABC":
            size = max(getattr(attr, name).size for attr in self.attrs)
            self.mems[name] = self.npu.rknn_create_mem(self.context, size)
            assert self.mems[name]
        return self

    def __exit__(self, *_: object) -> None:
        for mem in self.mems.values():
            assert self.npu.rknn_destroy_mem(self.context, mem) == SUCC
        assert self.npu.rknn_matmul_destroy(self.context) == SUCC

    # ----------------------------------------------------------------------------- the matrices

    @property
    def types(self) -> tuple[str, str, str]:
        return types_of(self.kind)

    @property
    def blocks(self) -> tuple[int, int, int]:
        return BLOCKS[self.soc][self.types[0]]

    def select(self, number: int) -> int:
        """Take up one of the shapes."""
        self.shape = (self.shape, *self.more_shapes)[number] if number else self.shape
        shape = abi.MatmulShape(*self.shape)
        self.attr = self.attrs[number]
        return self.npu.rknn_matmul_set_dynamic_shape(self.context, ctypes.byref(shape))

    def write(self, name: str, data: bytes) -> None:
        """Fill a matrix's memory, without saying so."""
        ctypes.memmove(self.mems[name].contents.virt_addr, data, len(data))

    def set(self, name: str) -> int:
        """The code of rknn_matmul_set_io_mem."""
        attr = ctypes.byref(getattr(self.attr, name))
        return self.npu.rknn_matmul_set_io_mem(self.context, self.mems[name], attr)

    def encoded_a(self, a: np.ndarray) -> bytes:
        native = self.ac_layout == NATIVE
        return encode(lay_out_a(a, self.blocks[0]) if native else a, self.types[0])

    def encoded_b(self, b: np.ndarray) -> bytes:
        native = self.b_layout == NATIVE
        if native:
            b = lay_out_b(b, *self.blocks[1:], SEGMENT.get(self.soc))
        elif self.b_layout == TP_NORM:
            b = b.T
        return encode(b, self.types[1], high_first=native)

    def put(self, a: np.ndarray, b: np.ndarray) -> None:
        """Fill A and B, and set all three."""
        self.write("A", self.encoded_a(a))
        self.write("B", self.encoded_b(b))
        assert [self.set(name) for name in "ABC"] == [SUCC] * 3

    def run(self) -> int:
        """The code of rknn_matmul_run."""
        return self.npu.rknn_matmul_run(self.context)

    def result(self) -> np.ndarray:
        """C as (M, N); bfloat16 as float32."""
        m, _, n = self.shape
        data = ctypes.string_at(self.mems["C"].contents.virt_addr, self.attr.C.size)
        name = self.types[2]
        c = np.frombuffer(data, np.uint16 if name == "BFLOAT16" else name.lower())
        if name == "BFLOAT16":
            c = (c.astype(np.uint32) << 16).view(np.float32)
        if self.ac_layout != NATIVE:
            return c.reshape(m, n)
        return from_blocks(c.reshape(-1, m, 8 if name == "INT16" else 4), n)

    def multiply(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """All of it."""
        self.put(a, b)
        assert self.run() == SUCC
        return self.result()

    def scale(self, name: str, scales: Any, zero_points: Any = None) -> int:
        """The code of rknn_matmul_set_quant_params."""
        scale = np.ascontiguousarray(scales, np.float32).reshape(-1)
        zp = np.ascontiguousarray([] if zero_points is None else zero_points, np.int32).reshape(-1)
        params = abi.QuantParams(
            name=name.encode(),
            scale=scale.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
            scale_len=scale.size,
            zp=zp.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)) if zp.size else None,
            zp_len=zp.size,
        )
        return self.npu.rknn_matmul_set_quant_params(self.context, ctypes.byref(params))


def sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product in float64, which holds every sum of these tests exactly."""
    product: np.ndarray = a.astype(np.float64) @ b.astype(np.float64)
    return product


def saturated(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Rounded to nearest, ties to even, and limited to an integer type."""
    limits = np.iinfo(dtype)
    limited: np.ndarray = np.clip(np.rint(numbers), limits.min, limits.max).astype(dtype)
    return limited


def assert_is(
    found: np.ndarray, expected: np.ndarray, c_type: str, terms: np.ndarray | float = 0
) -> None:
    """Exactly so for integers; for floats to the type's precision, and float32's of the terms."""
    if c_type.startswith("INT"):
        np.testing.assert_array_equal(found, saturated(expected, c_type.lower()))
        return
    relative = {"FLOAT32": 2.0**-23, "FLOAT16": 2.0**-10, "BFLOAT16": 2.0**-8}[c_type]
    allowed = relative * np.abs(expected) + 2.0**-20 * terms + 2.0**-24
    assert (np.abs(found - expected) <= allowed).all()


def magnitudes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the terms of each sum add up to without their signs."""
    return sums(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
