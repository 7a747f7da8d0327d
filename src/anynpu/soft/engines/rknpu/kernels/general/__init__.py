"""Tasks of any element through C kernels, byte for byte what the reference gives.

Floats, whose operations have an order, and those integers that the int8 kernels don't take.
"""

from .convolution import plan_convolution
from .elementwise import plan_elementwise
from .pooling import plan_pooling

__all__ = ["plan_convolution", "plan_elementwise", "plan_pooling"]
