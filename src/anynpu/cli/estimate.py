"""What a network takes on a chip by the model clock: nothing is computed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import soc as socs

if TYPE_CHECKING:
    from ..soft.clock import LayerTime
    from ..soft.engines import Layer, Program

_ERROR = (
    "expect an error of 10% for int8 convolutional networks, of 25% for others, of 40% for "
    "attention (docs/clock.md)"
)
_ERROR_OF_VIPS = (
    "fitted to no more than three published times: take it for an order of magnitude "
    "(docs/clock.md)"
)


@dataclass(frozen=True)
class Estimate:
    """A network's layers and the time of each on one core of a chip, and of calls, in seconds.

    `together` is a call that all cores compute together, `error` how far off it may be.
    """

    soc: socs.Soc | socs.VipSoc
    layers: tuple[Layer, ...]
    times: tuple[LayerTime, ...]
    seconds: float
    together: float
    error: str

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
    """The estimate for a `.rknn`, `.nb` or `.onnx` file: for $ANYNPU_SOC, else the file's chip.

    Raises `ModelError` for a file that can't be read, `OptionError` for a chip without a clock.
    """
    from pathlib import Path

    from ..soft.engines import ModelSource, load
    from ..soft.formats import nbg

    if nbg.is_nbg(data := Path(model).read_bytes()):
        from ..soft.engines.nbg import vip

        file = nbg.read(data)
        chips = socs.chips_of_target(file.target)
        chip = socs.chosen_vip() or next(iter(chips), socs.VIP_DEFAULT)
        return _of_vip(vip.load(file, Path(model)), chip)
    program = load(ModelSource.of(model))
    name = os.environ.get(socs.ENVIRONMENT_VARIABLE)
    if name and isinstance(asked := socs.find_any(name), socs.VipSoc):
        return _of_vip(program, asked)
    soc = socs.chosen() or (socs.find(program.soc) if program.soc else socs.DEFAULT)
    return _of_rockchip(program, soc)


def _of_rockchip(program: Program, soc: socs.Soc) -> Estimate:
    from ..soft.clock import call_microseconds, estimate

    layers = program.lowered(program.largest).layers
    seconds, together = (call_microseconds(layers, soc, cores) / 1e6 for cores in (1, soc.cores))
    return Estimate(soc, layers, estimate(layers, soc), seconds, together, _ERROR)


def _of_vip(program: Program, soc: socs.VipSoc) -> Estimate:
    from ..soft.vip_clock import call_microseconds, estimate

    layers = program.lowered(program.largest).layers
    seconds = call_microseconds(layers, soc) / 1e6
    return Estimate(soc, layers, estimate(layers, soc), seconds, seconds, _ERROR_OF_VIPS)
