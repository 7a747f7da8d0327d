"""The table of contexts: an `rknn_context` is a small integer, valid in 32 bits, never reused."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ...rknn.abi import FUNCTIONS, CoreMask, ErrorCode, Function, InitFlag
from ...soc import Soc
from ..device import Cores, Device
from ..device_memory import DeviceMemory
from ..engines import NOT_CUSTOMIZED, Instance, LoweredModel, Program, Variant
from ..handles import Runnable, RunnableTable
from ..handles import borrow as borrow_thing
from . import board_refusals
from .failure import CONVENTIONS, Failure
from .leniency import crash
from .lent_outputs import LENT, Lender

if TYPE_CHECKING:
    from .custom_ops import CustomOperators
    from .input_binding import InputBinding
    from .output_binding import OutputBinding

_PRIORITY_BITS = 0b11
_P = ParamSpec("_P")
_R = TypeVar("_R")


class DeviceContext(Runnable):
    """What a handle stands for, whatever it computes.

    `last_cores` are those of the last run. `callback_thread` is the thread that is inside a custom
    operator's callback.
    """

    purpose = ""

    def __init__(self, device: Device, priority: int = 0) -> None:
        super().__init__(CONVENTIONS)
        self.device = device
        self.priority = priority
        self.core_mask = CoreMask.AUTO
        self.last_cores: Cores = frozenset()
        self.callback_thread: int | None = None

    @property
    def soc(self) -> Soc:
        return self.device.soc

    def is_called_by_run(self) -> bool:
        return self.callback_thread == threading.get_ident()

    def cancel(self) -> None:
        super().cancel()
        self.device.wake()


_C = TypeVar("_C", bound=DeviceContext)


class Context(DeviceContext):
    """A model's state.

    `variant` is the number of the set of input shapes in use, the largest until `has_shapes`.
    `input_bindings` and `output_bindings` are the buffers of the zero-copy calls, by tensor index.
    `pixel_inputs` are those which the NPU converts from uint8 pictures: from the first picture on
    they take nothing else. `computed` is the instance that has been run.
    """

    purpose = "a model"

    def __init__(self, program: Program, device: Device, flags: InitFlag) -> None:
        super().__init__(device, int(flags) & _PRIORITY_BITS)
        self.program = program
        self.flags = flags
        self.batch_cores = 1
        self.sram = 0
        self.shares_sram_of: Context | None = None
        self.weight_memory: DeviceMemory | None = None
        self.internal_memory: DeviceMemory | None = None
        self.perf_text: Any = None
        self.operators: CustomOperators | None = None
        self.has_shapes = False
        self.lender = Lender()
        self.select(self.program.largest)

    def select(self, variant: int) -> None:
        """Take up a set of input shapes: inputs, outputs and bindings begin anew."""
        self.variant = variant
        self.instance: Instance | None = None
        self.computed: Instance | None = None
        self.inputs_set: set[int] = set()
        self.pixel_inputs: set[int] = set()
        self.input_bindings: dict[int, InputBinding] = {}
        self.output_bindings: dict[int, OutputBinding] = {}
        self.run_microseconds: int | None = None
        self.last_cores: Cores = frozenset()

    @property
    def is_dynamic(self) -> bool:
        """Whether the model has several sets of input shapes."""
        return len(self.program.input_shapes) > 1

    @property
    def shapes(self) -> Variant:
        """The inputs and outputs with the shapes in use."""
        return self.program.variant(self.variant)

    @property
    def footprint(self) -> LoweredModel:
        """The model under its largest shapes, which memory of any kind is sized for."""
        return self.program.lowered(self.program.largest)

    @property
    def arrays(self) -> Instance:
        """The arrays to compute with, made when they are first needed."""
        if self.instance is None:
            if self.flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
                raise Failure(
                    ErrorCode.FAIL, "the context was initialised to collect information only"
                )
            custom = board_refusals.customization(self.program, self.variant, NOT_CUSTOMIZED)
            self.instance = self.program.instance(self.variant, custom)
        return self.instance

    def cancel(self) -> None:
        super().cancel()
        instance = self.instance
        if instance is not None:
            instance.cancel()

    def release(self) -> None:
        """Let go of the model; buffers that were lent may be in use still."""
        LENT.outlive(self.lender)
        if self.operators is not None:
            self.operators.close()
            self.operators = None
        if self.instance is not None:
            self.instance.close()
        self.select(self.program.largest)
        self.device.return_sram(self.sram)
        self.sram = 0
        self.shares_sram_of = self.weight_memory = self.internal_memory = None


def not_alive(handle: int) -> Failure:
    """What a call with a handle that has no context fails with, or whose context was destroyed."""
    text = f"context {handle:#x} is not alive"
    # A board checks for 0 alone; its handles are pointers.
    return crash("destroyed context", text) if handle else Failure(ErrorCode.CTX_INVALID, text)


CONTEXTS: RunnableTable[DeviceContext] = RunnableTable(itertools.count(1), not_alive)


def borrow_as(kind: type[_C], handle: int) -> AbstractContextManager[_C]:
    """The context of a handle, idle and locked for the block.

    CTX_INVALID if it isn't alive, or of another kind.
    """
    return borrow_thing(_find(kind, handle), lambda: not_alive(handle))


def refuse_in_callback(context: DeviceContext) -> None:
    """FAIL where a custom operator's callback makes a call that changes what is being run."""
    if context.is_called_by_run():
        raise Failure(
            ErrorCode.FAIL, "a custom op's callback can't make this call on the context it runs in"
        )


