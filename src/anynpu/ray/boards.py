"""The boards of a Ray cluster, an actor on each, and which of them gets the next stack.

Ray moves data, starts actors and knows who died. What is here keeps each board supplied: so many
stacks are on their way to a board, and as many results wait to be read as there are stacks on their
way to all. A stack whose board died goes to another one; its result is delivered once, since only
the call that returned is counted.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import AnynpuError, LibraryError, OptionError, ServerUnavailableError
from ..feeds import Feed
from ..lifetime import Closeable
from .board import Board
from .stacks import Stack, apart, stacked

RESOURCE = "npu_core"
"""What a node with an NPU has in Ray: one for each core."""
MOST_TRIES = 3
"""How often one stack is sent at most."""
_REST = 1.0
"""Seconds until an actor that was lost is asked again, and until new boards are looked for."""
_Results = list[NDArray[Any]]


def ray_module() -> Any:
    """The package ray; raises `LibraryError` where it isn't installed."""
    try:
        import ray
    except ImportError as error:
        raise LibraryError(f"anynpu.ray needs Ray: pip install 'anynpu[ray]' ({error})") from error
    return ray


def cores_of_nodes(ray: Any) -> dict[str, int]:
    """The nodes that are alive, and how many cores each has; 0 for one without an NPU."""
    return {
        node["NodeID"]: int(node["Resources"].get(RESOURCE, 0))
        for node in ray.nodes()
        if node["Alive"]
    }


@dataclass
class _Work:
    """A stack on its way: its number, where Ray has it, and how often it was sent."""

    number: int
    stack: Any
    tries: int = 0


@dataclass
class _Place:
    """A board: its node, its actor, and what is on its way there."""

    node: str
    cores: int
    actor: Any
    opening: Any
    calls: set[Any] = field(default_factory=set)
    due: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether its model is loaded."""
        return self.opening is None


class Boards(Closeable):
    """A model on all boards of the cluster that this process is connected to, opened once on each.

    `model` is a path, here or else on the boards, or the file's bytes; what is here is sent to each
    board once. `provider_options` are those of `anynpu.InferenceSession`. `outstanding` stacks are
    on their way to each board. Boards that join the cluster later are used as well. Where no board
    has the model open after `timeout` seconds, in the beginning or when all are gone, `map` raises
    `ServerUnavailableError`.

    Without a connection to a cluster, `ray.init` makes one as it does by itself.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        provider_options: Mapping[str, Any] | None = None,
        outstanding: int = 2,
        timeout: float = 60.0,
    ) -> None:
        if outstanding < 1:
            raise OptionError(f"outstanding is {outstanding}; it takes a whole number above 0")
        ray = self._ray = ray_module()
        if not ray.is_initialized():
            ray.init()
        errors = ray.exceptions
        self.losses = (
            errors.RayActorError,
            errors.ActorUnschedulableError,
            errors.NodeDiedError,
            errors.ObjectLostError,
        )
        """What Ray raises where an actor, its node or its result is gone: no fault of the stack."""
        self._outstanding, self._timeout = outstanding, timeout
        self._model = ray.put(sent(model))
        self._provider_options = provider_options
        self._places: list[_Place] = []
        self._looked = 0.0
        self._look_for_boards()

    def map(
        self,
        feeds: Iterable[Feed],
        *,
        ordered: bool = True,
        output_names: Sequence[str] | None = None,
        stack: int | None = None,
    ) -> Iterator[_Results]:
        """The outputs for each feed of an iterable, in the feeds' order or as they are done.

        Feeds are as of `InferenceSession.map`. They are read ahead as far as boards take them, and
        sent in stacks of `stack`, by default 8 to 64 by their size. A stack whose board died is
        sent to another one, three times at most. One iterator at a time.
        """
        run = _Run(self, stacked(feeds, stack), output_names)
        results = run.in_order() if ordered else run.as_done()
        return (each for arrays in results for each in apart(arrays))

    def close(self) -> None:
        """End the actors, and with them their sessions."""
        for place in self._places:
            self._ray.kill(place.actor)
        self._places.clear()

    # ------------------------------------------------------------------------------- for a run

    def open_places(self) -> list[_Place]:
        """The boards that have the model open; raises what opening it raised on one of them."""
        now = time.monotonic()
        if now - self._looked > _REST:
            self._look_for_boards()
        for place in self._places:
            if place.opening is None and not place.due:
                continue
            if place.due:
                if place.due > now:
                    continue
                place.due, place.opening = 0.0, place.actor.output_names.remote()
            self._look_at_opening(place)
        return [place for place in self._places if place.is_open and not place.due]

    def result(self, call: Any) -> Any:
        """What a call returned; raises what it raised on the board."""
        try:
            return self._ray.get(call)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, AnynpuError | OSError):
                raise error.cause from None
            raise

    def rest(self, place: _Place) -> None:
        """Send nothing to a board whose actor was lost, until it answers."""
        if place.is_open:
            place.opening, place.due = None, time.monotonic() + _REST

    def _look_at_opening(self, place: _Place) -> None:
        if not self._ray.wait([place.opening], timeout=0)[0]:
            return
        try:
            self.result(place.opening)
            place.opening = None
        except self.losses:
            place.opening, place.due = None, time.monotonic() + _REST

    def _look_for_boards(self) -> None:
        """Begin to open the model on nodes that are new; forget those that are gone."""
        self._looked = time.monotonic()
        alive = cores_of_nodes(self._ray)
        self._places = [place for place in self._places if place.node in alive or place.calls]
        known = {place.node for place in self._places}
        for node, cores in alive.items():
            if cores and node not in known:
                self._places.append(self._begin(node, cores))

    def _begin(self, node: str, cores: int) -> _Place:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = (
            self._ray.remote(Board)
            .options(
                num_cpus=0,
                resources={RESOURCE: cores},
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
                max_restarts=-1,
                max_concurrency=self._outstanding + 1,
            )
            .remote(self._model, self._provider_options)
        )
        return _Place(node, cores, actor, actor.output_names.remote())


