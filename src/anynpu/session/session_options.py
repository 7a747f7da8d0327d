"""ONNX Runtime's `SessionOptions` and what belongs to it, for sessions on an NPU.

What tunes ONNX Runtime on a processor and changes no result (threads, optimisation levels, memory
arenas, logging) is taken and means nothing to an NPU. What changes a model is done to an ONNX file,
and refused for a compiled one. What can't be done is refused when it is asked for.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..backends import ModelSource, is_remote
from ..errors import OptionError
from ..file_kinds import name_of, read_head
from .ort_value import OrtValue


class GraphOptimizationLevel(enum.IntEnum):
    """How much ONNX Runtime rewrites a graph; a compiled model is rewritten already."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether ONNX Runtime runs branches of a graph at the same time."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """In which order ONNX Runtime runs nodes."""

    DEFAULT = 0
    PRIORITY_BASED = 1


_HINTS: Mapping[str, Any] = {
    "enable_cpu_mem_arena": True,
    "enable_mem_pattern": True,
    "enable_mem_reuse": True,
    "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
    "execution_order": ExecutionOrder.DEFAULT,
    "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
    "inter_op_num_threads": 0,
    "intra_op_num_threads": 0,
    "log_severity_level": -1,
    "log_verbosity_level": 0,
    "logid": "",
    "use_deterministic_compute": False,
    "use_per_session_threads": True,
}
"""What changes no result, with ONNX Runtime's defaults."""
_HINT_ENTRIES = ("session.intra_op", "session.inter_op", "session.use_device_allocator", "ep.")


class SessionOptions:
    """How a session is to be opened, with ONNX Runtime's names; other names are no attributes.

    `enable_profiling` lets `InferenceSession.end_profiling` write a trace, whose name begins with
    `profile_file_prefix`.
    """

    __slots__ = (*_HINTS, "_denoted", "_dims", "_entries", "_initializers", "_optimized",
                 "_providers", "enable_profiling", "profile_file_prefix")  # fmt: skip

    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    graph_optimization_level: GraphOptimizationLevel
    inter_op_num_threads: int
    intra_op_num_threads: int
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    use_deterministic_compute: bool
    use_per_session_threads: bool

    def __init__(self) -> None:
        for name, value in _HINTS.items():
            setattr(self, name, value)
        self.enable_profiling: bool = False
        self.profile_file_prefix: str = "onnxruntime_profile_"
        self._entries: dict[str, str] = {}
        self._initializers: dict[str, np.ndarray[Any, Any]] = {}
        self._dims: dict[str, int] = {}
        self._denoted: dict[str, int] = {}
        self._providers: list[tuple[str, Mapping[str, Any]]] = []

    # ------------------------------------------------------------------------- changes of a model

    def add_initializer(self, name: str, ort_value: OrtValue) -> None:
        """Take a weight of the model from outside: for ONNX files."""
        self._initializers[name] = np.array(np.asarray(ort_value))

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Fix a size that the model leaves open, by its name: for ONNX files."""
        self._dims[dim_name] = int(dim_value)

    def add_free_dimension_override_by_denotation(
        self, dim_denotation: str, dim_value: int
    ) -> None:
        """Fix the inputs' sizes that an ONNX file leaves open, by what it says that they count."""
        self._denoted[dim_denotation] = int(dim_value)

    @property
    def changes_model(self) -> bool:
        """Whether the model isn't to be run as it is in its file."""
        return bool(self._initializers or self._dims or self._denoted)

    def applied(self, model: ModelSource) -> ModelSource:
        """The model with what these options change in it.

        Raises `OptionError` for a compiled model, for a weight that the model doesn't have, and
        for a size that it doesn't leave open.
        """
        if not self.changes_model:
            return model
        return _changed(model, self._initializers, self._dims, self._denoted)

    # --------------------------------------------------------------------------------- providers

    def add_provider(self, name: str, options: Mapping[str, Any]) -> None:
        """Name an execution provider, as `InferenceSession`'s argument does."""
        self._providers.append((name, dict(options)))

    def has_providers(self) -> bool:
        """Whether `add_provider` named one."""
        return bool(self._providers)

    @property
    def providers(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """What `add_provider` named."""
        return tuple(self._providers)

    # ------------------------------------------------------------------------------------ entries

    def add_session_config_entry(self, config_key: str, config_value: str) -> None:
        """Take an entry that tunes a processor; `OptionError` for others, which would be lost."""
        if not config_key.startswith(_HINT_ENTRIES):
            raise OptionError(
                f"the session entry {config_key!r} can't be honoured on an NPU: leave it out, or "
                f"see anynpu's provider_options"
            )
        self._entries[config_key] = str(config_value)

    def get_session_config_entry(self, config_key: str) -> str:
        """An entry's value; raises `OptionError` where there is none."""
        if config_key not in self._entries:
            raise OptionError(
                f"SessionOptions does not have configuration with key: {config_key}; "
                f"add_session_config_entry adds one"
            )
        return self._entries[config_key]

    # -------------------------------------------------------------------------------- what is none

    @property
    def optimized_model_filepath(self) -> str:
        """Where ONNX Runtime would write the model that it rewrote: nowhere."""
        return ""

    @optimized_model_filepath.setter
    def optimized_model_filepath(self, path: str) -> None:
        if path:
            _refuse("optimized_model_filepath", "a model for an NPU isn't rewritten here")

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: custom operators of an NPU come by provider options."""
        _refuse(f"register_custom_ops_library({path!r})", "pass custom_ops in provider_options")

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Take weights of the model from outside: for ONNX files."""
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)


