"""What a session needs of a vendor: a `Backend` opens models, a `Worker` runs one."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ..tensor import TensorInfo


class Worker(ABC):
    """One loaded copy of a model. One thread at a time.

    `inputs` and `outputs` are as the session shows them: images are NCHW, as in the source model.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    @abstractmethod
    def run(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """New float32 arrays of all outputs; `arrays` have the inputs' shapes."""

    @abstractmethod
    def metadata(self) -> dict[str, str]:
        """What the model and the runtime say of themselves."""

    @abstractmethod
    def close(self) -> None:
        """Free the model; twice does no harm."""


class Backend(ABC):
    """A vendor's runtime.

    `names` are the execution providers' names it answers to, the official one first; `magic` is
    how its model files begin; `option_names` are the provider options it takes.
    """

    names: tuple[str, ...]
    magic: bytes
    option_names: tuple[str, ...]

    @abstractmethod
    def open(self, model: str | os.PathLike[str] | bytes, options: Mapping[str, Any]) -> Worker:
        """Load a model; the options were checked against `option_names`."""
