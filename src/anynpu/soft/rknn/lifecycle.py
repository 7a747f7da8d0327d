"""rknn_init and rknn_destroy."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ... import soc as socs
from ..._version import __version__
from ...errors import ModelError, OptionError
from ...rknn.abi import API_VERSION, ErrorCode, InitFlag
from ...soc import Soc
from ..cabi.memory import readable
from ..device import device_for
from ..engines import Program, load
from . import contexts, log
from .failure import Failure

API = f"{API_VERSION} (anynpu {__version__} soft NPU)"
DRIVER = "0.9.8"


def rknn_init(context: Any, model: int | None, size: int, flag: int, extend: Any) -> None:
    """Load a model from memory (`size` > 0, copied) or from a path (`size` 0)."""
    log.read_environment()
    if not context:
        raise Failure(ErrorCode.PARAM_INVALID, "the context pointer is NULL")
    context[0] = 0
    if not model:
        raise Failure(ErrorCode.PARAM_INVALID, "the model pointer is NULL")
    try:
        program = load(_model_source(model, size))
        chip = _chip_for(program)
        log.information(_runtime_lines(program, chip))
        created = contexts.Context(program, device_for(chip.name), InitFlag(flag))
    except (ModelError, OSError) as error:
        raise Failure(ErrorCode.MODEL_INVALID, f"load model failed! {error}") from error
    context[0] = contexts.add(created)


def rknn_destroy(context: int) -> None:
    """Free a context and every output buffer that it still lends."""
    contexts.remove(context)


def _model_source(model: int, size: int) -> bytes | str:
    if size > 0:
        return bytes(readable(model, size))
    return os.fsdecode(ctypes.string_at(model))


def _chip_for(program: Program) -> Soc:
    """The chip to simulate: the environment's, which the model must be for, else the model's."""
    try:
        chosen = socs.chosen()
        wanted = socs.find(program.soc) if program.soc else None
    except OptionError as error:
        raise Failure(ErrorCode.TARGET_PLATFORM_UNMATCH, str(error)) from error
    if chosen and wanted and chosen is not wanted:
        raise Failure(
            ErrorCode.TARGET_PLATFORM_UNMATCH,
            f"the model is for {wanted.name}, this device is {chosen.name} "
            f"(${socs.ENVIRONMENT_VARIABLE})",
        )
    return chosen or wanted or socs.DEFAULT


def _runtime_lines(program: Program, chip: Soc) -> str:
    return (
        f"RKNN Runtime Information, librknnrt version: {API}\n"
        f"RKNN Driver Information, version: {DRIVER}\n"
        f"RKNN Model Information, version: 6, toolkit version: {program.producer}, "
        f"target: {chip.driver_target}, target platform: {chip.name}, "
        f"framework name: {program.framework}, framework layout: NCHW, "
        f"model inference type: static_shape"
    )
