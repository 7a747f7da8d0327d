"""The table of contexts: an `rknn_context` is a small integer, valid in 32 bits, never reused."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from numpy.typing import NDArray

from ...rknn.abi import FUNCTIONS, CoreMask, ErrorCode, Function, InitFlag
from ...soc import Soc
from ..device import Cores, Device
from ..engines import Instance, Program, Variant
from ..memory import DeviceMemory
from .failure import Failure

if TYPE_CHECKING:
    from ..job import Job
    from .zero_copy import Binding

_PRIORITY_BITS = 0b11
_P = ParamSpec("_P")
_R = TypeVar("_R")


class Context:
    """The state behind one handle. Its lock is held during every call on it.

    `variant` is the number of the set of input shapes in use. `input_bindings` and
    `output_bindings` are the buffers of the zero-copy calls, by tensor index.
    """

    def __init__(self, program: Program, device: Device, flags: InitFlag) -> None:
        self.lock = threading.RLock()
        self.closed = False
        self.program = program
        self.device = device
        self.flags = flags
        self.priority = int(flags) & _PRIORITY_BITS
        self.core_mask = CoreMask.AUTO
        self.batch_cores = 1
        self.sram = 0
        self.shares_sram_of: Context | None = None
        self.weight_memory: DeviceMemory | None = None
        self.internal_memory: DeviceMemory | None = None
        self.perf_text: Any = None
        self.job: Job | None = None
        self.select(0)

    def select(self, variant: int) -> None:
        """Take up a set of input shapes: inputs, outputs and bindings begin anew."""
        self.variant = variant
        self.instance: Instance | None = None
        self.inputs_set: set[int] = set()
        self.input_bindings: dict[int, Binding] = {}
        self.output_bindings: dict[int, Binding] = {}
        self.lent: dict[int, NDArray[Any]] = {}
        self.run_microseconds: int | None = None
        self.last_cores: Cores = frozenset()

    @property
    def soc(self) -> Soc:
        return self.device.soc

    @property
    def shapes(self) -> Variant:
        """The inputs and outputs with the shapes in use."""
        return self.program.variant(self.variant)

    @property
    def arrays(self) -> Instance:
        """The arrays to compute with, made when they are first needed."""
        if self.instance is None:
            if self.flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
                raise Failure(
                    ErrorCode.FAIL, "the context was initialised to collect information only"
                )
            self.instance = self.program.instance(self.variant)
        return self.instance

    def close(self) -> None:
        """Let go of the model and of every buffer that was lent."""
        self.closed = True
        if self.instance is not None:
            self.instance.close()
        self.select(0)
        self.device.return_sram(self.sram)
        self.sram = 0
        self.shares_sram_of = self.weight_memory = self.internal_memory = None


_contexts: dict[int, Context] = {}
_handles = itertools.count(1)


def add(context: Context) -> int:
    """Give a context a handle."""
    handle = next(_handles)
    _contexts[handle] = context
    return handle


def is_alive(handle: int) -> bool:
    """Whether a handle has a context."""
    return handle in _contexts


@contextmanager
def borrow(handle: int) -> Iterator[Context]:
    """The context of a handle, idle and locked for the block; CTX_INVALID if it isn't alive."""
    context = _contexts.get(handle)
    if context is None:
        raise _invalid(handle)
    while True:
        if context.job is not None:
            context.job.wait()
        with context.lock:
            if context.closed:
                raise _invalid(handle)
            if context.job is None or context.job.is_done:
                yield context
                return


def on_context(
    function: Callable[Concatenate[Context, _P], _R],
) -> Callable[Concatenate[int, _P], _R]:
    """Let a function that works on a context be called with its handle, as C does.

    A function that the context's chip doesn't support (Table 4-1) is refused before it is called.
    """
    return on_context_as(function.__name__)(function)


def on_context_as(
    name: str,
) -> Callable[
    [Callable[Concatenate[Context, _P], _R]],
    Callable[Concatenate[int, _P], _R],
]:
    """`on_context` for a function that does the work of the C function called `name`."""
    rule = FUNCTIONS.get(name)

    def wrap(
        function: Callable[Concatenate[Context, _P], _R],
    ) -> Callable[Concatenate[int, _P], _R]:
        def call(handle: int, /, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
            with borrow(handle) as context:
                if rule is not None:
                    _check_support(rule, context.soc)
                return function(context, *arguments, **keywords)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return call

    return wrap


def _check_support(rule: Function, soc: Soc) -> None:
    # A function that no chip supports says by itself what it can't do.
    if rule.families and soc.family not in rule.families:
        raise Failure(
            _REFUSALS.get(rule.name, ErrorCode.TARGET_PLATFORM_UNMATCH),
            f"context config invalid! {soc.name} does not support this call",
        )


# What the vendor's runtime for RV1103 and RV1106 answers to the general API.
_REFUSALS = {
    "rknn_inputs_set": ErrorCode.FAIL,
    "rknn_outputs_get": ErrorCode.FAIL,
}


def remove(handle: int) -> Context:
    """Take a context out of the table; CTX_INVALID if it isn't alive."""
    context = _contexts.pop(handle, None)
    if context is None:
        raise _invalid(handle)
    return context


def _invalid(handle: int) -> Failure:
    return Failure(ErrorCode.CTX_INVALID, f"context {handle:#x} is not alive")
