"""Shaders by the C kernel that does the same as their function."""

from __future__ import annotations

from ..memory import MemoryMap
from ..shaders.forms import RowProducts, Windows
from ..shaders.task import ShaderTask
from .half import RowProductsPlan, WindowsPlan, is_plain
from .plan import Plan, is_apart
from .rows import plan_rows


def plan_shader(layout: MemoryMap, task: ShaderTask, threads: int) -> Plan | None:
    """A plan, or None where there is no kernel that does the same for certain."""
    if task.form is None or not is_apart(layout, task):
        return None
    if not isinstance(task.form, Windows | RowProducts):
        return plan_rows(task, threads)
    if not is_plain(task):
        return None
    if isinstance(task.form, Windows):
        return WindowsPlan(task, task.form, threads)
    return RowProductsPlan(task, task.form, threads)
