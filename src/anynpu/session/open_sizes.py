"""Sessions for ONNX files that leave sizes open: a network for each set of shapes that comes.

A compiled model has fixed shapes, and so has all that runs on an NPU. ONNX files as programs for
ONNX Runtime have them don't: their inputs' sizes are known with each feed. So the soft NPU gets a
file whose sizes are fixed, and a session of its own for it.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .. import backends, feeds
from ..errors import ClosedError, ModelError, OptionError, TensorError
from ..file_kinds import check_model, read_head
from ..tensor import DType, Layout
from .binding import SessionIOBinding
from .future import InferenceFuture
from .host_binding import HostBinding
from .inference_session import Callback, InferenceSession
from .node import ModelMetadata, NodeArg, type_name
from .providers import choose
from .scheduler import Results
from .session_options import SessionOptions, check_foreign

if TYPE_CHECKING:
    from .loop_future import LoopFuture

_MOST_NETWORKS = 8
"""The networks that are kept; the one that was used least recently goes."""
_SHAPES = "anynpu.shapes"
_COMPILED = (b"RKNN", b"VPMN")
_T = TypeVar("_T")
Shapes = tuple[tuple[int, ...], ...]


class OpenSizesSession(InferenceSession):
    """A session whose inputs take arrays of any size that the model's graph allows.

    `InferenceSession` is one where it is given such a file. The first feed of a set of shapes
    opens a network for it, which takes as long as opening a session; eight are kept. Raises as
    `InferenceSession` does; what needs one network (memory on the device, pipelines) is refused.
    """

    def __init__(
        self,
        path_or_bytes: backends.ModelSource,
        sess_options: object = None,
        providers: Any = None,
        provider_options: Any = None,
        *,
        use_weight_from: InferenceSession | None = None,
    ) -> None:
        if use_weight_from is not None:
            raise OptionError("use_weight_from: an ONNX file of open sizes has its own weights")
        if getattr(sess_options, "enable_profiling", False):
            raise OptionError(f"enable_profiling {_REFUSAL}")
        if isinstance(sess_options, SessionOptions):
            path_or_bytes = sess_options.applied(path_or_bytes)
            providers = providers or sess_options.providers
        else:
            check_foreign(sess_options)
        self._backend, _ = choose(path_or_bytes, providers, provider_options)
        self._session_options = sess_options
        self._path_or_bytes = path_or_bytes
        self._arguments = (None, providers, provider_options)
        self._model = _load(path_or_bytes, with_weights=True)
        weights = {tensor.name for tensor in self._model.graph.initializer}
        self._inputs = [i for i in self._model.graph.input if i.name not in weights]
        self._args = [_arg(info) for info in self._inputs]
        self._sessions: OrderedDict[Shapes, InferenceSession] = OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False

    # -------------------------------------------------------------------------------- computing

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: feeds.Feed,
        run_options: object = None,
        *,
        batch: str | None = None,
    ) -> Results:
        """As `InferenceSession.run`."""
        feed, session = self._fitting(input_feed)
        return session.run(output_names, feed, run_options, batch=batch)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: feeds.Feed,
        callback: Callback,
        user_data: Any = None,
        run_options: object = None,
    ) -> None:
        """As `InferenceSession.run_async`; callbacks keep their order for each set of shapes."""
        feed, session = self._fitting(input_feed)
        session.run_async(output_names, feed, callback, user_data, run_options)

    def submit(
        self,
        output_names: Sequence[str] | None,
        input_feed: feeds.Feed,
        *,
        may_wait: bool = True,
        copy: bool = True,
    ) -> InferenceFuture:
        """As `InferenceSession.submit`."""
        feed, session = self._fitting(input_feed)
        return session.submit(output_names, feed, may_wait=may_wait, copy=copy)

    async def run_awaitable(
        self, output_names: Sequence[str] | None, input_feed: feeds.Feed
    ) -> Results:
        """As `InferenceSession.run_awaitable`."""
        feed, session = self._fitting(input_feed)
        return await session.run_awaitable(output_names, feed)

    def submit_awaitable(
        self, output_names: Sequence[str] | None, input_feed: feeds.Feed, *, copy: bool = True
    ) -> LoopFuture:
        """As `InferenceSession.submit_awaitable`."""
        feed, session = self._fitting(input_feed)
        return session.submit_awaitable(output_names, feed, copy=copy)

    def map(
        self,
        input_feeds: Iterable[feeds.Feed],
        *,
        ordered: bool = True,
        output_names: Sequence[str] | None = None,
    ) -> Iterator[Results]:
        """As `InferenceSession.map`, one after the other."""
        return (self.run(output_names, feed) for feed in input_feeds)

    def run_pipeline(self, input_feed: feeds.Feed, depth: int = 3, reset: bool = False) -> Results:
        """Refused: a pipeline has one network."""
        raise OptionError(f"run_pipeline {_REFUSAL}")

    def io_binding(self) -> SessionIOBinding:
        """A binding of memory on the host, for feeds of any sizes."""
        return HostBinding(self)

    @property
    def network(self) -> backends.Network:
        """Refused: there is one for each set of shapes."""
        raise OptionError(f"network {_REFUSAL}")

    def flush(self) -> list[Results]:
        """Nothing: there is no pipeline."""
        return []

    def profile(self, *, spans: int = 0, into: Any = None) -> Any:
        """Refused: a profile has one network."""
        raise OptionError(f"profile {_REFUSAL}")

    def set_providers(self, providers: Any, provider_options: Any = None) -> None:
        """Confirm the provider in use; `OptionError` for others."""
        choose(self._path_or_bytes, providers, provider_options)

    # --------------------------------------------------------------------------- what it says

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in the model's order; a size that is open is the model's name for it."""
        return list(self._args)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in the model's order; a size that is open is the model's name for it."""
        return [_arg(info) for info in self._model.graph.output]

    def get_modelmeta(self) -> ModelMetadata:
        """What the ONNX file says of itself."""
        model = self._model
        return ModelMetadata(
            {entry.key: entry.value for entry in model.metadata_props},
            model.producer_name,
            model.graph.name,
            model.domain,
            model.doc_string,
            model.graph.doc_string,
            model.model_version,
        )

    def get_providers(self) -> list[str]:
        """The execution provider in use, as a list of one."""
        return [self._backend.names[0]]

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """The options of each network, by provider; empty before the first."""
        session = next(iter(self._sessions.values()), None)
        return {self.get_providers()[0]: {}} if session is None else session.get_provider_options()

    def end_profiling(self) -> str:
        """Nothing is profiled: the empty name."""
        return ""

    def __repr__(self) -> str:
        inputs = ", ".join(f"{arg.name} {arg.shape}" for arg in self.get_inputs())
        return f"<InferenceSession of open sizes: {inputs}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return InferenceSession, (self._path_or_bytes, *self._arguments)

    def close(self, *, cancel: bool = False) -> None:
        """Close all networks; twice is no harm."""
        with self._lock:
            self._is_closed = True
            while self._sessions:
                self._sessions.popitem()[1].close(cancel=cancel)

    # ------------------------------------------------------------------------------------ helpers

    def _fitting(self, feed: feeds.Feed) -> tuple[feeds.Feed, InferenceSession]:
        """The feed, and the session for its shapes."""
        names = [arg.name for arg in self._args]
        arrays = [np.asarray(value) for value in feeds.match(self._args, feed)]
        for array, arg in zip(arrays, self._args, strict=True):
            _check(array.shape, arg)
        shapes = tuple(array.shape for array in arrays)
        with self._lock:
            if self._is_closed:
                raise ClosedError("this session is closed: use it before close(), or open another")
            session = self._sessions.pop(shapes, None) or self._open(shapes)
            self._sessions[shapes] = session
            if len(self._sessions) > _MOST_NETWORKS:
                self._sessions.popitem(last=False)[1].close()
        return dict(zip(names, arrays, strict=True)), session

    def _open(self, shapes: Shapes) -> InferenceSession:
        return InferenceSession(_for_shapes(self._model, self._inputs, shapes), *self._arguments)


_REFUSAL = (
    "needs one set of shapes: fix the model's sizes, with anynpu build --shape or "
    "SessionOptions.add_free_dimension_override_by_name"
)


def has_open_sizes(model: backends.ModelSource) -> bool:
    """Whether a model is an ONNX file that leaves sizes of its inputs open.

    False where that can't be known, without onnx or for a file that can't be read: what opens the
    model says what is wrong.
    """
    try:
        check_model(model)
        if read_head(model).startswith(_COMPILED) or find_spec("onnx") is None:
            return False
        loaded = _load(model, with_weights=False)
    except Exception:  # whatever is wrong with a file, opening it tells
        return False
    if any(entry.key == _SHAPES for entry in loaded.metadata_props):
        return False
    weights = {tensor.name for tensor in loaded.graph.initializer}
    inputs = [info for info in loaded.graph.input if info.name not in weights]
    return any(
        not size.HasField("dim_value") or size.dim_value < 1
        for info in inputs
        for size in info.type.tensor_type.shape.dim
    )


def _load(model: backends.ModelSource, *, with_weights: bool) -> Any:
    import onnx

    if isinstance(model, bytes):
        return onnx.load_from_string(model)
    return onnx.load(os.fspath(model), load_external_data=with_weights)


def _check(found: tuple[int, ...], arg: NodeArg) -> None:
    """Raise `TensorError` for another number of axes, and for another size than the model fixes.

    So it is for arrays without elements.
    """
    if 0 in found:
        raise TensorError(
            f"input {arg.name!r} has no elements, with the shape {found}: give at least one"
        )
    fits = len(found) == len(arg.shape) and all(
        not isinstance(wanted, int) or size == wanted
        for size, wanted in zip(found, arg.shape, strict=True)
    )
    if not fits:
        raise TensorError(
            f"input {arg.name!r} takes the shape {arg.shape}, whose named sizes are open; found "
            f"{found}: give an array of such a shape"
        )


def _for_shapes(model: Any, inputs: Sequence[Any], shapes: Shapes) -> bytes:
    """The model's bytes for one set of its inputs' shapes, and no names for other sizes.

    Some exporters give different sizes one name.
    """
    import onnx

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for info in (*changed.graph.input, *changed.graph.output, *changed.graph.value_info):
        for size in info.type.tensor_type.shape.dim:
            if size.dim_param or size.dim_value < 1:
                size.Clear()
    sets = [{info.name: list(shape) for info, shape in zip(inputs, shapes, strict=True)}]
    changed.metadata_props.add(key=_SHAPES, value=json.dumps(sets))
    data: bytes = changed.SerializeToString()
    return data


def _arg(info: Any) -> NodeArg:
    import onnx

    tensor = info.type.tensor_type
    given = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    dtype = DType.from_numpy(given)
    if dtype is None:
        raise ModelError(f"{info.name!r} is a tensor of {given}, which an NPU doesn't have")
    shape: list[Any] = [
        size.dim_value if size.HasField("dim_value") and size.dim_value > 0 else size.dim_param
        for size in tensor.shape.dim
    ]
    return NodeArg(info.name, shape, type_name(dtype), dtype, Layout.UNDEFINED, dtype, 0.0, 0, ())
