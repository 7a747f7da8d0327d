"""From registers to task descriptions."""

from .task import decode_task

__all__ = ["decode_task"]
