"""Tasks of any element through C kernels, byte for byte what the reference gives.

Floats, whose operations have an order, and those integers that the int8 kernels don't take.
"""

from .convolution import convolution_target, plan_convolution
from .elementwise import elementwise_target, plan_elementwise
from .followed import FollowedPlan
from .pooling import plan_pooling

__all__ = [
    "FollowedPlan",
    "convolution_target",
    "elementwise_target",
    "plan_convolution",
    "plan_elementwise",
    "plan_pooling",
]
