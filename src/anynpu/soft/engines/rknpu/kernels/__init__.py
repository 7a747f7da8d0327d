"""What a user runs: tasks through C kernels, byte for byte what the reference gives.

A task that this can't take, or whose exactness can't be proved, has no plan: the reference runs it.
"""

from .plan import plan_task
from .steps import KernelKind, Plan, Scratch, Step, chained

__all__ = ["KernelKind", "Plan", "Scratch", "Step", "chained", "plan_task"]
