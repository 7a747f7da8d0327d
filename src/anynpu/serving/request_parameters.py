"""The parameters of requests that mean something here, and those that are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import TensorError
from .tensors import is_count

MOST_ID = 256
"""Characters of a request's id that are logged."""
_LONGEST = 10**15


def seconds_of(parameters: Mapping[str, Any]) -> float | None:
    """The parameter ``timeout``, which is in microseconds; 0 is none."""
    value = parameters.get("timeout")
    if value is None or value == 0:
        return None
    if not is_count(value):
        raise TensorError("the parameter 'timeout' takes a whole number of microseconds")
    return min(value, _LONGEST) / 1e6


def refuse_classification(parameters: Mapping[str, Any]) -> None:
    """`TensorError` for the extension that sorts an output: its answer wouldn't be the output."""
    if parameters.get("classification"):
        raise TensorError("the classification extension isn't there: take the output, and sort it")


def refuse_load_parameters(names: Iterable[str]) -> None:
    """A load takes neither a file nor a configuration from a request."""
    if found := ", ".join(names):
        raise TensorError(f"load takes no parameters here; found {found[:100]}")
