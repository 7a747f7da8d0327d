"""Coefficients: compressed streams of whole numbers, and the kernels in them."""

from .blob import KernelShape, read_kernels
from .kernels import Kernels, Part, quads_of

__all__ = ["KernelShape", "Kernels", "Part", "quads_of", "read_kernels"]
