"""The models of a server: opened, opened anew when their files change, lent to requests, closed.

All of it happens on the event loop's thread; what takes time, opening and closing, on threads
of its own. A request borrows the session that is current when it comes. A session that another one
replaced is closed when the last request gave it back, so that none is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..session import InferenceSession
from ..session.node import NodeArg
from ..session.open_sizes import OpenSizesSession
from ..session.profile import Profile
from .answers import Answer, Refusal
from .settings import ModelSettings

_log = logging.getLogger("anynpu.serving")
_T = TypeVar("_T")
_TIMEOUTS = 3
"""After this many runs in a row that the device doesn't end the model is opened anew."""
VERSION = "1"

Stamp = tuple[int, int, int]


class OpenModel:
    """A session that requests use, and what it says of itself.

    `leases` counts who has it: requests, and models that share its weights. Once it `is_retired` it
    is closed when nobody has it any more.
    """

    def __init__(
        self,
        session: InferenceSession,
        profile: Profile | None,
        weights: OpenModel | None = None,
    ) -> None:
        self.session, self.weights = session, weights
        self.inputs: Sequence[NodeArg] = session.get_inputs()
        self.outputs: Sequence[NodeArg] = session.get_outputs()
        self.platform = session.get_providers()[0]
        self.has_open_sizes = isinstance(session, OpenSizesSession)
        self.workers = 1 if self.has_open_sizes else len(session.network.worker_cores)
        self.leases = 0
        self.is_retired = False
        self.timeouts = 0
        self._watching = contextlib.ExitStack()
        if profile is not None and not self.has_open_sizes:
            self._watching.enter_context(session.profile(into=profile))

    def close(self) -> None:
        """Finish what was submitted, and free the model."""
        self.session.close()
        self._watching.close()


class ServedModel:
    """A model under its name; `current` is None while it can't be used, for a `reason`."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.current: OpenModel | None = None
        self.reason = "not loaded"
        self.loads = 0
        self.is_wanted = True
        self.stamp: Stamp | None = None
        self.seen: Stamp | None = None
        self.lock = asyncio.Lock()

    @property
    def state(self) -> str:
        """As the protocol's index calls it."""
        return "READY" if self.current is not None else "UNAVAILABLE"


ProfileOf = Callable[[str], Profile | None]


def _no_profile(name: str) -> Profile | None:
    return None


