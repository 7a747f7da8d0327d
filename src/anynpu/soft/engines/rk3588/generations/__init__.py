"""The generations of the NPU, and which files are for which."""

from __future__ import annotations

from ....formats.rknn.model import Generation as FileGeneration
from .base import Generation
from .lite import Lite
from .micro import Micro

GENERATIONS: dict[FileGeneration, Generation] = {
    FileGeneration.V2: Generation(),
    FileGeneration.LITE: Lite(),
    FileGeneration.MICRO: Micro(),
}

__all__ = ["GENERATIONS", "Generation"]
