"""Several servers of one model: each request runs on one of them, and elsewhere where it failed.

A server has as many seats as it has cores, and a few more. A request takes a seat at the server
with the fewest requests for each core; so unlike servers get their shares. A server that is gone
rests: it gets no requests until it says that it is ready, for which it is asked from time to time.
Where all queues are full, requests wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...errors import ModelError, ServerBusyError, ServerError, ServerUnavailableError
from .failures import is_gone, is_repeatable
from .options import RemoteOptions
from .server import ServedModel, Server

MOST_TRIES = 3
"""How often one request is run at most."""
_FIRST_REST, _LONGEST_REST = 0.2, 2.0
"""Seconds until a server that is gone is asked again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
"""Seconds until a server whose queue was full gets a request again."""
_QUESTION_TIMEOUT = 1.0
_LEAST_PATIENCE = _LONGEST_REST + _QUESTION_TIMEOUT
"""What each request waits for a server at least: one that is back may not have been asked yet."""
_Result = TypeVar("_Result")


class Place:
    """What the fleet knows of one server. Its fields change with the fleet's lock held."""

    def __init__(self, server: Server, cores: int, ahead: int) -> None:
        self.server = server
        self.cores, self.ahead = cores, ahead
        self.taken = 0
        self.is_resting = False
        self.rest = _FIRST_REST
        self.pause = _FIRST_PAUSE
        self.due = 0.0
        self.reason: Exception | None = None
        self.asked = 0.0

    @property
    def seats(self) -> int:
        """How many requests it gets at once."""
        return self.cores + self.ahead

    @property
    def load(self) -> float:
        """Requests there for each core."""
        return self.taken / self.cores

    def begin_rest(self, reason: Exception, now: float) -> None:
        """Give it no requests until it says that it is ready."""
        if not self.is_resting:
            self.is_resting, self.rest = True, _FIRST_REST
            self.due = now + self.rest
        self.reason = reason

    def go_on_resting(self, reason: Exception, now: float) -> None:
        """Ask it again later, since it isn't ready."""
        self.rest = min(2 * self.rest, _LONGEST_REST)
        self.asked, self.due = now, now + self.rest
        self.reason = reason

    def hurry(self) -> bool:
        """Ask it again soon, since somebody waits for it; whether that is sooner than before."""
        before, self.due = self.due, min(self.due, self.asked + _FIRST_REST)
        return self.due < before

    def begin_pause(self, now: float) -> None:
        """Give it no requests for a moment: its queue is full."""
        self.due = max(self.due, now + self.pause)
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)

    def wake(self) -> None:
        """Give it requests again."""
        self.is_resting, self.reason, self.due = False, None, 0.0


