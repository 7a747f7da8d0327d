"""RV1126B ("RKNPU f3"): RK3576's registers, and offsets that are multiplied already."""

from __future__ import annotations

from dataclasses import replace

from ..task_registers import TaskRegisters
from ..tasks import InputConversion, OffsetPlace
from .rk3576.generation import Rk3576


class Rv1126b(Rk3576):
    """RV1126B."""

    def input_conversion(self, task: TaskRegisters) -> InputConversion | None:
        how = super().input_conversion(task)
        if how is None or how.place is not OffsetPlace.BEFORE_SCALE:
            return how
        return replace(how, place=OffsetPlace.BEFORE_SHIFT)
