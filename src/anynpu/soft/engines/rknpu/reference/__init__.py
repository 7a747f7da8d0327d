"""The oracle: task descriptions computed with plain NumPy, to be read."""

from .run import run_task

__all__ = ["run_task"]