def _refuse(what: str, advice: str) -> NoReturn:
    raise OptionError(f"{what} can't be honoured on an NPU: {advice}")


def check_foreign(options: object) -> None:
    """Refuse what ONNX Runtime's own options ask for and a session here couldn't do."""
    if getattr(options, "optimized_model_filepath", ""):
        _refuse("optimized_model_filepath", "a model for an NPU isn't rewritten here")


def _changed(
    model: ModelSource,
    weights: Mapping[str, np.ndarray[Any, Any]],
    dims: Mapping[str, int],
    denoted: Mapping[str, int],
) -> bytes:
    if is_remote(model):
        _refuse(
            f"add_initializer or a free dimension override for {model!r}",
            "the model is another machine's",
        )
    if read_head(model).startswith((b"RKNN", b"VPMN")):
        _refuse(
            f"add_initializer or a free dimension override for {name_of(model)}",
            "it is compiled; they are for ONNX files, so compile the model with them",
        )
    import onnx
    from onnx import numpy_helper

    if isinstance(model, bytes):
        loaded = onnx.load_from_string(model)
    else:
        loaded = onnx.load(os.fspath(Path(model)))
    there = {tensor.name: tensor for tensor in loaded.graph.initializer}
    inputs = {info.name for info in loaded.graph.input}
    for name, values in weights.items():
        if name not in there and name not in inputs:
            raise OptionError(
                f"{name_of(model)} has no initializer {name!r}; it has {', '.join(there) or 'none'}"
            )
        made = numpy_helper.from_array(values, name)
        if name in there:
            there[name].CopyFrom(made)
        else:
            loaded.graph.initializer.append(made)
    named = {**_names_of(loaded, denoted, name_of(model)), **dims}
    _fix(loaded, named, name_of(model))
    changed: bytes = loaded.SerializeToString()
    return changed


def _names_of(model: Any, denoted: Mapping[str, int], name: str) -> dict[str, int]:
    """Values by the names of sizes for values by what they count; unnamed sizes are fixed here."""
    sizes = [size for info in model.graph.input for size in info.type.tensor_type.shape.dim]
    known = {size.denotation for size in sizes if size.denotation}
    if unknown := set(denoted) - known:
        raise OptionError(
            f"no input of {name} has a size that counts {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    names = {}
    for size in sizes:
        if size.denotation in denoted and size.dim_param:
            names[size.dim_param] = denoted[size.denotation]
        elif size.denotation in denoted and size.dim_value < 1:
            size.dim_value = denoted[size.denotation]
    return names


def _fix(model: Any, dims: Mapping[str, int], name: str) -> None:
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    sizes = [size for info in values for size in info.type.tensor_type.shape.dim]
    open_sizes = {size.dim_param for size in sizes if size.dim_param}
    unknown = [each for each in dims if each not in open_sizes]
    if unknown:
        raise OptionError(
            f"{name} leaves no size {', '.join(unknown)} open; it has "
            f"{', '.join(sorted(open_sizes)) or 'none'}"
        )
    for size in sizes:
        if size.dim_param in dims:
            size.dim_value = dims[size.dim_param]
