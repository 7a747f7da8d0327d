"""What a tensor is: `DType`, `Layout`, `Quantization` and `TensorInfo`, for every vendor alike."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@enum.unique
class DType(enum.Enum):
    """An element type; `bits` is the size of one element."""

    FLOAT32 = ("float32", 32)
    FLOAT16 = ("float16", 16)
    INT8 = ("int8", 8)
    UINT8 = ("uint8", 8)
    INT16 = ("int16", 16)
    UINT16 = ("uint16", 16)
    INT32 = ("int32", 32)
    UINT32 = ("uint32", 32)
    INT64 = ("int64", 64)
    UINT64 = ("uint64", 64)
    FLOAT64 = ("float64", 64)
    BOOL = ("bool", 8)
    INT4 = (None, 4, "signed")
    UINT4 = (None, 4, "unsigned")
    BFLOAT16 = (None, 16)

    def __init__(self, numpy_name: str | None, bits: int, _kind: str = "") -> None:
        # The kind tells apart those that NumPy doesn't have; members with one value would be one.
        self.numpy_name = numpy_name
        self.bits = bits

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; TypeError for INT4, UINT4 and BFLOAT16, which it doesn't have."""
        import numpy as np

        if self.numpy_name is None:
            raise TypeError(f"NumPy has no dtype for {self.name}")
        dtype: np.dtype[Any] = np.dtype(self.numpy_name)
        return dtype

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> DType | None:
        """The element type of a NumPy dtype in native byte order, None where there is none."""
        return _by_numpy().get(dtype)

    @property
    def is_quantizable(self) -> bool:
        """Whether it is an integer type of which quantised values are stored as elements."""
        return self in _QUANTIZABLE

    def size_of(self, elements: int) -> int:
        """Bytes that `elements` elements take; two of 4 bits share a byte."""
        return (elements * self.bits + 7) // 8


@cache
def _by_numpy() -> dict[np.dtype[Any], DType]:
    return {member.numpy: member for member in DType if member.numpy_name}


_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64)
_QUANTIZABLE = frozenset(
    DType[name] for name in ["INT4", "UINT4", "INT8", "UINT8", "INT16", "UINT16"]
)
_HOSTED = {DType.INT4: DType.INT8, DType.UINT4: DType.UINT8}


class Layout(enum.Enum):
    """The order of a tensor's axes in memory.

    NC1HWC2 packs channels into blocks of C2: axes (N, C1, H, W, C2), channel = C1 * C2 + C2 index.
    UNDEFINED is a plain row-major array whose axes have no image meaning.
    """

    NCHW = "NCHW"
    NHWC = "NHWC"
    NC1HWC2 = "NC1HWC2"
    UNDEFINED = "UNDEFINED"


@dataclass(frozen=True)
class Quantization:
    """Affine quantisation of a whole tensor: real = (q - zero_point) * scale.

    Dynamic fixed point is the case of ``scale = 2 ** -binary_point`` and zero point 0, where
    `binary_point` says how many bits are after the point; it is None for other scales.
    """

    scale: float
    zero_point: int
    binary_point: int | None = None

    @classmethod
    def fixed_point(cls, binary_point: int) -> Quantization:
        """Dynamic fixed point: real = q / 2 ** binary_point."""
        return cls(2.0**-binary_point, 0, binary_point)


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a model.

    `shape` is in the order of `layout`; `dtype` is what the device holds. `size` counts bytes
    without padding, `size_with_stride` with it. `width_stride` is the pixels from one row to the
    next, 0 where rows aren't padded. `quantization` is None for tensors that hold real values.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: DType
    layout: Layout
    quantization: Quantization | None
    size: int
    size_with_stride: int
    width_stride: int = 0

    @property
    def is_real(self) -> bool:
        """Whether a person sees real values: those of quantised and of float tensors."""
        return self.quantization is not None or self.dtype in _FLOATS

    @property
    def host_dtype(self) -> DType:
        """The dtype a person works with: float32 for real values, else the tensor's own.

        NumPy has none for 4 bits: those take and give 8.
        """
        return DType.FLOAT32 if self.is_real else _HOSTED.get(self.dtype, self.dtype)

    @property
    def scale(self) -> float:
        """The quantisation's scale, 1.0 where there is none."""
        return self.quantization.scale if self.quantization else 1.0

    @property
    def zero_point(self) -> int:
        """The quantisation's zero point, 0 where there is none."""
        return self.quantization.zero_point if self.quantization else 0

    def __str__(self) -> str:
        dims = "x".join(map(str, self.shape))
        text = f"{self.name}: {self.dtype.name} {dims} {self.layout.value}"
        if self.quantization and self.quantization.binary_point is not None:
            text += f" fixed point {self.quantization.binary_point}"
        elif self.quantization:
            text += f" scale {self.scale:.6g} zero point {self.zero_point}"
        return text
