"""Executes the task lists of compiled `.rknn` files as the NPU would.

`prepare` decodes a graph once: `command_stream` runs the commands, `decode` turns each task's
registers into an immutable description (`tasks`), with weights and operands unpacked. `reference`
computes descriptions with plain NumPy.
"""

from .graph import Executor, PreparedGraph, prepare
from .kernels import Fusion
from .needed import NeededBytes
from .work import count_tasks

__all__ = ["Executor", "Fusion", "NeededBytes", "PreparedGraph", "count_tasks", "prepare"]
