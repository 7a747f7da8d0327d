"""One request, whichever form it came in: from arrays by name to arrays by name, or a refusal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ..errors import CallTimeoutError, QueueFullError, TensorError
from ..session import batches
from ..session.loop_future import LoopFuture
from .answers import Answer, Refusal, answer_to
from .metrics import Metrics
from .models import Models, OpenModel
from .settings import ServeSettings

_log = logging.getLogger("anynpu.serving.requests")
_failures = logging.getLogger("anynpu.serving")
_RETRY_SECONDS = 0.002
Feed = dict[str, NDArray[Any]]


@dataclass
class Asked:
    """What a request asks: a model, its inputs, the outputs by name, the time that it has.

    No `outputs` are all; `timeout` is in seconds, None where the client gave none.
    """

    model: str
    inputs: Feed
    version: str = ""
    outputs: Sequence[str] = ()
    timeout: float | None = None


@dataclass
class Story:
    """What is told of a request once it is answered."""

    protocol: str
    client: str
    model: str = ""
    request_id: str = ""
    began: float = field(default_factory=time.monotonic)
    answer: Answer = Answer.OK
    error: str = ""


class Inference:
    """Runs requests on the models, and counts them. The event loop's thread uses it."""

    def __init__(self, models: Models, metrics: Metrics, settings: ServeSettings) -> None:
        self.models = models
        self._metrics, self._settings = metrics, settings
        self._under_way: Counter[str] = Counter()
        self.is_draining = False

    @property
    def under_way(self) -> dict[str, int]:
        """How many requests each model has."""
        return dict(self._under_way)

    @property
    def is_ready(self) -> bool:
        """Whether the server takes requests, for every model that is wanted."""
        return self.models.is_ready and not self.is_draining

    # ---------------------------------------------------------------------------- for each form

    @contextlib.contextmanager
    def telling(self, story: Story) -> Iterator[Story]:
        """Count and log what a block answers; an exception is left to the caller."""
        try:
            yield story
        except BaseException as error:
            story.answer, story.error = answer_to(error)
            if story.answer is Answer.FAILED and isinstance(error, Exception):
                _failures.exception("a request for model %r failed", story.model)
            raise
        finally:
            self._tell(story)

    def _tell(self, story: Story) -> None:
        seconds = time.monotonic() - story.began
        # A label is what the server has, not what a client made up.
        model = story.model if story.model in self.models.served else ""
        self._metrics.answered(model, story.protocol, story.answer, seconds)
        if self._settings.log != "none":
            _log.info("", extra={"story": story, "seconds": seconds})

    async def run(self, asked: Asked) -> Feed:
        """The outputs by their names, in the order asked for.

        Raises what `answer_to` knows. A caller that is cancelled takes its request back.
        """
        with self.occupying(asked.model, asked.version) as opened:
            names = _wanted(asked.outputs, opened)
            results = await self._results(asked, opened, names)
        return dict(zip(names, results, strict=True))

    @contextlib.contextmanager
    def occupying(self, model: str, version: str = "") -> Iterator[OpenModel]:
        """A model's session for one request; `Refusal` where there are as many as allowed."""
        if self._under_way.total() >= self._settings.max_requests:
            raise Refusal(Answer.FULL, f"{self._settings.max_requests} requests are under way")
        with self.models.lease(model, version) as opened:
            self._under_way[model] += 1
            try:
                yield opened
            finally:
                self._under_way[model] -= 1

    # ----------------------------------------------------------------------------------- running

    async def _results(
        self, asked: Asked, opened: OpenModel, names: Sequence[str]
    ) -> list[NDArray[Any]]:
        limit = self._settings.request_timeout
        seconds = limit if asked.timeout is None else min(limit, asked.timeout)
        run = _Run(opened, names, time.monotonic() + seconds)
        try:
            results = await run.results(asked.inputs)
        except CallTimeoutError:
            self.models.timed_out(asked.model, opened)
            raise
        except _LateError as late:
            # A client in a hurry says nothing of the device.
            if late.was_running and seconds == limit:
                self.models.timed_out(asked.model, opened)
            raise Refusal(
                Answer.LATE, f"model {asked.model!r} gave no result within {seconds:g} s"
            ) from None
        opened.timeouts = 0
        return results


