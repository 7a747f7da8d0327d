"""Coefficients: compressed streams of whole numbers, and the kernels in them."""

from .blob import Kernels, KernelShape, read_kernels

__all__ = ["KernelShape", "Kernels", "read_kernels"]
