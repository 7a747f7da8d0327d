"""Floating-point tasks through C kernels, byte for byte what the reference gives."""

from .convolution import plan_convolution
from .elementwise import plan_elementwise
from .pooling import plan_pooling

__all__ = ["plan_convolution", "plan_elementwise", "plan_pooling"]
