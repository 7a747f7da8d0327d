"""What a user runs: tasks through C kernels, byte for byte what the reference gives.

A task that this can't take, or whose exactness can't be proved, has no plan: the reference runs it.
"""

from .fusing import Fusion, Included, fusion_before
from .plan import plan_task
from .steps import KernelKind, Plan, Scratch, Step, chained

__all__ = [
    "Fusion",
    "Included",
    "KernelKind",
    "Plan",
    "Scratch",
    "Step",
    "chained",
    "fusion_before",
    "plan_task",
]
