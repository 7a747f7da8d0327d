"""Faults on demand: make calls of the soft NPU fail, so that a program's error paths can be tested.

``ANYNPU_SOFT_FAULTS`` lists them, separated by commas or spaces::

    rknn_run=TIMEOUT              every call fails with RKNN_ERR_TIMEOUT
    rknn_run@5=FAIL               the fifth call does
    rknn_create_mem@3+=MALLOC_FAIL    the third call and all after it do
    rknn_init=DEVICE_UNAVAILABLE
    vip_run_network@2=RECOVERY

Any function of the RKNN API or of VIPLite, and any error code of its API, may be named; a function
that returns a pointer returns NULL. The setting is read at each `rknn_init` and `vip_init`; calls
are counted in the process, from the first one that sees it, or from `reset`.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import process
from ..rknn import abi as rknn
from ..viplite import abi as viplite
from .failure import Failure

ENVIRONMENT_VARIABLE = "ANYNPU_SOFT_FAULTS"
_RULE = re.compile(r"(?P<name>\w+)(?:@(?P<number>\d+)(?P<onwards>\+)?)?=(?P<code>\w+)")


@dataclass(frozen=True)
class _Api:
    """An API: its functions and codes, and the code for a setting that makes no sense."""

    functions: Mapping[str, Any]
    codes: type[enum.IntEnum]
    invalid: enum.IntEnum


_RKNN = _Api(rknn.FUNCTIONS, rknn.ErrorCode, rknn.ErrorCode.PARAM_INVALID)
_VIPLITE = _Api(viplite.FUNCTIONS, viplite.Status, viplite.Status.INVALID_ARGUMENTS)
_INITIALISERS = {"rknn_init": _RKNN, "vip_init": _VIPLITE}


@dataclass(frozen=True)
class _Rule:
    """Calls number `first` to `last` (None: all after it) of a function fail with a code."""

    name: str
    first: int
    last: int | None
    code: enum.IntEnum


class _State:
    def __init__(self, setting: str, rules: tuple[_Rule, ...]) -> None:
        self.setting = setting
        self.rules = rules
        self.counts: dict[str, int] = {}


_lock = process.lock()
_state = _State("", ())


def _read_environment(invalid: enum.IntEnum) -> None:
    """Take the rules from the environment; a new setting begins to count anew.

    Raises `Failure` with the code for a rule that can't be understood.
    """
    global _state
    setting = os.environ.get(ENVIRONMENT_VARIABLE, "")
    with _lock:
        if setting != _state.setting:
            _state = _State(
                setting,
                tuple(_parse(word, invalid) for word in re.split(r"[,\s]+", setting) if word),
            )


def reset() -> None:
    """Begin to count calls anew: for tests in one process that use the same setting."""
    with _lock:
        _state.counts.clear()


def check(name: str) -> None:
    """Count a call of a function, and raise `Failure` if it is to fail."""
    if (api := _INITIALISERS.get(name)) is not None:
        _read_environment(api.invalid)
    if not _state.rules:
        return
    with _lock:
        number = _state.counts[name] = _state.counts.get(name, 0) + 1
        rules = _state.rules
    for rule in rules:
        if rule.name == name and rule.first <= number <= (rule.last or number):
            raise Failure(rule.code, f"fault on demand, call {number} (${ENVIRONMENT_VARIABLE})")


def _parse(word: str, invalid: enum.IntEnum) -> _Rule:
    match = _RULE.fullmatch(word)
    if match is not None:
        for api in (_RKNN, _VIPLITE):
            if match["name"] in api.functions and match["code"] in api.codes.__members__:
                number = int(match["number"]) if match["number"] else None
                only = number is not None and not match["onwards"]
                code = api.codes[match["code"]]
                return _Rule(match["name"], number or 1, number if only else None, code)
    raise Failure(
        invalid,
        f"${ENVIRONMENT_VARIABLE} has {word!r}; expected FUNCTION[@NUMBER[+]]=CODE, such as "
        f"rknn_run@3=TIMEOUT",
    )
