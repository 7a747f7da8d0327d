"""Whose clock a run's times are: this machine's, or a model of the chip's.

``ANYNPU_SOFT_CLOCK=model`` makes a run hold its cores for as long as the chip is estimated to
need, so that schedules can be studied without a board; a run that takes this machine longer takes
longer. The default, ``host``, reports what this machine took.

With ``ANYNPU_SOFT_COMPUTE=once`` a context computes its first run alone; later ones take the chip's
time and leave the first one's outputs, so that a pipeline can be tried at the board's speed.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...rknn.abi import ErrorCode
from ..clock import call_microseconds, estimate
from ..device import DeadlineError
from .failure import Failure
from .perf_row import Row, device_type, shape_text

if TYPE_CHECKING:
    from ...soc import Soc
    from ..engines.program import Layer
    from .contexts import Context

ENVIRONMENT_VARIABLE = "ANYNPU_SOFT_CLOCK"
COMPUTE_VARIABLE = "ANYNPU_SOFT_COMPUTE"


class Clock(ABC):
    """How long a run takes, as a whole and layer by layer."""

    name: str
    description: str
    is_of_chip: bool

    @abstractmethod
    def finish(
        self,
        layers: Callable[[], tuple[Layer, ...]],
        soc: Soc,
        start: float,
        cores: int,
        deadline: float | None = None,
    ) -> int:
        """The microseconds of a run that began at `start` (perf_counter) and has been computed.

        `layers` gives what it consists of. Returns when the run is over by this clock;
        `DeadlineError` when the deadline (`time.monotonic`) comes before.
        """

    @abstractmethod
    def layers(self, ctx: Context) -> list[Row]:
        """The layers of the last run."""


class HostClock(Clock):
    """What this machine takes; the layers are timed in a repetition of the run."""

    name = "host"
    description = "times of the soft NPU on this machine"
    is_of_chip = False

    def finish(
        self,
        layers: Callable[[], tuple[Layer, ...]],
        soc: Soc,
        start: float,
        cores: int,
        deadline: float | None = None,
    ) -> int:
        return round((time.perf_counter() - start) * 1e6)

    def layers(self, ctx: Context) -> list[Row]:
        return [
            Row(
                layer.op_type,
                layer.name,
                device_type(layer.dtype),
                "CPU" if layer.on_cpu else "NPU",
                shape_text(layer.inputs),
                shape_text([layer.output]),
                layer.microseconds,
                layer.kilobytes,
            )
            for layer in ctx.program.profile(ctx.arrays)
        ]


class ModelClock(Clock):
    """What the chip is estimated to take: a run holds its cores for as long."""

    name = "model"
    description = "times estimated by a model of the chip"
    is_of_chip = True

    def finish(
        self,
        layers: Callable[[], tuple[Layer, ...]],
        soc: Soc,
        start: float,
        cores: int,
        deadline: float | None = None,
    ) -> int:
        microseconds = call_microseconds(layers(), soc, cores)
        remaining = start + microseconds / 1e6 - time.perf_counter()
        if deadline is not None and time.monotonic() + remaining > deadline:
            time.sleep(max(0.0, deadline - time.monotonic()))
            raise DeadlineError
        time.sleep(max(0.0, remaining))
        return round(microseconds)

    def layers(self, ctx: Context) -> list[Row]:
        layers = ctx.program.lowered(ctx.variant).layers
        custom = {node.op_type for node in ctx.program.custom_nodes(ctx.variant)}
        times = estimate(layers, ctx.soc, len(ctx.last_cores))
        return [
            Row(
                layer.op_type,
                layer.name,
                layer.dtype.name,
                "CPU" if layer.on_cpu or layer.op_type in custom else "NPU",
                shape_text(layer.inputs),
                shape_text([layer.output]),
                round(estimated.microseconds),
                # The runtime counts what is read.
                layer.read_bytes / 1024,
                f"{estimated.ddr_cycles}/{estimated.npu_cycles}/{estimated.total_cycles}",
                f"{100 * estimated.mac_usage:.2f}",
            )
            for layer, estimated in zip(layers, times, strict=True)
        ]


def repeats_outputs() -> bool:
    """Whether runs after a context's first one leave its outputs as they are."""
    word = os.environ.get(COMPUTE_VARIABLE, "").strip().lower() or "always"
    if word not in ("always", "once"):
        raise Failure(
            ErrorCode.PARAM_INVALID, f"${COMPUTE_VARIABLE} is {word!r}; it may be always, once"
        )
    return word == "once"


def clock() -> Clock:
    """The clock that the environment asks for: the chip's where outputs are repeated."""
    repeats = repeats_outputs()
    default = ModelClock.name if repeats else HostClock.name
    word = os.environ.get(ENVIRONMENT_VARIABLE, "").strip().lower() or default
    found = _CLOCKS.get(word)
    if found is None:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"${ENVIRONMENT_VARIABLE} is {word!r}; it may be {', '.join(_CLOCKS)}",
        )
    if repeats and not found.is_of_chip:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"${COMPUTE_VARIABLE} is once and ${ENVIRONMENT_VARIABLE} {word}: runs that aren't "
            f"computed have the chip's time only; unset one of them",
        )
    return found


_CLOCKS: dict[str, Clock] = {HostClock.name: HostClock(), ModelClock.name: ModelClock()}
