"""The `run_options` of a call: a dict, or an object as ONNX Runtime's; and such an object."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import OptionError
from ..options import boolean

DISPATCH_BATCH = "ztu_modelrt_dispatch_batch"
_HINT_ENTRIES = ("memory.",)


class RunOptions:
    """What a call is told besides its inputs, with ONNX Runtime's names.

    Logging and `only_execute_path_to_fetches` change no result: an NPU computes all outputs. A
    call with `terminate` set is refused.
    """

    __slots__ = (
        "_entries",
        "log_severity_level",
        "log_verbosity_level",
        "logid",
        "only_execute_path_to_fetches",
        "terminate",
    )

    def __init__(self) -> None:
        self.log_severity_level, self.log_verbosity_level = -1, 0
        self.logid = ""
        self.only_execute_path_to_fetches = self.terminate = False
        self._entries: dict[str, str] = {}

    def add_run_config_entry(self, config_key: str, config_value: str) -> None:
        """Take an entry; `OptionError` for one that couldn't be honoured."""
        if config_key != DISPATCH_BATCH and not config_key.startswith(_HINT_ENTRIES):
            raise OptionError(
                f"the run entry {config_key!r} can't be honoured on an NPU; known is "
                f"{DISPATCH_BATCH!r}"
            )
        self._entries[config_key] = str(config_value)

    def get_run_config_entry(self, config_key: str) -> str:
        """An entry's value; raises `OptionError` where there is none."""
        if config_key not in self._entries:
            raise OptionError(f"there is no run entry {config_key!r}")
        return self._entries[config_key]


def dispatches_batch(run_options: object) -> bool:
    """Whether a batch is to be divided between the workers.

    Raises `OptionError` for a dict with other keys and for a call that is to terminate; another
    object's other entries aren't looked at.
    """
    if run_options is None:
        return False
    if isinstance(run_options, Mapping):
        unknown = [key for key in run_options if key != DISPATCH_BATCH]
        if unknown:
            raise OptionError(f"unknown run options {unknown}; known is {DISPATCH_BATCH!r}")
        return boolean(DISPATCH_BATCH, run_options.get(DISPATCH_BATCH, False))
    if getattr(run_options, "terminate", False):
        raise OptionError("run_options.terminate is set: the call would end before it began")
    entry = getattr(run_options, "get_run_config_entry", None)
    if entry is None:
        return False
    try:
        value = entry(DISPATCH_BATCH)
    except Exception:  # ONNX Runtime's raises where there is no such entry
        return False
    return boolean(DISPATCH_BATCH, value) if value else False
