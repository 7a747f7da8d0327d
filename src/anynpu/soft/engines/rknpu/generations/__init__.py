"""The generations of the NPU, and which files are for which."""

from __future__ import annotations

from ....formats.rknn.model import Generation as FileGeneration
from .base import Generation
from .rk3562.generation import Rk3562
from .rk3566.generation import Rk3566
from .rk3576.generation import Rk3576
from .rk3588.generation import Rk3588
from .rv1106.generation import Rv1106
from .rv1126b import Rv1126b

GENERATIONS: dict[FileGeneration, Generation] = {
    FileGeneration.V2: Rk3588(),
    FileGeneration.LITE: Rk3566(),
    FileGeneration.MICRO: Rv1106(),
    FileGeneration.F2: Rk3576(),
    FileGeneration.T4: Rk3562(),
    FileGeneration.F3: Rv1126b(),
}

__all__ = ["GENERATIONS", "Generation"]