class _LateError(Exception):
    """The time is over; whether a worker had the request."""

    def __init__(self, *, was_running: bool) -> None:
        super().__init__()
        self.was_running = was_running


class _Run:
    """One request on its way through a session."""

    def __init__(self, opened: OpenModel, names: Sequence[str], deadline: float) -> None:
        self._opened, self._names, self._deadline = opened, names, deadline

    async def results(self, feed: Feed) -> list[NDArray[Any]]:
        """The outputs' arrays."""
        if self._opened.has_open_sizes:
            return await self._elsewhere(feed)
        if self._is_batch(feed):
            return await self._split(feed)
        return await self._await(self._submit(feed))

    def _submit(self, feed: Mapping[str, NDArray[Any]] | list[NDArray[Any]]) -> LoopFuture:
        values = feed.values() if isinstance(feed, Mapping) else feed
        is_aligned = all(array.flags.aligned for array in values)
        return self._opened.session.submit_awaitable(self._names, feed, copy=not is_aligned)

    async def _await(self, future: LoopFuture) -> list[NDArray[Any]]:
        """A future's results; whoever is cancelled or late takes the request back."""
        late: list[_LateError] = []

        def expire() -> None:
            late.append(_LateError(was_running=future.running()))
            future.cancel()

        timer = future.get_loop().call_later(self._deadline - time.monotonic(), expire)
        try:
            return await future
        except asyncio.CancelledError:
            if late:
                raise late[0] from None
            raise
        finally:
            timer.cancel()

    async def _elsewhere(self, feed: Feed) -> list[NDArray[Any]]:
        """On another thread, which may have to open a network for these sizes first."""
        session = self._opened.session
        running = asyncio.ensure_future(asyncio.to_thread(session.run, self._names, feed))
        await asyncio.wait({running}, timeout=self._deadline - time.monotonic())
        if not running.done():
            running.add_done_callback(_look_at)
            raise _LateError(was_running=True)
        return running.result()

    # ------------------------------------------------------------------------------ large batches

    def _is_batch(self, feed: Feed) -> bool:
        """Whether every input has more samples than the model takes, and the shape otherwise."""
        for arg in self._opened.inputs:
            array = feed.get(arg.name)
            if array is None or len(arg.shapes) != 1 or not arg.shape or not array.ndim:
                return False
            if list(array.shape[1:]) != arg.shape[1:] or array.shape[0] <= arg.shape[0]:
                return False
        return bool(self._opened.inputs)

    async def _split(self, feed: Feed) -> list[NDArray[Any]]:
        """Part by part, with every worker busy; a full queue is waited for once it has begun."""
        network = self._opened.session.network
        arrays = [feed[info.name] for info in network.inputs]
        parts = batches.split(arrays, network.inputs, fills_up=True)
        begun: list[LoopFuture] = []
        results: list[list[NDArray[Any]]] = []
        try:
            for part in parts:
                await self._make_room(begun, results)
                begun.append(await self._submit_when_there_is_room(part, is_first=not begun))
            while len(results) < len(begun):
                results.append(await self._await(begun[len(results)]))
        finally:
            for future in begun[len(results) :]:
                future.cancel()
        return batches.join(results, parts.samples)

    async def _make_room(self, begun: list[LoopFuture], results: list[list[NDArray[Any]]]) -> None:
        while len(begun) - len(results) >= 2 * self._opened.workers:
            results.append(await self._await(begun[len(results)]))

    async def _submit_when_there_is_room(
        self, part: list[NDArray[Any]], *, is_first: bool
    ) -> LoopFuture:
        while True:
            try:
                return self._submit(part)
            except QueueFullError:
                if is_first or time.monotonic() > self._deadline:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)


def _wanted(names: Sequence[str], opened: OpenModel) -> list[str]:
    known = [arg.name for arg in opened.outputs]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TensorError(f"there are no outputs {unknown}; the model has {known}")
    if len(set(names)) != len(names):
        raise TensorError(f"an output is asked for twice: {list(names)}")
    return list(names) or known


def _look_at(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