class _Run:
    """One `map`: its stacks, where they are, and the results that wait to be read."""

    def __init__(
        self, boards: Boards, stacks: Iterator[Stack], output_names: Sequence[str] | None
    ) -> None:
        self._boards, self._ray = boards, boards._ray
        self._stacks, self._names = enumerate(stacks), output_names
        self._again: deque[_Work] = deque()
        self._flying: dict[Any, tuple[_Place, _Work]] = {}
        self._is_ended = False
        self._last_open = time.monotonic()

    def in_order(self) -> Iterator[_Results]:
        """Each stack's results, in their order."""
        early: dict[int, _Results] = {}
        due = 0
        # What waits for its turn counts like what is on its way, or a slow board's stack would let
        # the others run away.
        for number, arrays in self._done(lambda: len(early)):
            early[number] = arrays
            while due in early:
                yield early.pop(due)
                due += 1

    def as_done(self) -> Iterator[_Results]:
        """Each stack's results, as they come."""
        return (arrays for _, arrays in self._done(lambda: 0))

    def _done(self, waiting: Any) -> Iterator[tuple[int, _Results]]:
        try:
            while self._again or self._flying or not self._is_ended:
                self._send(waiting())
                if not self._flying:
                    if not self._is_ended or self._again:
                        time.sleep(0.02)
                    continue
                ready, _ = self._ray.wait(list(self._flying), timeout=0.5)
                for call in ready:
                    if (found := self._taken(call)) is not None:
                        yield found
        finally:
            for call, (place, _) in self._flying.items():
                place.calls.discard(call)
                self._ray.cancel(call)

    def _send(self, waiting: int) -> None:
        """Send stacks to boards, the least supplied first, as long as they take some."""
        places = self._boards.open_places()
        self._check(places)
        most = self._boards._outstanding
        window = 2 * most * max(len(places), 1)
        while self._again or not self._is_ended:
            free = [place for place in places if len(place.calls) < most]
            if not free or (not self._again and len(self._flying) + waiting >= window):
                return
            work = self._next()
            if work is None:
                return
            place = min(free, key=lambda each: len(each.calls) / each.cores)
            call = place.actor.run.remote(work.stack, self._names)
            work.tries += 1
            place.calls.add(call)
            self._flying[call] = (place, work)

    def _next(self) -> _Work | None:
        if self._again:
            return self._again.popleft()
        try:
            number, stack = next(self._stacks)
        except StopIteration:
            self._is_ended = True
            return None
        return _Work(number, self._ray.put(stack))

    def _taken(self, call: Any) -> tuple[int, _Results] | None:
        """A call's results; None where its board died, and the stack is to be sent again."""
        place, work = self._flying.pop(call)
        place.calls.discard(call)
        try:
            return work.number, self._boards.result(call)
        except self._boards.losses:
            self._boards.rest(place)
            if work.tries == MOST_TRIES:
                raise
            self._again.append(work)
            return None

    def _check(self, places: Sequence[_Place]) -> None:
        now = time.monotonic()
        if places or self._flying:
            self._last_open = now
        elif now - self._last_open > self._boards._timeout:
            raise ServerUnavailableError(
                f"no board of the cluster has had the model open for {self._boards._timeout:g} s: "
                f"`ray status` shows the nodes with {RESOURCE}, and whether others hold them"
            )


def sent(model: str | os.PathLike[str] | bytes) -> str | bytes:
    """A model's bytes where it is a file here, else its path on the boards."""
    if isinstance(model, bytes):
        return model
    path = Path(model)
    return path.read_bytes() if path.is_file() else os.fspath(model)
