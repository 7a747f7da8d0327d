"""`InferenceSession`, with ONNX Runtime's names."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import backends, feeds
from ..errors import ArgumentTypeError, OptionError, QueueFullError, TensorError
from ..file_kinds import read_head
from ..input_watch import InputWatch
from ..lifetime import Closeable
from . import batches, mapping, providers
from .binding import SessionIOBinding
from .future import InferenceFuture
from .node import ModelMetadata, NodeArg, input_arg, output_arg
from .ort_value import OrtValue
from .profile import Profile
from .run_options import dispatches_batch
from .scheduler import RequestHandle, Results, Scheduler
from .session_options import SessionOptions, check_foreign
from .trace import Trace

if TYPE_CHECKING:
    import asyncio

    from .loop_future import LoopFuture

Callback = Callable[[Results | None, Any, str], Any]


class InferenceSession(Closeable):
    """A model on an NPU, called as ONNX Runtime's session is, with every core at work.

    `path_or_bytes` is a model's path or bytes, or where it is served: ``grpc://host:port/model``,
    or a list of such addresses, whose servers share the work. `sess_options` is an
    `anynpu.SessionOptions`, which says what is honoured, or one of ONNX Runtime's. `providers`
    names the execution provider (a name, a (name, options) pair, or a list in which providers of
    ONNX Runtime's may stand, too: it is said once that they aren't used), or is empty for the
    choice by the file's first bytes.
    `provider_options` is a dict, or a list with a dict for each provider:
    `anynpu.make_provider_options` checks and explains them. `use_weight_from` is another session,
    whose weights this one's model, built without them, shares.

    An ONNX file that leaves sizes open gets a network for each set of shapes that comes: the
    session is an `OpenSizesSession`.

    Images are NCHW, as in the model's source, unless the options say otherwise. Values are real
    ones: the runtime normalises and quantises. Threads may share a session and call any method at
    any time. `close` finishes what was submitted; so does the interpreter's exit.

    Raises `ModelError` for a file that can't be read, `OptionError` for an unknown option or
    provider, `LibraryError` where no library can be loaded, `CallError` for failed calls,
    `ServerError` for what a server answers.
    """

    def __new__(
        cls,
        path_or_bytes: backends.ModelSource | Sequence[str] = b"",
        *arguments: Any,
        **named: Any,
    ) -> InferenceSession:
        """A session, of the kind for open sizes where the model is an ONNX file that has some."""
        if cls is InferenceSession and _may_be_onnx(path_or_bytes):
            from .open_sizes import OpenSizesSession, has_open_sizes

            options = named.get("sess_options", arguments[0] if arguments else None)
            model = backends.as_source(path_or_bytes)
            if isinstance(options, SessionOptions):
                model = options.applied(model)
            if has_open_sizes(model):
                return super().__new__(OpenSizesSession)
        return super().__new__(cls)

    def __init__(
        self,
        path_or_bytes: backends.ModelSource | Sequence[str],
        sess_options: object = None,
        providers: providers.Providers = None,
        provider_options: providers.ProviderOptions = None,
        *,
        use_weight_from: InferenceSession | None = None,
    ) -> None:
        self._session_options = sess_options
        model = backends.as_source(path_or_bytes)
        if isinstance(sess_options, SessionOptions):
            model = sess_options.applied(model)
            providers = providers or sess_options.providers
        else:
            check_foreign(sess_options)
        self._source = (model, providers, provider_options)
        self._weights = use_weight_from
        self._backend, self._options = _choose(model, providers, provider_options)
        weights: backends.Network | None = None
        if use_weight_from is not None:
            if not isinstance(use_weight_from, InferenceSession):
                raise ArgumentTypeError(
                    f"use_weight_from takes an InferenceSession, whose weights are shared; found "
                    f"{use_weight_from!r} of type {type(use_weight_from).__name__}"
                )
            weights = use_weight_from._network
        self._network: backends.Network = self._backend.open(model, self._options, weights)
        try:
            self._scheduler = Scheduler(self._network, self._options)
        except BaseException:
            self._network.close()
            raise
        infos = self._network.inputs
        names = [info.name for info in infos]
        self._watch = InputWatch(
            infos, functools.partial(self._backend.normalizations, model, names)
        )
        self._close = weakref.finalize(self, self._scheduler.close)
        self._output_names = [info.name for info in self._network.outputs]
        self._trace = Trace.begin(sess_options, self._network.worker_cores)
        self._scheduler.profile = self._trace.profile if self._trace else None
        self._pipeline: deque[RequestHandle] = deque()
        self._pipeline_depth: int | None = None
        self._pipeline_lock = threading.Lock()

    # -------------------------------------------------------------------------------- computing

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: feeds.Feed,
        run_options: object = None,
        *,
        batch: str | None = None,
    ) -> Results:
        """Compute, and return the named outputs as new arrays.

        `output_names` None or empty means all outputs in the model's order. `input_feed` is a dict
        by name, a list in the model's order, or the array of a model with one input. Values may be
        float32, float16, (u)int8, (u)int16, (u)int32, int64 or bool; other dtypes and nested lists
        are cast to the input's dtype where that is safe. Inputs aren't copied where they lie in
        memory as the runtime takes them. Outputs are float32, or the model's dtype with the option
        ``output_dtype="model"``.

        Where a worker is idle the request runs on this thread, else it waits for one. With
        ``batch="split"``, or ``ztu_modelrt_dispatch_batch`` in `run_options`, the inputs hold more
        samples than the model takes: they are divided between the workers and the outputs joined;
        with the former the last part may be filled up with zeros.

        Raises `TensorError` for names, shapes and dtypes that don't fit, `QueueFullError` where the
        queue stays full for ``submit_timeout_ms``, `ClosedError` after `close`.
        """
        wanted = self._wanted(output_names)
        if batch is None and not dispatches_batch(run_options):
            return _pick(self._scheduler.run(self._arrays(input_feed)), wanted)
        if batch not in (None, "split"):
            raise OptionError(f"batch is {batch!r}; it may be 'split', or None")
        parts = batches.split(
            self._matched(input_feed), self._network.inputs, fills_up=batch == "split"
        )
        results = mapping.in_order(self._scheduler, (self._checked(part) for part in parts))
        return _pick(batches.join(list(results), parts.samples), wanted)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: feeds.Feed,
        callback: Callback,
        user_data: Any = None,
        run_options: object = None,
    ) -> None:
        """Begin to compute; `callback(results, user_data, error)` gets the outputs.

        `error` is empty and `results` as of `run`, or None and the reason. Callbacks run on one
        thread of the session's, in the order of the calls, or with ``sequential_callbacks=False``
        as they are done. Inputs are copied before this returns. Where the queue is full it waits,
        except when it is called from a callback. An exception in a callback is printed.

        Raises as `run` does.
        """
        if not callable(callback):
            raise ArgumentTypeError(
                f"callback is {callback!r}, which can't be called; it takes a function of "
                f"(results, user_data, error)"
            )
        if dispatches_batch(run_options):
            raise OptionError("ztu_modelrt_dispatch_batch is for run, not for run_async")
        wanted = self._wanted(output_names)

        def deliver(results: Results | None, error: Exception | None) -> None:
            if results is None:
                callback(None, user_data, str(error) or type(error).__name__)
            else:
                callback(_pick(results, wanted), user_data, "")

        self._scheduler.submit(
            self._arrays(input_feed), deliver, in_order=self._options.sequential_callbacks
        )

    def submit(
        self,
        output_names: Sequence[str] | None,
        input_feed: feeds.Feed,
        *,
        may_wait: bool = True,
        copy: bool = True,
    ) -> InferenceFuture:
        """Begin to compute; the future gets what `run` returns or raises.

        Inputs are copied before this returns; without `copy` only those that the runtime doesn't
        take as they lie, and the caller leaves the arrays unchanged until the future is done. Where
        the queue is full it waits, or without `may_wait` raises `QueueFullError` at once.
        Cancelling takes a request that still waits out of the queue.
        """
        return self._submit(output_names, input_feed, may_wait=may_wait, copy=copy)

    async def run_awaitable(
        self, output_names: Sequence[str] | None, input_feed: feeds.Feed
    ) -> Results:
        """`run` for asyncio: the event loop goes on, also while the queue is full."""
        import asyncio

        try:
            return await self.submit_awaitable(output_names, input_feed)
        except QueueFullError:
            future = await self._submit_elsewhere(output_names, input_feed)
        return await asyncio.wrap_future(future)

    def submit_awaitable(
        self, output_names: Sequence[str] | None, input_feed: feeds.Feed, *, copy: bool = True
    ) -> LoopFuture:
        """`submit` for asyncio, which never waits: a future of the running event loop.

        Where the queue is full it raises `QueueFullError` at once. Cancelling takes a request that
        still waits out of the queue.
        """
        from .loop_future import LoopFuture

        future = LoopFuture(functools.partial(_pick, wanted=self._wanted(output_names)))
        handle = self._scheduler.submit(
            self._arrays(input_feed), future.deliver, in_order=False, may_wait=False, copy=copy
        )
        future.attach(self._scheduler, handle)
        return future

    def run_pipeline(
        self, input_feed: feeds.Feed, depth: int = 3, reset: bool = False
    ) -> Results | None:
        """Begin to compute, and return the outputs of the call `depth` calls ago, in order.

        The first `depth` calls return None; `flush` returns what is left. `reset`, or another
        depth, drops what is left first. Calls from several threads share one pipeline.
        """
        if depth < 1:
            raise OptionError(f"depth is {depth}; it takes a whole number above 0")
        arrays = self._arrays(input_feed)
        with self._pipeline_lock:
            if reset or depth != self._pipeline_depth:
                self._scheduler.abandon(self._pipeline)
                self._pipeline_depth = depth
            self._pipeline.append(self._scheduler.start(arrays))
            if len(self._pipeline) <= depth:
                return None
            return self._scheduler.finish(self._pipeline.popleft())

    def flush(self) -> list[Results]:
        """The outputs that `run_pipeline` has not returned yet, in order; the pipeline is empty."""
        with self._pipeline_lock:
            results = []
            while self._pipeline:
                results.append(self._scheduler.finish(self._pipeline.popleft()))
            return results

    def map(
        self,
        input_feeds: Iterable[feeds.Feed],
        *,
        ordered: bool = True,
        output_names: Sequence[str] | None = None,
    ) -> Iterator[Results]:
        """The outputs for each feed of an iterable, as it goes, with all workers busy.

        In the feeds' order, or as they are done. It reads ahead a few feeds a worker, and copies
        them. Dropping the iterator cancels what it has begun.
        """
        wanted = self._wanted(output_names)
        arrays = (self._arrays(feed) for feed in input_feeds)
        run = mapping.in_order if ordered else mapping.as_done
        return (_pick(results, wanted) for results in run(self._scheduler, arrays))

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: object = None,
    ) -> list[OrtValue]:
        """`run` with values in and out, which are on the host."""
        feed = {name: np.asarray(value) for name, value in input_dict_ort_values.items()}
        return [OrtValue(array) for array in self.run(output_names, feed, run_options)]

    # ---------------------------------------------------------------------------- device memory

    def io_binding(self) -> SessionIOBinding:
        """A binding of inputs and outputs to memory that the device reads and writes by itself."""
        return SessionIOBinding(self)

    def run_with_iobinding(self, iobinding: SessionIOBinding, run_options: object = None) -> None:
        """Compute with a binding's memory, on this thread. Outputs not bound go to the host."""
        if dispatches_batch(run_options):
            raise OptionError("ztu_modelrt_dispatch_batch is for run, not for a binding")
        iobinding.run()

    @property
    def device_type(self) -> str:
        """What ONNX Runtime's functions call the device's memory, such as ``rknpu2``."""
        return self._backend.device_type

    @property
    def network(self) -> backends.Network:
        """The loaded model."""
        return self._network

    @property
    def normalizations(self) -> Sequence[Any]:
        """What the model does to each input's values before it quantises them: mean and deviation.

        None for an input of which that isn't known. It is read from the model's file.
        """
        return self._watch.normalizations()

    def index_of(self, kind: str, name: str) -> int:
        """The place of an ``"input"`` or ``"output"``; `TensorError` for an unknown name."""
        if kind not in ("input", "output"):
            raise OptionError(f"io_kind is {kind!r}; it may be input, output")
        infos = self._network.inputs if kind == "input" else self._network.outputs
        names = [info.name for info in infos]
        if name not in names:
            raise TensorError(
                f"there is no {kind} {name!r}; the model has {names}: name one of these"
            )
        return names.index(name)

    # --------------------------------------------------------------------------- what it says

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in the model's order."""
        sets = self._network.shape_sets
        return [
            input_arg(info, [shapes[index] for shapes in sets])
            for index, info in enumerate(self._network.inputs)
        ]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in the model's order, as they are for inputs of the first shapes."""
        is_float = getattr(self._options, "output_dtype", "float32") == "float32"
        return [output_arg(info, is_float=is_float) for info in self._network.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model and the runtime say of themselves."""
        return ModelMetadata.of(self._network.metadata())

    def get_providers(self) -> list[str]:
        """The execution provider in use, as a list of one."""
        return [self._backend.names[0]]

    def set_providers(
        self, providers: providers.Providers, provider_options: providers.ProviderOptions = None
    ) -> None:
        """Confirm the provider in use; `OptionError` for others: open another session instead."""
        backend, options = _choose(self._source[0], providers, provider_options)
        if options != self._options and provider_options:
            raise OptionError(
                f"the session runs with {self._options.as_dict()}; options can't be changed: open "
                f"another session"
            )
        assert backend is self._backend, "the model's first bytes choose"

    def get_session_options(self) -> Any:
        """The options that the session was opened with."""
        return self._session_options or SessionOptions()

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Weights that a feed may replace: none."""
        return []

    def end_profiling(self) -> str:
        """Write the trace of `SessionOptions.enable_profiling`, once; returns the file's name.

        It has the stages of the last requests, a track a worker, in the format that Perfetto and
        Chrome open. Empty where profiling wasn't enabled.
        """
        trace, self._trace = self._trace, None
        if trace is None:
            return ""
        if self._scheduler.profile is trace.profile:
            self._scheduler.profile = None
        return trace.write()

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, in nanoseconds of `time.monotonic`; 0 where it doesn't run."""
        return self._trace.began if self._trace else 0

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """Every option and the value in force, by provider."""
        return {self._backend.names[0]: self._options.as_dict()}

    @contextlib.contextmanager
    def profile(self, *, spans: int = 0, into: Profile | None = None) -> Iterator[Profile]:
        """Time the stages of all requests that end inside the block.

        with session.profile() as profile:
            session.run(None, feed)
        print(profile)

        `Profile.spans` has when each stage of the last `spans` requests began and ended, and where.
        `into` is a profile to go on with, such as one of a class of the caller's.
        """
        profile = Profile(self._network.worker_cores, spans) if into is None else into
        before, self._scheduler.profile = self._scheduler.profile, profile
        try:
            yield profile
        finally:
            self._scheduler.profile = before

    def __repr__(self) -> str:
        inputs = ", ".join(f"{arg.name} {arg.shape}" for arg in self.get_inputs())
        return f"<InferenceSession {self._backend.names[0]}: {inputs}>"

    # --------------------------------------------------------------------------------- its life

    def close(self, *, cancel: bool = False) -> None:
        """Finish what was submitted, or cancel what waits, and free the model; twice is no harm.

        From a callback it returns before the other callbacks have run.
        """
        self._close.detach()
        self._scheduler.close(cancel=cancel)

    def __reduce__(self) -> tuple[Any, ...]:
        """Where it is unpickled, the model is opened again: the path or, for bytes, the digest."""
        from . import model_store

        model, providers, options = self._source
        return _reopen, (model_store.keep(model), providers, options, self._weights)

    # ------------------------------------------------------------------------------------ helpers

    def _submit(
        self,
        output_names: Sequence[str] | None,
        input_feed: feeds.Feed,
        *,
        may_wait: bool,
        copy: bool = True,
    ) -> InferenceFuture:
        future = InferenceFuture(functools.partial(_pick, wanted=self._wanted(output_names)))
        handle = self._scheduler.submit(
            self._arrays(input_feed),
            future.deliver,
            in_order=False,
            may_wait=may_wait,
            copy=copy,
        )
        future.attach(self._scheduler, handle)
        return future

    async def _submit_elsewhere(
        self, output_names: Sequence[str] | None, input_feed: feeds.Feed
    ) -> InferenceFuture:
        """Wait for a place on another thread; the request is taken back if nobody waits."""
        import asyncio

        loop = asyncio.get_running_loop()
        submitting = loop.run_in_executor(None, self.submit, output_names, input_feed)
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:
            submitting.add_done_callback(_cancel_result)
            raise

    def _wanted(self, output_names: Sequence[str] | None) -> list[int] | None:
        """The places of the outputs that are named; None for all."""
        if not output_names:
            return None
        return feeds.places(output_names, self._output_names)

    def _matched(self, input_feed: feeds.Feed) -> list[NDArray[Any]]:
        infos = self._network.inputs
        return [
            feeds.as_array(value, info)
            for value, info in zip(feeds.match(infos, input_feed), infos, strict=True)
        ]

    def _arrays(self, input_feed: feeds.Feed) -> list[NDArray[Any]]:
        return self._checked(self._matched(input_feed))

    def _checked(self, arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
        feeds.check_shapes(arrays, self._network.shape_sets, self._network.inputs)
        self._watch.look(arrays, stacklevel=4)
        return arrays


_choose = providers.choose
_COMPILED = (b"RKNN", b"VPMN")


def _may_be_onnx(model: object) -> bool:
    """Whether a model is no compiled file; False where there is nothing to read."""
    try:
        head = read_head(model)  # type: ignore[arg-type] # what is no model is refused later
    except (OSError, TypeError):
        return False
    return bool(head) and not head.startswith(_COMPILED)


def _pick(results: Results, wanted: Sequence[int] | None) -> Results:
    return results if wanted is None else [results[place] for place in wanted]


def _cancel_result(submitting: asyncio.Future[InferenceFuture]) -> None:
    if not submitting.cancelled() and submitting.exception() is None:
        submitting.result().cancel()


def _reopen(
    model: Any, providers: Any, options: Any, weights: InferenceSession | None
) -> InferenceSession:
    from . import model_store

    return InferenceSession(
        model_store.find(model), None, providers, options, use_weight_from=weights
    )
