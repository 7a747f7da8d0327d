"""The device that a command runs on, and whose clock its times are: each command's first line."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import soc as socs
from ..backends import providers

if TYPE_CHECKING:
    from ..session import InferenceSession

CLOCK = "ANYNPU_SOFT_CLOCK"
COMPUTE = "ANYNPU_SOFT_COMPUTE"


_SERVER = "server"


@dataclass(frozen=True)
class Device:
    """What runs a model: the chip, the library, whether it is simulated, and the times' owner.

    `clock` is ``board``, ``host`` (the soft NPU's time on this machine), ``model`` (the chip's
    by estimate) or ``server``: then `library` has the servers' addresses, `chip` their platform.
    """

    chip: str
    library: str
    is_soft: bool
    clock: str

    def __str__(self) -> str:
        if self.clock == _SERVER:
            return f"{self.chip} at {self.library}; times are the servers', and the way there"
        if not self.is_soft:
            return f"{self.chip.upper()} by {self.library}; times are the board's"
        times = {
            "model": "the chip's, estimated by the model clock (docs/clock.md)",
            "host": "this machine's, and say nothing of the chip's",
        }
        text = f"{self.chip.upper()}, simulated by {self.library}; times are {times[self.clock]}"
        if self.is_soft and self.clock == "model" and _repeats():
            text += "; outputs are repeated, not computed"
        return text

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "chip": self.chip,
            "library": self.library,
            "soft": self.is_soft,
            "clock": self.clock,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--library`, `--soc` and `--clock`."""
    parser.add_argument(
        "--library",
        metavar="PATH",
        help="the vendor's runtime library, or 'soft' for the soft NPU (default: as "
        "anynpu.InferenceSession looks for one)",
    )
    parser.add_argument("--soc", help="the chip to simulate (default: the model's)")
    parser.add_argument(
        "--clock",
        choices=("host", "model"),
        help=f"whose times the soft NPU's runs take: this machine's, or the chip's by estimate "
        f"(default: ${CLOCK}, else host)",
    )


def apply(options: argparse.Namespace) -> None:
    """Let the soft NPU be what the arguments say; raises `OptionError` for an unknown chip."""
    if options.soc:
        os.environ[socs.ENVIRONMENT_VARIABLE] = socs.find_any(options.soc).name
    if options.clock:
        os.environ[CLOCK] = options.clock


def open_session(options: argparse.Namespace, model: str, **more: Any) -> InferenceSession:
    """A session for a command's model and arguments."""
    from .. import InferenceSession

    chosen = {"library": options.library} if options.library else {}
    return InferenceSession(model, provider_options={**chosen, **more})


def device_of(session: InferenceSession) -> Device:
    """What a session runs on."""
    metadata = session.get_modelmeta().custom_metadata_map
    if session.device_type == "remote":
        return Device(metadata["platform"], metadata["servers"], False, _SERVER)
    library = session.network.library
    is_rknn = session.get_providers()[0] == next(iter(providers()))
    asked = socs.chosen() if is_rknn else socs.chosen_vip()
    default = socs.DEFAULT if is_rknn else socs.VIP_DEFAULT
    board = None if library.is_soft else socs.detect()
    chip = (board or asked or default).name
    if not (board or asked):
        chip = _chip_of_file(metadata.get("target_platform", ""), is_rknn=is_rknn) or chip
    return Device(chip, library.path, library.is_soft, _clock(library.is_soft, is_rknn=is_rknn))


def _chip_of_file(target: str, *, is_rknn: bool) -> str:
    """The name of the chip that a file is for; a .nb file has a number that several share."""
    if is_rknn or not target:
        return target
    return next((soc.name for soc in socs.chips_of_target(int(target, 0))), target)


def _clock(is_soft: bool, *, is_rknn: bool) -> str:
    if not is_soft:
        return "board"
    if not is_rknn:  # the model clock is of Rockchip's NPUs
        return "host"
    return os.environ.get(CLOCK, "").strip().lower() or ("model" if _repeats() else "host")


def _repeats() -> bool:
    return os.environ.get(COMPUTE, "").strip().lower() == "once"
