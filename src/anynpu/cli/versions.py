"""Whether a board's chip, driver and library go together with each other and with a model's file.

The rules are those that the vendor's runtimes print: 1.5.2 ends at drivers before 0.7.0, later ones
ask for 0.8.8; 1.3 to 1.5.0 refuse files of version 6. Where a runtime is older than the toolkit
that compiled a file it may lack operators, so that it is said and no fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import soc as socs
from ..errors import ModelError, OptionError
from ..rknn.model_file import MAGIC, VERSION, read_frame
from .finding import Finding, fine, note, wrong

Version = tuple[int, ...]
_LEAST_DRIVER, _ADVISED_DRIVER = (0, 7, 0), (0, 8, 8)
_FIRST_LIBRARY = (1, 5, 2)
"""The first library that was seen to read files of version 6."""


@dataclass(frozen=True)
class Board:
    """What was found: None where there is none of it, or its version can't be read."""

    chip: socs.Soc | socs.VipSoc | None
    driver: str | None
    libraries: tuple[tuple[Path, str], ...]
    """Paths, and what each says of itself, which may be nothing."""


def examine_board(board: Board) -> Iterator[Finding]:
    """Driver and library against the chip."""
    driver = _numbers(board.driver or "")
    if driver and driver < _LEAST_DRIVER:
        yield wrong(
            "driver and library", f"rknpu {board.driver} is older than {_text(_LEAST_DRIVER)}",
            "librknnrt ends in rknn_init: install a newer image of the board's vendor",
        )  # fmt: skip
    elif driver and driver < _ADVISED_DRIVER:
        yield note(
            "driver and library", f"rknpu {board.driver} is older than {_text(_ADVISED_DRIVER)}",
            "which librknnrt 2 recommends: install a newer image where something fails",
        )  # fmt: skip
    if isinstance(board.chip, socs.Soc) and board.libraries:
        names = {path.name.partition(".so")[0] for path, _ in board.libraries}
        wanted = board.chip.library.partition(".so")[0]
        if wanted not in names:
            yield wrong(
                "chip and library", f"{board.chip.name} takes {wanted}.so; found {_list(names)}",
                "install the runtime for this chip",
            )  # fmt: skip


def examine_model(board: Board, model: str) -> Iterator[Finding]:
    """A file against the chip and the library; raises OSError for an unreadable path."""
    with open(model, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            yield note("model", f"{model} is no .rknn file", "its versions aren't known")
            return
    try:
        frame = read_frame(model)
    except ModelError as error:
        yield wrong("model", f"{model}: {error}", "copy or compile it anew")
        return
    yield fine("model", f"{model}: for {frame.target}, by toolkit {frame.toolkit or 'unknown'}")
    yield from _chips(board.chip, frame.target)
    toolkit = _numbers(frame.toolkit)
    for path, text in board.libraries:
        library = _numbers(text)
        if path.name.startswith("librknn") and library and toolkit:
            yield _fit(library, toolkit, frame.version)


def _chips(chip: socs.Soc | socs.VipSoc | None, target: str) -> Iterator[Finding]:
    try:
        wanted = socs.find(target)
    except OptionError:
        return
    if chip is None:
        return
    if isinstance(chip, socs.Soc) and chip.runs_models_of(wanted):
        yield fine("model and chip", f"{chip.name} runs models for {target}")
    else:
        yield wrong(
            "model and chip", f"the model is for {target}, the chip is {chip.name}",
            f"compile it with target_platform={chip.name!r}",
        )  # fmt: skip


def _fit(library: Version, toolkit: Version, container: int) -> Finding:
    subject = "model and library"
    said = f"library {_text(library)}, toolkit {_text(toolkit)}"
    if container == VERSION and library < _FIRST_LIBRARY:
        return wrong(
            subject, f"{said}: it answers 'Invalid RKNN model version {container}'",
            f"install the runtime {_text(toolkit)}, or compile with an older toolkit",
        )  # fmt: skip
    if library < toolkit:
        return note(
            subject, f"{said}: operators of the newer toolkit may be missing",
            f"install the runtime {_text(toolkit)} where loading fails",
        )  # fmt: skip
    return fine(subject, f"{said}: they go together")


def _numbers(text: str) -> Version:
    found = re.search(r"\d+\.\d+\.\d+", text)
    return tuple(map(int, found.group().split("."))) if found else ()


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def _list(names: set[str]) -> str:
    return ", ".join(f"{name}.so" for name in sorted(names))
