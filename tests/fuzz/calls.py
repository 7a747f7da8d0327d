"""Random calls of the soft NPU's two C APIs as inputs of the fuzzer.

An input is JSON: {"seed": 7, "strict": false}. Crashes and hangs are what a driver finds; here it
is seen that each call answers with a code that the API has, and none because of a fault of ours.
"""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from unittest.mock import patch

from anynpu.rknn import library as rknn_library
from anynpu.viplite import library as viplite_library
from anynpu.viplite.abi import Status

from .checks import RAN
from .rknn_calls import RknnCalls
from .vip_calls import VipCalls

CALLS = 300
"""Of one input."""

_OUR_FAULT = "internal error"
"""How the log begins what nobody foresaw; the caller gets a code as for any failure."""


def damaged(source: random.Random) -> tuple[str, bytes]:
    """Which calls."""
    seed, strict = source.getrandbits(32), source.random() < 0.5
    return f"{CALLS} calls", json.dumps({"seed": seed, "strict": strict}).encode()


def rknn_calls(data: bytes) -> str:
    """Make calls of RKNN's API; raises AssertionError as the module says."""
    with _watched(data) as seed:
        RknnCalls(rknn_library.load("soft"), seed).go(CALLS)
    return RAN


def vip_calls(data: bytes) -> str:
    """The same of VIPLite's."""
    vip = viplite_library.load("soft")
    with _watched(data) as seed:
        assert vip.vip_init() == Status.SUCCESS
        try:
            VipCalls(vip, seed).go(CALLS)
        finally:
            while vip.vip_destroy() == Status.SUCCESS:
                pass
    return RAN


@contextmanager
def _watched(data: bytes) -> Iterator[int]:
    given = json.loads(data)
    strict = {"ANYNPU_SOFT_STRICT": "1"} if given["strict"] else {}
    with patch.dict(os.environ, strict), no_faults_of_ours():
        yield given["seed"]


@contextmanager
def no_faults_of_ours() -> Iterator[None]:
    """Keep the log; raises AssertionError where it tells of an exception that nobody foresaw."""
    log = io.StringIO()
    with redirect_stderr(log):
        yield
    _, found, text = log.getvalue().partition(_OUR_FAULT)
    assert not found, text
