"""The `run_options` of a call: a dict, or an object as ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import OptionError
from ..options import boolean

DISPATCH_BATCH = "ztu_modelrt_dispatch_batch"


def dispatches_batch(run_options: object) -> bool:
    """Whether a batch is to be divided between the workers.

    Raises `OptionError` for a dict with other keys; an object's other entries aren't looked at.
    """
    if run_options is None:
        return False
    if isinstance(run_options, Mapping):
        unknown = [key for key in run_options if key != DISPATCH_BATCH]
        if unknown:
            raise OptionError(f"unknown run options {unknown}; known is {DISPATCH_BATCH!r}")
        return boolean(DISPATCH_BATCH, run_options.get(DISPATCH_BATCH, False))
    entry = getattr(run_options, "get_run_config_entry", None)
    if entry is None:
        return False
    try:
        value = entry(DISPATCH_BATCH)
    except Exception:  # ONNX Runtime's raises where there is no such entry
        return False
    return boolean(DISPATCH_BATCH, value) if value else False
