"""rknn_init, rknn_dup_context and rknn_destroy."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ... import soc as socs
from ..._version import __version__
from ...errors import ModelError, OptionError
from ...rknn.abi import API_VERSION, ErrorCode, InitFlag
from ...soc import Soc
from ..cabi.memory_views import readable
from ..device import device_for
from ..engines import ModelSource, Program
from . import board_refusals, contexts, log, tensor_memory
from .contexts import Context, DeviceContext
from .failure import Failure
from .leniency import crash, let_pass
from .programs import program_of
from .timing import clock, repeats_outputs

DRIVER = "0.9.8"
_DYNAMIC = "the model has several input shapes"
"""What such a model is refused, the user guide lists in 5.4.4.1."""
_FENCES = InitFlag.FENCE_IN_OUTSIDE | InitFlag.FENCE_OUT_OUTSIDE


def api_version() -> str:
    """What RKNN_QUERY_SDK_VERSION answers; it says whose clock the run times are."""
    repeats = ", outputs repeated" if repeats_outputs() else ""
    return f"{API_VERSION} (anynpu {__version__} soft NPU, {clock().name} clock{repeats})"


def rknn_init(context: Any, model: int | None, size: int, flag: int, extend: Any) -> None:
    """Load a model from memory (`size` > 0, copied) or from a path (`size` 0)."""
    log.read_environment()
    if not context:
        raise Failure(ErrorCode.CTX_INVALID, "the context pointer is NULL")
    context[0] = 0
    if not model:
        raise Failure(ErrorCode.MODEL_INVALID, "load model failed! the model pointer is NULL")
    flags = InitFlag(flag)
    options = extend.contents if extend else None
    if flags & _FENCES:
        let_pass("fences", "fences from outside are not supported: nothing waits for them")
    try:
        program = program_of(_source(model, size, options), _weights(flags, options))
        if flags & InitFlag.SHARE_WEIGHT_MEM and len(program.input_shapes) > 1:
            raise Failure(
                ErrorCode.PARAM_INVALID, f"{_DYNAMIC}: it can't use the weights of another context"
            )
        created = _create(program, flags, options)
    except (ModelError, OptionError, OSError) as error:
        raise Failure(ErrorCode.MODEL_INVALID, f"load model failed! {error}") from error
    context[0] = contexts.CONTEXTS.add(created)


def rknn_dup_context(context_in: Any, context_out: Any) -> None:
    """A context of its own for the same model, which is there once."""
    if not context_in or not context_out:
        raise Failure(ErrorCode.CTX_INVALID, "a context pointer is NULL")
    if not context_in[0]:
        raise crash("duplicate of nothing", "context 0 is not alive")
    context_out[0] = _duplicate(context_in[0])


def rknn_destroy(context: int) -> None:
    """Free a context and its memory."""
    end(contexts.remove(context))


def end(removed: DeviceContext) -> None:
    """Close a context that was taken out of the table: its work ends, its memory is freed."""
    removed.close()
    tensor_memory.release_all(removed)


def _create(program: Program, flags: InitFlag, options: Any) -> Context:
    chip = _chip_for(program)
    program.variant(program.largest)
    log.information(_runtime_lines(program, chip))
    board_refusals.report(program, chip)
    created = Context(program, device_for(chip.name), flags)
    if flags & InitFlag.ENABLE_SRAM:
        _place_in_sram(created, flags, options)
    elif flags & InitFlag.SHARE_SRAM:
        raise Failure(ErrorCode.PARAM_INVALID, "RKNN_FLAG_SHARE_SRAM needs RKNN_FLAG_ENABLE_SRAM")
    if not flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
        _ = created.arrays
    if log.is_debugging():
        log.debug(_memory_lines(created))
    return created


@contexts.on_context_as("rknn_dup_context")
def _duplicate(ctx: Context) -> int:
    if len(ctx.program.input_shapes) > 1:
        raise Failure(ErrorCode.FAIL, f"{_DYNAMIC}: it can't be duplicated")
    created = Context(ctx.program, ctx.device, ctx.flags)
    created.core_mask = ctx.core_mask
    created.batch_cores = ctx.batch_cores
    return contexts.CONTEXTS.add(created)


def _source(model: int, size: int, options: Any) -> ModelSource:
    if size > 0:
        return ModelSource.of(bytes(readable(model, size)))
    path = os.fsdecode(ctypes.string_at(model))
    if os.path.isdir(path) or (os.path.isfile(path) and not os.path.getsize(path)):
        raise crash("empty file", f"load model failed! {path!r} is empty, or a folder")
    if options is None:
        return ModelSource.of(path)
    if options.real_model_offset < 0:
        raise Failure(
            ErrorCode.PARAM_INVALID, f"real_model_offset({options.real_model_offset}) is negative"
        )
    return ModelSource.of(path, options.real_model_offset, options.real_model_size)


def _weights(flags: InitFlag, options: Any) -> Program | None:
    """The program whose weights RKNN_FLAG_SHARE_WEIGHT_MEM asks for."""
    if not flags & InitFlag.SHARE_WEIGHT_MEM:
        return None
    with contexts.borrow(_other_context(options, "RKNN_FLAG_SHARE_WEIGHT_MEM")) as other:
        return other.program


def _other_context(options: Any, flag: str) -> int:
    if options is None or not options.ctx:
        raise Failure(ErrorCode.PARAM_INVALID, f"{flag} needs the other context in extend->ctx")
    handle: int = options.ctx
    return handle


def _place_in_sram(created: Context, flags: InitFlag, options: Any) -> None:
    """Take on-chip memory for the intermediate tensors, or share what another context took."""
    if flags & InitFlag.SHARE_SRAM:
        with contexts.borrow(_other_context(options, "RKNN_FLAG_SHARE_SRAM")) as other:
            created.shares_sram_of = other
        return
    created.sram = created.device.take_sram(created.footprint.peak_intermediate_bytes)


def _chip_for(program: Program) -> Soc:
    """The chip to simulate: the environment's, which the model must be for, else the model's."""
    try:
        chosen = socs.chosen()
        wanted = socs.find(program.soc) if program.soc else None
    except OptionError as error:
        raise Failure(ErrorCode.TARGET_PLATFORM_UNMATCH, str(error)) from error
    if chosen and wanted and not chosen.runs_models_of(wanted):
        raise Failure(
            ErrorCode.TARGET_PLATFORM_UNMATCH,
            f"This rknn model is for {wanted.name.upper()}, but current platform is "
            f"{chosen.name.upper()} (${socs.ENVIRONMENT_VARIABLE})",
        )
    return chosen or wanted or socs.DEFAULT


def _runtime_lines(program: Program, chip: Soc) -> str:
    kind = "dynamic_shape" if len(program.input_shapes) > 1 else "static_shape"
    return (
        f"RKNN Runtime Information, {chip.library} version: {api_version()}\n"
        f"RKNN Driver Information, version: {DRIVER}\n"
        f"RKNN Model Information, version: 6, toolkit version: {program.producer}, "
        f"target: {chip.driver_target}, target platform: {chip.name}, "
        f"framework name: {program.framework}, framework layout: NCHW, "
        f"model inference type: {kind}"
    )


def _memory_lines(created: Context) -> str:
    lowered = created.footprint
    return (
        f"Total Internal Memory Size: {lowered.peak_intermediate_bytes / 1024:g}KB\n"
        f"Total Weight Memory Size: {lowered.weight_bytes / 1024:g}KB"
    )
