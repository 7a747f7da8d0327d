"""What a network takes on a chip by the model clock: nothing is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import soc as socs
from ..errors import OptionError

if TYPE_CHECKING:
    from ..soft.clock import LayerTime
    from ..soft.engines import Layer

ERROR = (
    "expect an error of 10% for int8 convolutional networks, of 25% for others, of 40% for "
    "attention (docs/clock.md)"
)


@dataclass(frozen=True)
class Estimate:
    """A network's layers and the time of each on one core of a chip, and of calls, in seconds.

    `together` is a call that all cores compute together.
    """

    soc: socs.Soc
    layers: tuple[Layer, ...]
    times: tuple[LayerTime, ...]
    seconds: float
    together: float

    @property
    def rate(self) -> float:
        """Runs a second of one core."""
        return 1 / self.seconds

    @property
    def rate_of_all(self) -> float:
        """Runs a second of all cores, each with requests of its own: at the most.

        What they lose to each other at the memory isn't known.
        """
        return self.soc.cores / self.seconds


def estimate(model: str) -> Estimate:
    """The estimate for a `.rknn` or `.onnx` file: for $ANYNPU_SOC, else the file's chip.

    Raises `ModelError` for a file that can't be read, `OptionError` for one of Allwinner's.
    """
    from pathlib import Path

    from ..soft.clock import call_microseconds
    from ..soft.clock import estimate as estimate_layers
    from ..soft.engines import ModelSource, load
    from ..soft.formats.nbg import is_nbg

    if is_nbg(Path(model).read_bytes()):
        raise OptionError(f"{model}: there is no model clock for Allwinner's chips yet")
    program = load(ModelSource.of(model))
    soc = socs.chosen() or (socs.find(program.soc) if program.soc else socs.DEFAULT)
    layers = program.lowered(program.largest).layers
    return Estimate(
        soc,
        layers,
        estimate_layers(layers, soc),
        call_microseconds(layers, soc) / 1e6,
        call_microseconds(layers, soc, soc.cores) / 1e6,
    )