class Models:
    """The models by their names; `profile_of` gives each one what its requests' times go to."""

    def __init__(
        self,
        settings: Sequence[ModelSettings],
        options: Mapping[str, Any],
        profile_of: ProfileOf = _no_profile,
    ) -> None:
        self._options, self._profile_of = dict(options), profile_of
        self.served = {each.name: ServedModel(each) for each in settings}
        self._closing: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------------------ for requests

    @contextlib.contextmanager
    def lease(self, name: str, version: str = "") -> Iterator[OpenModel]:
        """The model's session for the length of a block; `Refusal` where there is none."""
        served = self.find(name, version)
        opened = served.current
        if opened is None:
            raise Refusal(Answer.UNAVAILABLE, f"model {name!r} isn't ready: {served.reason}")
        opened.leases += 1
        try:
            yield opened
        finally:
            self._give_back(opened)

    def find(self, name: str, version: str = "") -> ServedModel:
        """A model; `Refusal` where there is none of the name, or of the version."""
        if name not in self.served:
            known = ", ".join(self.served) or "none"
            raise Refusal(Answer.NOT_FOUND, f"there is no model {name[:100]!r}; there are {known}")
        if version not in ("", VERSION):
            raise Refusal(
                Answer.NOT_FOUND, f"model {name!r} has the version {VERSION}, no {version[:100]!r}"
            )
        return self.served[name]

    @property
    def is_ready(self) -> bool:
        """Whether every model that is wanted can be used."""
        return all(each.current is not None for each in self.served.values() if each.is_wanted)

    def timed_out(self, name: str, opened: OpenModel) -> None:
        """The device didn't end a run in time; after three in a row the model is opened anew."""
        opened.timeouts += 1
        served = self.served[name]
        if opened.timeouts < _TIMEOUTS or served.current is not opened:
            return
        _log.warning("model %s: %d runs in a row timed out; it is opened anew", name, _TIMEOUTS)
        served.reason = f"{_TIMEOUTS} runs in a row timed out; it is being opened anew"
        served.current = None
        self._retire(opened)
        self._begin(self._renew(served))

    # --------------------------------------------------------------------------------- their life

    async def open_all(self) -> None:
        """Open every model, those first whose weights others share."""
        for served in self._in_order():
            await self._open(served)

    def _in_order(self) -> list[ServedModel]:
        found: list[ServedModel] = []
        left = list(self.served.values())
        while left:
            names = {each.settings.name for each in left}
            ready = [each for each in left if each.settings.use_weight_from not in names]
            if not ready:
                raise Refusal(Answer.WRONG, f"{', '.join(sorted(names))} share weights in a ring")
            found += ready
            left = [each for each in left if each not in ready]
        return found

    async def load(self, name: str) -> None:
        """Open a model, or open it anew; the one before serves until then."""
        served = self.find(name)
        await self._open(served)
        await self._renew_sharers(served)

    async def unload(self, name: str) -> None:
        """Take a model out of service; requests that have it are finished."""
        served = self.find(name)
        async with served.lock:
            opened, served.current = served.current, None
            served.reason, served.is_wanted = "unloaded", False
            if opened is not None:
                self._retire(opened)

    async def _open(self, served: ServedModel, *, anew: bool = False) -> None:
        """Open a model's file and let it serve, in place of the one that does.

        Where it is only to be opened `anew`, one that was unloaded meanwhile stays so.
        """
        async with served.lock:
            if anew and not served.is_wanted:
                return
            served.is_wanted = True
            served.seen = served.stamp = stamp_of(served.settings)
            opened = await self._opened(served.settings)
            before, served.current = served.current, opened
            served.loads += 1
            if before is not None:
                self._retire(before)

    async def _opened(self, settings: ModelSettings) -> OpenModel:
        weights = self._weights(settings)
        if weights is not None:
            weights.leases += 1
        try:
            return await in_thread(lambda: self._session(settings, weights))
        except BaseException:
            if weights is not None:
                self._give_back(weights)
            raise

    def _session(self, settings: ModelSettings, weights: OpenModel | None) -> OpenModel:
        session = InferenceSession(
            os.fspath(settings.path),
            provider_options={**self._options, **settings.options},
            use_weight_from=weights.session if weights is not None else None,
        )
        return OpenModel(session, self._profile_of(settings.name), weights)

    def _weights(self, settings: ModelSettings) -> OpenModel | None:
        """The model whose weights one shares; `Refusal` where it isn't ready."""
        if not settings.use_weight_from:
            return None
        current = self.served[settings.use_weight_from].current
        if current is None:
            raise Refusal(
                Answer.UNAVAILABLE,
                f"model {settings.name!r} shares the weights of {settings.use_weight_from!r}, "
                f"which isn't ready",
            )
        return current

    def _give_back(self, opened: OpenModel) -> None:
        opened.leases -= 1
        if opened.is_retired:
            self._retire(opened)

    def _retire(self, opened: OpenModel) -> None:
        """Close a session that serves no more, once nobody has it any more."""
        opened.is_retired = True
        if opened.leases:
            return
        closing = in_thread(opened.close)
        self._closing.add(closing)
        closing.add_done_callback(lambda _: self._closed(closing, opened))

    def _closed(self, closing: asyncio.Future[None], opened: OpenModel) -> None:
        self._closing.discard(closing)
        if opened.weights is not None:
            self._give_back(opened.weights)

    async def close(self, seconds: float) -> bool:
        """Close all, and wait for that as long as is allowed; whether all are closed."""
        for task in self._tasks:
            task.cancel()
        for served in self.served.values():
            opened, served.current = served.current, None
            served.reason = "the server ends"
            if opened is not None:
                self._retire(opened)
        end = time.monotonic() + seconds
        while self._closing and (left := end - time.monotonic()) > 0:
            await asyncio.wait(set(self._closing), timeout=left)
            await asyncio.sleep(0)  # one that was closed may have been the last to have another
        return not self._closing

    # ----------------------------------------------------------------------------- changed files

    async def watch(self, seconds: float) -> None:
        """Open models anew whose files have changed, for ever.

        A file that is still being written is left until it stays the same for one look. One that
        can't be opened is told of, and the one before serves on. A model that isn't ready, such as
        after a device that hung, is tried again.
        """
        while True:
            await asyncio.sleep(seconds)
            for served in self.served.values():
                is_missing = served.current is None and not served.lock.locked()
                if served.is_wanted and (self._has_changed(served) or is_missing):
                    await self._renew(served)

    def _has_changed(self, served: ServedModel) -> bool:
        now = stamp_of(served.settings)
        is_settled = now == served.seen
        served.seen = now
        return now is not None and is_settled and now != served.stamp

    async def _renew(self, served: ServedModel) -> None:
        """Open a model anew, and those that share its weights; what can't be opened is logged."""
        name = served.settings.name
        try:
            await self._open(served, anew=True)
        except Exception as error:  # whatever a file does to a library, the server goes on
            if served.current is None:
                served.reason = str(error)
            _log.error("model %s can't be opened: %s", name, error)
            return
        if not served.is_wanted:
            return  # it was unloaded meanwhile
        _log.info("model %s was opened anew, and serves", name)
        await self._renew_sharers(served)

    async def _renew_sharers(self, served: ServedModel) -> None:
        """Those that share a model's weights take the ones that serve now."""
        for each in self.served.values():
            if each.settings.use_weight_from == served.settings.name and each.is_wanted:
                await self._renew(each)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def stamp_of(settings: ModelSettings) -> Stamp | None:
    """What tells a changed file from the same one; None without a file."""
    try:
        found = settings.path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def in_thread(function: Callable[[], _T]) -> asyncio.Future[_T]:
    """A function's result, from a thread that the process's end needn't wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def deliver(result: _T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as found:
            error = found
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(deliver, result, error)

    threading.Thread(target=run, daemon=True).start()
    return future