class Fleet:
    """Runs requests on servers. Any thread may call any method."""

    def __init__(self, places: Sequence[Place], model: ServedModel, options: RemoteOptions) -> None:
        self._places = places
        self._model = model
        self._connect_timeout = options.connect_timeout_ms / 1000
        self._patience = options.reconnect_timeout_ms / 1000
        self._busy_patience = options.submit_timeout_ms / 1000
        self._changed = threading.Condition()
        self._last_awake = time.monotonic()
        self._is_closed = False
        self._asking = threading.Thread(
            target=self._ask_again, daemon=True, name="anynpu servers asked again"
        )
        self._asking.start()

    def run(self, ask: Callable[[Server], _Result]) -> _Result:
        """What `ask` returns for one of the servers.

        Where it raises a `ServerError` that may be repeated, it is called with another one, or
        later; three times at most that a server began with it. Raises the last error.
        """
        tried: list[Place] = []
        full_since: float | None = None
        while True:
            place = self._sit_down(tried)
            try:
                result = ask(place.server)
            except ServerError as error:
                self._stand_up(place, error)
                if isinstance(error, ServerBusyError):
                    full_since = full_since or time.monotonic()
                    if time.monotonic() - full_since > self._busy_patience:
                        raise
                    continue
                tried.append(place)
                if not is_repeatable(error) or len(tried) == MOST_TRIES:
                    raise
            except BaseException:
                self._stand_up(place, None)
                raise
            else:
                self._stand_up(place, None, did_run=True)
                return result

    def close(self) -> None:
        """Ask no more, and close the connections."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for place in self._places:
            place.server.close()
        self._asking.join()

    # --------------------------------------------------------------------------------- seats

    def _sit_down(self, tried: Sequence[Place]) -> Place:
        """Wait for a seat, and take it: at a server that isn't among the tried ones, if it can be.

        Raises the reason where no server has answered for the time that requests wait for one.
        """
        least = time.monotonic() + min(self._patience, _LEAST_PATIENCE)
        with self._changed:
            while True:
                now = time.monotonic()
                place = self._choose(tried, now)
                if place is not None:
                    place.taken += 1
                    return place
                awake = [each for each in self._places if not each.is_resting]
                until = [each.due for each in awake if each.due > now]
                if not awake:
                    until = [max(self._last_awake + self._patience, least)]
                    if now >= until[0] or self._is_closed:
                        raise self._all_gone()
                    hurried = [each.hurry() for each in self._places]
                    if any(hurried):
                        self._changed.notify_all()
                self._changed.wait(min(until) - now if until else None)

    def _choose(self, tried: Sequence[Place], now: float) -> Place | None:
        """The server with the fewest requests for each core that has a seat."""
        awake = [each for each in self._places if not each.is_resting]
        others = [each for each in awake if each not in tried]
        free = [each for each in others or awake if each.due <= now and each.taken < each.seats]
        return min(free, key=lambda each: each.load, default=None)

    def _stand_up(self, place: Place, error: ServerError | None, *, did_run: bool = False) -> None:
        with self._changed:
            place.taken -= 1
            if error is not None and is_gone(error):
                if not place.is_resting:
                    self._last_awake = time.monotonic()
                place.begin_rest(error, time.monotonic())
            elif isinstance(error, ServerBusyError):
                place.begin_pause(time.monotonic())
            elif did_run:
                place.pause = _FIRST_PAUSE
            # One seat is one request's; a server that rests sends all who wait elsewhere.
            self._changed.notify_all()

    def _all_gone(self) -> Exception:
        reasons = [place.reason for place in self._places if place.reason is not None]
        if len(self._places) == 1 and isinstance(reason := reasons[0], ServerError):
            return type(reason)(str(reason), reason.address, reason.code, reason.text)
        listed = "\n".join(f"  {place.server.address}: {place.reason}" for place in self._places)
        return ServerUnavailableError(
            f"none of {len(self._places)} servers has answered for {self._patience:g} s:\n{listed}",
            ",".join(str(place.server.address) for place in self._places),
            "UNAVAILABLE",
        )

    # ------------------------------------------------------------------------- asking again

    def _ask_again(self) -> None:
        """Ask each server that rests whether it is ready, when it is due."""
        while (place := self._next_due()) is not None:
            problem = self._problem(place)
            with self._changed:
                if problem is None:
                    place.wake()
                    self._changed.notify_all()
                else:
                    place.go_on_resting(problem, time.monotonic())

    def _next_due(self) -> Place | None:
        """Wait until a server is to be asked; None at the end."""
        with self._changed:
            while not self._is_closed:
                resting = [place for place in self._places if place.is_resting]
                now = time.monotonic()
                first = min(resting, key=lambda each: each.due, default=None)
                if first is not None and first.due <= now:
                    return first
                self._changed.wait(None if first is None else first.due - now)
        return None

    def _problem(self, place: Place) -> Exception | None:
        """Why a server can't get requests; None where it can."""
        server = place.server
        try:
            if not server.is_ready(_QUESTION_TIMEOUT):
                return ServerUnavailableError(
                    f"{server.address} isn't ready", str(server.address), "UNAVAILABLE"
                )
            model = server.describe(self._connect_timeout)
        except (ServerError, ModelError) as error:
            return error
        except ValueError as error:
            # The channel was closed meanwhile.
            return error
        if difference := self._model.difference(model):
            return ModelError(f"{server.address} serves another model now: {difference}")
        return None
