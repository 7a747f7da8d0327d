"""`Matmul`: a matrix product on the NPU, with NumPy arrays in and out."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import soc as socs
from ..errors import ArgumentTypeError, OptionError, StateError, TensorError
from ..lifetime import Closeable
from ..soc import Soc
from . import abi
from .handle import ContextHandle
from .library import RknnLibrary, load
from .matmul_arrays import read_c, write_a, write_b
from .matmul_product import Product
from .matmul_rules import CHIPS, operands
from .memory import Memory

__all__ = ["Matmul", "matmul"]


class Matmul(Closeable):
    """C = A times B on the NPU: `rknn_matmul_create` to `rknn_matmul_destroy`.

        with Matmul(1, 4096, 4096, type="INT8_MM_INT8_TO_INT32") as product:
            product.set_b(weights)          # packed once
            for vector in vectors:
                result = product.run(vector)

    A is (M, K), B is (K, N), C is (M, N). `M` may be several numbers: then each `run` takes A with
    one of them. K and N may be any: they are padded to what the chip asks for. `type` is a
    `MatmulType` or its name, of the element types of A, B and C:

    ===========  =====================================================================
    on the NPU   as a NumPy array
    ===========  =====================================================================
    INT8         int8
    INT4         int8 with values of -8..7; packed two to a byte here
    FLOAT16      float16; A and B may also be float32, which are rounded
    INT32        int32; sums outside its range saturate
    INT16        int16; sums outside its range saturate
    FLOAT32      float32
    BFLOAT16     float32
    ===========  =====================================================================

    In memory the matrices lie as `b_layout` and `ac_layout` say; arrays are rearranged here:

    ========  ======================  ==================================  ====================
    layout    A                       B                                   C
    ========  ======================  ==================================  ====================
    NORM      (M, K)                  (K, N)                              (M, N)
    NATIVE    (K / a, M, a)           (N / n, K / k, n, k), in parts of   (N / 4, M, 4), with
                                      8192 (RK3588) or 4096 (RK3576)      INT16 (N / 8, M, 8)
                                      rows of B, one after the other
    TP_NORM   no                      (N, K), not on RK3566 and RK3568    no
    ========  ======================  ==================================  ====================

    Here a, n and k are blocks of the chip and of A's type (`rknn/matmul_rules.py`), on RK3588 and
    RK3576: INT8 a 16, n 32, k 32; FLOAT16 a 8, n 16, k 32; INT4 a 32, n 64, k 32.

    `b_quantization` says how many scales B has (`set_quantization`), `group_size` how many of B's
    rows share one where it is PER_GROUP. `soc` is the chip, by default ``$ANYNPU_SOC``, the board's
    or RK3588; `library` is what `rknn.library.load` takes.

    One thread at a time may use it. Close it with `close()` or `with`; it also closes when it is
    collected. Raises `OptionError` for what the chip can't do, `TensorError` for arrays that don't
    fit, `CallError` for failed calls, `ClosedError` after `close`. Sections 4.4 and 4.5 of the
    RKNN C API reference.
    """

    def __init__(
        self,
        M: int | Sequence[int],
        K: int,
        N: int,
        *,
        type: abi.MatmulType | str = abi.MatmulType.INT8_MM_INT8_TO_INT32,
        b_layout: abi.MatmulLayout | str = abi.MatmulLayout.NATIVE,
        ac_layout: abi.MatmulLayout | str = abi.MatmulLayout.NORM,
        b_quantization: abi.MatmulQuantization | str = abi.MatmulQuantization.PER_LAYER_SYM,
        group_size: int = 0,
        soc: Soc | str | None = None,
        library: str | os.PathLike[str] | RknnLibrary | None = None,
    ) -> None:
        runtime = load(library)
        chip = _chip(soc, runtime)
        self.m = (M,) if isinstance(M, int) else tuple(M)
        self.k, self.n = K, N
        if not self.m or min(*self.m, K, N) < 1:
            raise OptionError(f"M={M}, K={K} and N={N}; all must be positive")
        self.type = _member(abi.MatmulType, type)
        base = Product(
            chip,
            self.type,
            self.m[0],
            K,
            N,
            _member(abi.MatmulLayout, b_layout),
            _member(abi.MatmulLayout, ac_layout),
            _member(abi.MatmulQuantization, b_quantization),
            group_size=group_size,
        )
        self._products = {m: base.padded(m) for m in self.m}
        self._product = next(iter(self._products.values()))
        handle = ContextHandle(runtime, self._create(runtime, chip), "rknn_matmul_destroy")
        self._handle = handle
        self._finalizer = weakref.finalize(self, handle.close)
        self._has_b = False
        self._zero_of_a = 0
        try:
            self._allocate()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------------------- lifetime

    @property
    def library(self) -> RknnLibrary:
        """The runtime library that it lives in."""
        return self._handle.library

    @property
    def handle(self) -> int:
        """The `rknn_matmul_ctx` value; raises `ClosedError` after `close()`."""
        return self._handle.value

    def close(self) -> None:
        """`rknn_matmul_destroy`; closing twice does nothing."""
        self._arrays: dict[str, NDArray[np.uint8]] = {}
        self._memories: dict[str, Memory] = {}
        self._finalizer()

    # ------------------------------------------------------------------------------- settings

    def set_core_mask(self, mask: abi.CoreMask) -> None:
        """Choose the core: section 4.5.3; RK3576 and RK3588 only, and one core only."""
        code = self.library.rknn_matmul_set_core_mask(self.handle, int(mask))
        self.library.check("rknn_matmul_set_core_mask", code, f"mask {mask!r}")

    def set_quantization(
        self, matrix: str, scale: ArrayLike, zero_point: ArrayLike | None = None
    ) -> None:
        """Say what a matrix's integers stand for, (integer - zero point) * scale: section 4.5.4.

        `matrix` is "A", "B" or "C". `scale` and `zero_point` are numbers; for B with PER_CHANNEL
        arrays of (N,), with PER_GROUP of (K / group size, N). Zero points need B's ASYM ways, for
        A and C they are always allowed. Until it is called scales are 1 and zero points 0.
        """
        shape = self._scale_shape(matrix)
        padded = (*shape[:-1], self._product.n) if shape else ()
        scales = _padded(np.asarray(scale, np.float32), shape, padded, 1, f"{matrix}: scale")
        zeros = np.zeros(padded, np.int32)
        if zero_point is not None:
            given = np.asarray(zero_point, np.int32)
            zeros = _padded(given, shape, padded, 0, f"{matrix}: zero_point")
        params = abi.QuantParams(
            name=matrix.encode(),
            scale=scales.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
            scale_len=scales.size,
            zp=zeros.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            zp_len=zeros.size,
        )
        code = self.library.rknn_matmul_set_quant_params(self.handle, ctypes.byref(params))
        self.library.check(
            "rknn_matmul_set_quant_params", code, f"{matrix}: {scales.size} scales; {self.type!r}"
        )
        if matrix == "A":
            self._zero_of_a = int(zeros)

    def normal_scale(self) -> float:
        """What times A's scale is the scale of an int32 C, with PER_CHANNEL B: section 4.5.5."""
        params, scale = abi.QuantParams(name=b"B"), ctypes.c_float()
        code = self.library.rknn_matmul_get_quant_params(
            self.handle, ctypes.byref(params), ctypes.byref(scale)
        )
        self.library.check("rknn_matmul_get_quant_params", code, f"{self.type!r}")
        return scale.value

    # -------------------------------------------------------------------------------- product

    def set_b(self, b: NDArray[Any]) -> None:
        """Pack matrix B (K, N) into the NPU's memory, where it stays for the runs that follow."""
        _check_matrix("B", b, ((self.k, self.n),))
        write_b(self._product, b, self._array("B"))
        self._set_memory("B")
        self._has_b = True

    def run(
        self, a: NDArray[Any], b: NDArray[Any] | None = None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """A times B: A (M, K) is copied to the NPU's memory, C (M, N) is a new array, or `out`.

        Without `b` it is that of `set_b`; `StateError` where there is none.
        """
        _check_matrix("A", a, tuple((m, self.k) for m in self.m))
        self._select(a.shape[0])
        if b is not None:
            self.set_b(b)
        elif not self._has_b:
            raise StateError("matrix B is missing: call set_b, or give it to run")
        if out is not None and out.shape != (a.shape[0], self.n):
            raise TensorError(
                f"C has shape {(a.shape[0], self.n)}; out has {out.shape}: leave it out, or give "
                f"one of C's"
            )
        write_a(self._product, a, self._array("A"), self._zero_of_a)
        self._set_memory("A")
        self.library.check(
            "rknn_matmul_run", self.library.rknn_matmul_run(self.handle), str(self._product)
        )
        return read_c(self._product, self._array("C"), self.n, out)

    __call__ = run

    def _create(self, runtime: RknnLibrary, chip: Soc) -> int:
        value, info = abi.Handle(), self._product.info()
        count = len(self.m)
        attrs = (abi.MatmulIoAttr * count)()
        runtime = runtime.for_chip(chip)
        if count == 1:
            call = "rknn_matmul_create"
            code = runtime.rknn_matmul_create(ctypes.byref(value), ctypes.byref(info), attrs)
        else:
            call = "rknn_matmul_create_dynamic_shape"
            products = self._products.values()
            shapes = (abi.MatmulShape * count)(*(abi.MatmulShape(p.m, p.k, p.n) for p in products))
            code = runtime.rknn_matmul_create_dynamic_shape(
                ctypes.byref(value), ctypes.byref(info), count, shapes, attrs
            )
        if code:
            problem = self._product.problem() or str(self._product)
            runtime.check(call, code, f"{problem}; library: {runtime.path}")
        self._attrs = dict(zip(self._products, attrs, strict=True))
        return int(value.value)

    def _allocate(self) -> None:
        self._memories, self._arrays = {}, {}
        for name in "ABC":
            size = max(getattr(attr, name).size for attr in self._attrs.values())
            pointer = self.library.rknn_create_mem(self.handle, size)
            if not pointer:
                self.library.check(
                    "rknn_create_mem", abi.ErrorCode.MALLOC_FAIL, f"{size} bytes for {name}"
                )
            self._memories[name] = Memory(self._handle, pointer)
            self._arrays[name] = self._memories[name].array()
        self._set_memory("C")

    def _select(self, m: int) -> None:
        product = self._products[m]
        if product is self._product:
            return
        shape = abi.MatmulShape(product.m, product.k, product.n)
        code = self.library.rknn_matmul_set_dynamic_shape(self.handle, ctypes.byref(shape))
        self.library.check("rknn_matmul_set_dynamic_shape", code, str(product))
        self._product = product
        self._set_memory("C")

    def _set_memory(self, name: str) -> None:
        attr = getattr(self._attrs[self._product.m], name)
        pointer = self._memories[name].pointer
        code = self.library.rknn_matmul_set_io_mem(self.handle, pointer, ctypes.byref(attr))
        self.library.check("rknn_matmul_set_io_mem", code, f"matrix {name} of {self._product}")

    def _array(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a matrix's memory, as many as the shape in use has."""
        _ = self.handle
        return self._arrays[name][: getattr(self._attrs[self._product.m], name).size]

    def _scale_shape(self, matrix: str) -> tuple[int, ...]:
        if matrix not in ("A", "B", "C"):
            raise OptionError(f"there is no matrix {matrix!r}, only A, B and C")
        if matrix == "B" and self._product.is_per_group:
            return self.k // self._product.group_size, self.n
        return (self.n,) if matrix == "B" and self._product.is_per_channel else ()


def matmul(
    a: NDArray[Any],
    b: NDArray[Any],
    *,
    soc: Soc | str | None = None,
    library: str | os.PathLike[str] | RknnLibrary | None = None,
) -> NDArray[Any]:
    """A (..., K) times B (K, N) on the NPU, as a new array of (..., N).

    int8 times int8 gives exact int32. float16 gives float32, float32 is rounded to float16 first;
    with an int8 B too, which is converted where the chip has no product of the two. The product is
    made for this one call: use `Matmul` for a B that stays. `soc` and `library` are those of
    `Matmul`. Raises `TensorError` for other dtypes and shapes.
    """
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        raise ArgumentTypeError(
            f"A and B are NumPy arrays; found {type(a).__name__} and {type(b).__name__}: convert "
            f"them with np.asarray(..., np.float32)"
        )
    if a.ndim < 1 or b.ndim != 2 or a.shape[-1] != b.shape[0] or not a.size or not b.size:
        raise TensorError(
            f"A is (..., K), B is (K, N), neither is empty; they have {a.shape} and {b.shape}: "
            f"A's last axis has to be as long as B's first"
        )
    runtime = load(library)
    chip = _chip(soc, runtime)
    kind = _kind_for(a.dtype, b.dtype, chip)
    if operands(kind).b.numpy != b.dtype:
        b = b.astype(operands(kind).b.numpy)
    rows = a.reshape(-1, a.shape[-1])
    with Matmul(*rows.shape, b.shape[1], type=kind, soc=chip, library=runtime) as product:
        return product.run(rows, b).reshape(*a.shape[:-1], b.shape[1])


def _kind_for(a: np.dtype[Any], b: np.dtype[Any], chip: Soc) -> abi.MatmulType:
    floats = (np.float16, np.float32)
    if a == np.int8 and b == np.int8:
        return abi.MatmulType.INT8_MM_INT8_TO_INT32
    if a in floats and b == np.int8:
        mixed = abi.MatmulType.FLOAT16_MM_INT8_TO_FLOAT32
        has_it = chip.name in CHIPS and mixed in CHIPS[chip.name].types
        return mixed if has_it else abi.MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32
    if a in floats and b in floats:
        return abi.MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32
    raise TensorError(
        f"A of {a} times B of {b}: only int8, float16 and float32 are multiplied; convert them, "
        f"such as with array.astype(np.float32)"
    )


def _chip(soc: Soc | str | None, runtime: RknnLibrary) -> Soc:
    wanted = socs.find(soc) if isinstance(soc, str) else soc
    board = None if runtime.is_soft else socs.detect()
    if wanted and board and wanted is not board:
        raise OptionError(f"soc={wanted.name}, but this board has {board.name}: leave soc out")
    chip = wanted or board or socs.chosen() or socs.detect() or socs.DEFAULT
    if chip.name not in CHIPS:
        raise OptionError(f"{chip.name} has no matrix products, only {', '.join(CHIPS)}")
    return chip


def _member(enumeration: Any, value: Any) -> Any:
    """A member of an enumeration, from itself, its number or its name."""
    try:
        return enumeration[value] if isinstance(value, str) else enumeration(value)
    except (KeyError, ValueError):
        names = ", ".join(enumeration.__members__)
        raise OptionError(f"{value!r} is no {enumeration.__name__}: {names}") from None


def _check_matrix(name: str, array: NDArray[Any], shapes: tuple[tuple[int, int], ...]) -> None:
    if array.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise TensorError(
            f"matrix {name} has shape {expected}; this array has {array.shape}: give one of that "
            f"shape, or make a Matmul for this one"
        )


def _padded(
    array: NDArray[Any], shape: tuple[int, ...], padded: tuple[int, ...], value: float, what: str
) -> NDArray[Any]:
    if array.shape != shape:
        raise TensorError(f"{what} has shape {shape or 'of one number'}; found {array.shape}")
    result = np.full(padded, value, array.dtype)
    result[tuple(slice(length) for length in shape)] = array
    return result
