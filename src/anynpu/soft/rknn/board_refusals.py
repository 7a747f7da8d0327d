"""Nodes of the CPU that a board's runtime has no operator for.

They are computed here, with a notice. In strict mode they aren't: `librknnmrt` refuses the model
when it is loaded; `librknnrt` says what it lacks then, and fails to run it unless an operator of
that name is registered in between.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...rknn.abi import ErrorCode
from ...soc import Soc
from ..device_memory import strict
from ..engines import Customization, Program, Refusal
from . import log
from .failure import Failure

_UPDATE = "please try updating to the latest version of the toolkit2 and runtime"
_MINI = "librknnmrt"
"""The library without custom operators: what it can't compute itself, nothing can."""

_noticed: set[tuple[str, str]] = set()
"""Operators and runtimes that this process has spoken of."""


def report(program: Program, chip: Soc) -> None:
    """Say what a board refuses of a model that is loaded, or in strict mode refuse it.

    Mistakes of the compiler are said as well: a board computes them.
    """
    for mistake in program.mistakes(program.largest):
        log.notice(mistake)
    refusals = program.refusals(program.largest)
    if not strict():
        _notice(refusals)
        return
    for refusal in refusals:
        if chip.library == _MINI:
            op_type, name = refusal.op_type, refusal.name
            log.error(f"unsupport cpu {op_type} op, op name: {name} in current, {_UPDATE}")
            log.error("rknn fallback cpu failed")
            raise Failure(ErrorCode.FAIL, _reason(refusal))
        log.error(unsupported(refusal.op_type, chip))


def customization(program: Program, variant: int, custom: Customization) -> Customization:
    """`custom` with what strict mode refuses to compute."""
    if not strict():
        return custom
    refused = frozenset(refusal.index for refusal in program.refusals(variant))
    return Customization(custom.calls, custom.builtin, refused)


def unsupported(op_type: str, chip: Soc) -> str:
    """The vendor's message for an operator that isn't there."""
    return (
        f"Unsupport CPU op: {op_type} in this {chip.library}.so, please try to register custom op "
        f"by calling rknn_register_custom_ops"
    )


def _notice(refusals: Iterable[Refusal]) -> None:
    """One line for each operator, once in a process."""
    for refusal in refusals:
        key = refusal.op_type, refusal.runtime
        if key in _noticed:
            continue
        _noticed.add(key)
        log.notice(f"{_reason(refusal)}; here it is computed")


def _reason(refusal: Refusal) -> str:
    return (
        f"a board refuses node {refusal.name!r}: {refusal.runtime} doesn't compute the CPU "
        f"operator {refusal.op_type} ({refusal.source})"
    )
