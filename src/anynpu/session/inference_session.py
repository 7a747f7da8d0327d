"""`InferenceSession`, with ONNX Runtime's names."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from .. import backends, feeds
from ..errors import ClosedError, OptionError, TensorError
from ..lifetime import Closeable
from .node import ModelMetadata, NodeArg, input_arg, output_arg

Provider = str | tuple[str, Mapping[str, Any]]


class InferenceSession(Closeable):
    """A model on an NPU, called as ONNX Runtime's session is.

    `path_or_bytes` is a model's path or bytes. `sess_options` is accepted for compatibility and
    ignored. `providers` names the execution provider (one name, or one (name, options) pair), or
    is empty for the choice by the file's first bytes. `provider_options` is a dict, or a list of
    one dict; the known option is ``library``, as `anynpu.rknn.library.load` takes it.

    Images are NCHW, as in the model's source. Threads may share a session: calls of `run` take
    turns. Raises `ModelError` for a file that can't be read, `OptionError` for an unknown option
    or provider, `LibraryError` where no library can be loaded, `CallError` for failed calls.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: object = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        name, inline = _requested_provider(providers)
        self._backend = backends.choose(path_or_bytes)
        _check_provider(name, self._backend)
        self._options = _options(inline, provider_options, self._backend)
        self._worker = self._backend.open(path_or_bytes, self._options)
        self._lock = threading.Lock()
        self._closed = False
        self._output_names = [info.name for info in self._worker.outputs]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: feeds.Feed,
        run_options: object = None,
    ) -> list[NDArray[Any]]:
        """Compute, and return the named outputs as new float32 arrays.

        `output_names` None or empty means all outputs in the model's order. `input_feed` is a dict
        by name, a list in the model's order, or the array of a model with one input; its values
        are copied. Values are real ones of any dtype among float32, float16, (u)int8, (u)int16,
        (u)int32, int64 and bool: the runtime applies the model's normalisation and quantises.
        Other dtypes and nested lists are cast to the input's dtype where that is safe.

        `run_options` is accepted for compatibility and ignored. Raises `TensorError` for names,
        shapes and dtypes that don't fit, `ClosedError` after `close`.
        """
        wanted = self._wanted(output_names)
        arrays = self._arrays(input_feed)
        with self._lock:
            if self._closed:
                raise ClosedError("this session is closed")
            outputs = self._worker.run(arrays)
        return [outputs[index] for index in wanted]

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in the model's order."""
        return [input_arg(info) for info in self._worker.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in the model's order."""
        return [output_arg(info) for info in self._worker.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model and the runtime say of themselves; `ClosedError` after `close`."""
        with self._lock:
            if self._closed:
                raise ClosedError("this session is closed")
            return ModelMetadata(self._worker.metadata())

    def get_providers(self) -> list[str]:
        """The execution provider in use, as a list of one."""
        return [self._backend.names[0]]

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """The options given, by provider."""
        return {self._backend.names[0]: dict(self._options)}

    def close(self) -> None:
        """Free the model, after the call of `run` that is under way; twice does nothing."""
        with self._lock:
            self._closed = True
            self._worker.close()

    def _wanted(self, output_names: Sequence[str] | None) -> list[int]:
        if not output_names:
            return list(range(len(self._output_names)))
        if isinstance(output_names, str):
            raise TensorError(f"output_names is a list of names, not the string {output_names!r}")
        try:
            return [self._output_names.index(name) for name in output_names]
        except ValueError:
            unknown = [name for name in output_names if name not in self._output_names]
            raise TensorError(
                f"there are no outputs {unknown}; the model has {self._output_names}"
            ) from None

    def _arrays(self, input_feed: feeds.Feed) -> list[NDArray[Any]]:
        infos = self._worker.inputs
        arrays = []
        for value, info in zip(feeds.match(infos, input_feed), infos, strict=True):
            array = feeds.as_array(value, info)
            feeds.check_shape(array, info.shape, info)
            arrays.append(array)
        return arrays


def _requested_provider(
    providers: Sequence[Provider] | None,
) -> tuple[str | None, Mapping[str, Any]]:
    """(name or None for the file's own, the options that came with the name)."""
    if not providers:
        return None, {}
    if isinstance(providers, str):
        return providers, {}
    if len(providers) > 1:
        raise OptionError(f"a session has one provider; {len(providers)} were given")
    first = providers[0]
    return (first, {}) if isinstance(first, str) else (first[0], first[1])


def _check_provider(name: str | None, backend: backends.Backend) -> None:
    known = backends.providers()
    if name is not None and name not in known:
        raise OptionError(f"unknown provider {name!r}; known are {', '.join(known)}")
    if name is not None and known[name] is not backend:
        raise OptionError(f"the model is for {backend.names[0]}, not for {name}")


def _options(
    inline: Mapping[str, Any],
    separate: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    backend: backends.Backend,
) -> dict[str, Any]:
    if separate is not None and not isinstance(separate, Mapping):
        if len(separate) > 1:
            raise OptionError(f"provider_options has {len(separate)} entries for one provider")
        separate = separate[0] if separate else None
    if inline and separate:
        raise OptionError("options were given both in providers and in provider_options")
    options = dict(separate or inline)
    for key in options:
        if key not in backend.option_names:
            near = difflib.get_close_matches(str(key), backend.option_names, 1)
            raise OptionError(
                f"unknown provider option {key!r}"
                + (f", perhaps {near[0]!r}" if near else "")
                + f"; known are {', '.join(backend.option_names)}"
            )
    return options