def borrow(handle: int) -> AbstractContextManager[Context]:
    """`borrow_as` for the context of a model."""
    return borrow_as(Context, handle)


def on_context(
    function: Callable[Concatenate[Context, _P], _R],
) -> Callable[Concatenate[int, _P], _R]:
    """Let a function that works on a context be called with its handle, as C does.

    A function that the context's chip doesn't support (Table 4-1) is refused before it is called.
    """
    return on_kind(Context)(function)


def on_any_context(
    function: Callable[Concatenate[DeviceContext, _P], _R],
) -> Callable[Concatenate[int, _P], _R]:
    """`on_context` for a function that works on contexts of every kind."""
    return on_kind(DeviceContext)(function)


def on_context_as(
    name: str,
) -> Callable[
    [Callable[Concatenate[Context, _P], _R]],
    Callable[Concatenate[int, _P], _R],
]:
    """`on_context` for a function that does the work of the C function called `name`."""
    return on_kind(Context, name)


def on_kind(
    kind: type[_C], name: str = ""
) -> Callable[
    [Callable[Concatenate[_C, _P], _R]],
    Callable[Concatenate[int, _P], _R],
]:
    """`on_context` for contexts of one kind."""

    def wrap(
        function: Callable[Concatenate[_C, _P], _R],
    ) -> Callable[Concatenate[int, _P], _R]:
        rule = FUNCTIONS.get(name or function.__name__)

        def call(handle: int, /, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
            with borrow_as(kind, handle) as context:
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


# What the vendor's runtime for RV1103 and RV1106 answers to the general API, and what the matmul
# demo says of chips with one core.
_REFUSALS = {
    "rknn_inputs_set": ErrorCode.FAIL,
    "rknn_outputs_get": ErrorCode.FAIL,
    "rknn_matmul_set_core_mask": ErrorCode.FAIL,
}


def remove(handle: int, kind: type[DeviceContext] = DeviceContext) -> DeviceContext:
    """Take a context out of the table; CTX_INVALID if it isn't alive, or of another kind."""
    refuse_in_callback(_find(kind, handle))
    return CONTEXTS.remove(handle)


def _find(kind: type[_C], handle: int) -> _C:
    context = CONTEXTS.find(handle)
    if not isinstance(context, kind):
        raise Failure(
            ErrorCode.CTX_INVALID,
            f"context {handle:#x} is for {context.purpose}, not for {kind.purpose}",
        )
    return context
