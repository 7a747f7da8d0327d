"""What a board lets pass that a program can't want, and what ends a program there.

One table each, which docs/rknn-c-api.md shows and `tests/soft/rknn/test_leniency.py` holds true.
A call says by the name of a row what it met: by default it goes on as the vendor's runtime does,
with a line in the log; in strict mode it fails and says what a board would do.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...rknn.abi import ErrorCode
from ..device_memory import strict
from . import log
from .failure import Failure


@dataclass(frozen=True)
class Leniency:
    """A call that succeeds on a board though it doesn't do what it says.

    `board` is what happens there, and here by default, with a line in the log unless a board's
    says nothing either; `code` is what strict mode answers.
    """

    call: str
    situation: str
    board: str
    code: ErrorCode
    is_logged: bool = True


@dataclass(frozen=True)
class Crash:
    """A call that ends the program on a board, or lets the NPU write where it mustn't.

    `board` is what happens there, `code` what the soft NPU answers instead, strict or not.
    """

    call: str
    situation: str
    board: str
    code: ErrorCode


_KEEPS = "0; the input keeps its old content"

LENIENCIES: dict[str, Leniency] = {
    "layout": Leniency(
        "rknn_inputs_set", "an image that isn't NHWC", _KEEPS, ErrorCode.INPUT_INVALID
    ),
    "type": Leniency(
        "rknn_inputs_set",
        "a type that isn't converted to the input's, such as int8 to float16",
        _KEEPS,
        ErrorCode.INPUT_INVALID,
    ),
    "blocks": Leniency(
        "rknn_inputs_set", "NC1HWC2 without pass_through", _KEEPS, ErrorCode.INPUT_INVALID
    ),
    "pass_through": Leniency(
        "rknn_inputs_set",
        "pass_through as NHWC of what has more than four channels, and not four dimensions",
        _KEEPS,
        ErrorCode.INPUT_INVALID,
    ),
    "short pass_through": Leniency(
        "rknn_inputs_set",
        "pass_through with fewer bytes than the device holds",
        "0; what follows them keeps its old content",
        ErrorCode.INPUT_INVALID,
    ),
    "raw bytes": Leniency(
        "rknn_inputs_set",
        "pass_through with another type than the device's",
        "0; the bytes are taken as they are",
        ErrorCode.INPUT_INVALID,
    ),
    "pixels": Leniency(
        "rknn_inputs_set",
        "more bytes than a picture has, after uint8 on the same context",
        _KEEPS,
        ErrorCode.INPUT_INVALID,
    ),
    "bytes as pixels": Leniency(
        "rknn_inputs_set",
        "quantised int8, after uint8 on the same context",
        "0; the bytes are taken for pixels",
        ErrorCode.INPUT_INVALID,
    ),
    "fewer inputs": Leniency(
        "rknn_inputs_set",
        "fewer inputs than the model has",
        "0; the others keep their old content",
        ErrorCode.INPUT_INVALID,
    ),
    "input index": Leniency(
        "rknn_inputs_set",
        "an index that isn't the place in the array",
        "0; the place counts",
        ErrorCode.INPUT_INVALID,
    ),
    "wraps": Leniency(
        "rknn_inputs_set",
        "numbers beyond int8 into an input of other than four dimensions",
        "0; they wrap around",
        ErrorCode.INPUT_INVALID,
        is_logged=False,
    ),
    "unset inputs": Leniency(
        "rknn_run",
        "inputs that were never set",
        "0; they are zeros, or what was in the memory",
        ErrorCode.INPUT_INVALID,
        is_logged=False,
    ),
    "outputs before a run": Leniency(
        "rknn_outputs_get",
        "no run before it",
        "0; zeros, or what was in the memory",
        ErrorCode.OUTPUT_INVALID,
    ),
    "fewer outputs": Leniency(
        "rknn_outputs_get",
        "fewer outputs than the model has",
        "0; the first ones",
        ErrorCode.OUTPUT_INVALID,
    ),
    "output index": Leniency(
        "rknn_outputs_get",
        "an index that isn't the place in the array",
        "0; the place counts, and is written over the index",
        ErrorCode.OUTPUT_INVALID,
    ),
    "small output buffer": Leniency(
        "rknn_outputs_get",
        "a buffer of the caller's that is too small",
        "0; nothing is written",
        ErrorCode.OUTPUT_INVALID,
    ),
    "release after destroy": Leniency(
        "rknn_outputs_release",
        "a context that was destroyed",
        "0; the buffers are freed",
        ErrorCode.CTX_INVALID,
    ),
    "bound layout": Leniency(
        "rknn_set_io_mem",
        "an image that isn't NHWC, without pass_through",
        "0, and so does `rknn_run`; the input keeps its old content",
        ErrorCode.PARAM_INVALID,
    ),
    "bound type": Leniency(
        "rknn_set_io_mem",
        "a type that isn't converted to the input's, without pass_through",
        "0, and so does `rknn_run`; the input keeps its old content",
        ErrorCode.PARAM_INVALID,
    ),
    "raw type": Leniency(
        "rknn_set_io_mem",
        "pass_through with another type than the device's",
        "0; the bytes are taken as they are",
        ErrorCode.PARAM_INVALID,
    ),
    "output type": Leniency(
        "rknn_set_io_mem",
        "a type that outputs aren't converted to",
        "0, and so does `rknn_run`; nothing is written",
        ErrorCode.PARAM_INVALID,
    ),
    "shape index": Leniency(
        "rknn_set_input_shapes",
        "an index that isn't the input's",
        "0; the name counts",
        ErrorCode.PARAM_INVALID,
    ),
    "no physical address": Leniency(
        "rknn_create_mem_from_phys",
        "a physical address of -1, as memory has that has none",
        "memory; the NPU works where no memory is",
        ErrorCode.PARAM_INVALID,
        is_logged=False,
    ),
    "performance before a run": Leniency(
        "rknn_query",
        "RKNN_QUERY_PERF_RUN or RKNN_QUERY_PERF_DETAIL without a run before it",
        "0; a number that means nothing, an empty text",
        ErrorCode.FAIL,
    ),
    "information only": Leniency(
        "rknn_inputs_set",
        "a context of RKNN_FLAG_COLLECT_MODEL_INFO_ONLY",
        "0; nothing happens",
        ErrorCode.FAIL,
    ),
    "fences": Leniency(
        "rknn_init",
        "RKNN_FLAG_FENCE_IN_OUTSIDE, RKNN_FLAG_FENCE_OUT_OUTSIDE",
        "0; nothing waits",
        ErrorCode.PARAM_INVALID,
    ),
}

CRASHES: dict[str, Crash] = {
    "input buffer": Crash(
        "rknn_inputs_set", "a buffer that is NULL", "SIGSEGV", ErrorCode.INPUT_INVALID
    ),
    "inputs": Crash("rknn_inputs_set", "an array that is NULL", "SIGSEGV", ErrorCode.PARAM_INVALID),
    "wide pass_through": Crash(
        "rknn_inputs_set",
        "pass_through as a type of more bytes than the pages of the input's memory have",
        "SIGSEGV, or other memory is overwritten",
        ErrorCode.INPUT_INVALID,
    ),
    "input format": Crash(
        "rknn_inputs_set", "a format without a name", "SIGSEGV", ErrorCode.INPUT_INVALID
    ),
    "batch": Crash(
        "rknn_inputs_set",
        "a file with a batch, of other than 1, 3 or 4 channels",
        "SIGSEGV",
        ErrorCode.FAIL,
    ),
    "no shapes": Crash(
        "rknn_inputs_set",
        "a dynamic model before rknn_set_input_shapes; rknn_set_io_mem and rknn_run too",
        "abort",
        ErrorCode.CTX_INVALID,
    ),
    "no memory": Crash(
        "rknn_inputs_set",
        "before memory that the program allocates was set",
        "SIGSEGV",
        ErrorCode.MALLOC_FAIL,
    ),
    "no memory for a run": Crash(
        "rknn_run",
        "before memory that the program allocates was set",
        "0; the NPU works where no memory is",
        ErrorCode.FAIL,
    ),
    "small model memory": Crash(
        "rknn_set_internal_mem",
        "memory that is too small; rknn_set_weight_mem too",
        "0; the run reads or writes past its end",
        ErrorCode.PARAM_INVALID,
    ),
    "memory for information": Crash(
        "rknn_set_io_mem",
        "a context of RKNN_FLAG_COLLECT_MODEL_INFO_ONLY; rknn_set_internal_mem too",
        "SIGSEGV",
        ErrorCode.CTX_INVALID,
    ),
    "outputs": Crash(
        "rknn_outputs_get", "an array that is NULL", "SIGSEGV", ErrorCode.PARAM_INVALID
    ),
    "no output buffer": Crash(
        "rknn_outputs_get",
        "a buffer of the caller's that is NULL, on RK3566 and RK3568",
        "SIGSEGV",
        ErrorCode.OUTPUT_INVALID,
    ),
    "release twice": Crash(
        "rknn_outputs_release",
        "a buffer that was released, or was never the runtime's",
        "abort",
        ErrorCode.OUTPUT_INVALID,
    ),
    "released outputs": Crash(
        "rknn_outputs_release",
        "an array that is NULL, or more outputs than the model has",
        "SIGSEGV, abort",
        ErrorCode.PARAM_INVALID,
    ),
    "small input memory": Crash(
        "rknn_set_io_mem",
        "memory without the pixels that pad an input's rows",
        "0; the run reads past its end",
        ErrorCode.PARAM_INVALID,
    ),
    "small output memory": Crash(
        "rknn_set_io_mem",
        "memory that is too small for an output",
        "0; the run writes past its end",
        ErrorCode.PARAM_INVALID,
    ),
    "wide output": Crash(
        "rknn_set_io_mem",
        "an output as NHWC of a type that isn't the device's, nor float32",
        "0; the run writes float32, past the memory's end",
        ErrorCode.PARAM_INVALID,
    ),
    "small matrix memory": Crash(
        "rknn_matmul_set_io_mem",
        "memory that is too small for a matrix",
        "0; the run reads or writes past its end",
        ErrorCode.PARAM_INVALID,
    ),
    "native output index": Crash(
        "rknn_query",
        "a native output's index that the model hasn't",
        "SIGSEGV",
        ErrorCode.PARAM_INVALID,
    ),
    "empty file": Crash(
        "rknn_init", "a path to an empty file or a folder", "SIGBUS", ErrorCode.MODEL_INVALID
    ),
    "duplicate of nothing": Crash(
        "rknn_dup_context", "a context that is 0", "SIGSEGV", ErrorCode.CTX_INVALID
    ),
    "destroyed memory": Crash(
        "rknn_destroy_mem", "memory that was destroyed", "abort", ErrorCode.PARAM_INVALID
    ),
    "destroyed binding": Crash(
        "rknn_run",
        "memory that an input or output lives in was destroyed",
        "0; the NPU reads or writes what is somebody else's",
        ErrorCode.PARAM_INVALID,
    ),
    "destroyed context": Crash(
        "rknn_destroy",
        "a context that was destroyed; every other call too",
        "SIGSEGV",
        ErrorCode.CTX_INVALID,
    ),
}


def let_pass(name: str, text: str, *, is_warning: bool = False) -> None:
    """Go on as a board does, with its lines in the log; in strict mode fail."""
    leniency = LENIENCIES[name]
    if strict():
        raise Failure(leniency.code, f"{text}\na board answers {leniency.board}")
    if leniency.is_logged:
        (log.warning if is_warning else log.error)(text)


def crash(name: str, text: str) -> Failure:
    """What to raise where a board's runtime would end the program."""
    found = CRASHES[name]
    return Failure(found.code, f"{text}\na board would answer this with {found.board}")
