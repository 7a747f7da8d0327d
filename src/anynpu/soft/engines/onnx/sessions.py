"""Sessions of ONNX Runtime, which end neither under a call nor in a forked process.

Its destructors at the process's end take apart what its runs need, so calls are waited for before
them: they run in the opposite order to that in which what they destroy was made, and ONNX Runtime
makes much of it when it first computes an operator. A session's destructor waits for the session's
threads, which a forked process doesn't have, so what was there before the fork stays there.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from .... import process
from ...cabi import doors
from . import runtime as onnxruntime

_alive: weakref.WeakSet[onnxruntime.InferenceSession] = weakref.WeakSet()
_new: weakref.WeakKeyDictionary[onnxruntime.InferenceSession, frozenset[str]] = (
    weakref.WeakKeyDictionary()
)
_computed: set[str] = set()


def open_session(
    model: bytes,
    options: onnxruntime.SessionOptions,
    operators: Iterable[str],
    disabled: Iterable[str] = (),
) -> onnxruntime.InferenceSession:
    """A session on the processor for a model of these operators, without some optimisers.

    Raises what ONNX Runtime raises.
    """
    session = onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(disabled)
    )
    _alive.add(session)
    kinds = frozenset(operators) | {node.type for node in session.get_inputs()}
    if not kinds <= _computed:
        _new[session] = kinds
    return session


def has_run(session: onnxruntime.InferenceSession) -> None:
    """Note that a session has run: after each run."""
    if _new and (kinds := _new.pop(session, None)) is not None:
        _computed.update(kinds)
        doors.watch_end()


def _keep_for_ever() -> None:
    for session in list(_alive):
        process.keep_for_ever(session)


process.in_child(_keep_for_ever)
doors.watch_end()
