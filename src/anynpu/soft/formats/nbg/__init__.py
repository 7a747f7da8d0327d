"""The `.nb` file (a network binary graph): read, described, written."""

from .model import Nbg, Tensor
from .reader import is_nbg, read
from .v1 import MAGIC, SECTIONS_OFFSET, SOFT_SECTION

__all__ = ["MAGIC", "SECTIONS_OFFSET", "SOFT_SECTION", "Nbg", "Tensor", "is_nbg", "read"]
