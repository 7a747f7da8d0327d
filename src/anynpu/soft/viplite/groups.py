"""vip_group: networks that run one after the other with one call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ...viplite.abi import GROUP_VALUES, GroupProperty, Status
from ..request import Request
from .answers import put
from .driver import Table, needs_driver
from .failure import CONVENTIONS, Failure, invalid, require
from .hardware import check_device
from .networks import Network, borrow
from .properties import profile
from .run import check_ready, compute

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Group:
    """Networks in the order in which they were added; `capacity` is how many it may have."""

    def __init__(self, capacity: int) -> None:
        self.lock = threading.RLock()
        self.capacity = capacity
        self.networks: list[int] = []
        self.timeout = 0
        self.deadline: float | None = None
        self.request: Request | None = None
        self.running: Network | None = None
        self.cancelled = threading.Event()
        self.microseconds = 0

    def cancel(self) -> None:
        """Make a run under way end soon: the network whose turn it is, and no other after it."""
        self.cancelled.set()
        running = self.running
        if running is not None:
            running.cancel()

    def close(self) -> None:
        """End a run under way; the networks stay."""
        self.cancel()
        request = self.request
        if request is not None:
            request.wait()
        self.request = None
        self.networks = []


GROUPS: Table[Group] = Table("group")


@contextmanager
def _borrow(handle: int | None) -> Iterator[Group]:
    """The group of a handle, idle and locked for the block."""
    group = GROUPS.find(handle)
    while True:
        # Another thread that waits for the run may take it away.
        if (request := group.request) is not None:
            request.wait()
        with group.lock:
            request = group.request
            if request is None or request.is_done:
                yield group
                return


def _on_group(
    function: Callable[Concatenate[Group, _P], _R],
) -> Callable[Concatenate[int | None, _P], _R]:
    @needs_driver
    @wraps(function)
    def call(handle: int | None, /, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
        with _borrow(handle) as group:
            return function(group, *arguments, **keywords)

    return call


@needs_driver
def vip_create_group(count: int, group: Any) -> None:
    """A group with room for so many networks."""
    require(group, "group")
    group[0] = None
    if count < 1:
        raise invalid("a group has at least one network")
    group[0] = GROUPS.add(Group(count))


@needs_driver
def vip_destroy_group(group: int | None) -> None:
    """Free a group; its networks live on."""
    GROUPS.remove(group).close()


@_on_group
def vip_add_network(group: Group, network: int | None) -> None:
    """Put a network at the end; it has to be prepared by the time that the group runs."""
    with borrow(network):
        assert network is not None, "it is alive"
        if network in group.networks:
            raise invalid(f"network {network:#x} is in the group already")
        if len(group.networks) == group.capacity:
            raise Failure(
                Status.OUT_OF_RESOURCE, f"the group has its {group.capacity} networks already"
            )
        group.networks.append(network)


@_on_group
def vip_set_group(group: Group, property: int, value: int | None) -> None:
    """Configure a group."""
    if property not in _SETTABLE:
        raise invalid(f"a group has no property {property} to be set")
    require(value, "value")
    number = GROUP_VALUES[GroupProperty(property)].from_address(value).value
    if property == GroupProperty.SET_TIME_OUT:
        group.timeout = number
    elif property == GroupProperty.SET_DEVICE_INDEX:
        check_device(number)
    elif number != 0:
        raise invalid(f"there is no core {number}; there is one")


_SETTABLE = (
    GroupProperty.SET_DEVICE_INDEX,
    GroupProperty.SET_CORE_INDEX,
    GroupProperty.SET_TIME_OUT,
)


@_on_group
def vip_query_group(group: Group, property: int, value: int | None) -> None:
    """How long the last run took."""
    if property != GroupProperty.PROFILING:
        raise invalid(f"a group has no property {property} to be asked for")
    put(value, GROUP_VALUES[GroupProperty.PROFILING], profile(group.microseconds))


@needs_driver
def vip_run_group(group: int | None, num: int) -> None:
    """Run the first networks, so many, in their order."""
    with _borrow(group) as found:
        request = _begin(found, num)
    _finish(found, request)


@_on_group
def vip_trigger_group(group: Group, num: int) -> None:
    """Begin to run the first networks, so many, in their order."""
    _begin(group, num)


@needs_driver
def vip_wait_group(group: int | None) -> None:
    """Wait for the run that was triggered, and end as it ended; at once where there is none."""
    found = GROUPS.find(group)
    request = found.request
    if request is not None:
        _finish(found, request)


def _begin(group: Group, num: int) -> Request:
    if not 0 < num <= len(group.networks):
        raise invalid(f"num {num} is not in 1..{len(group.networks)}")
    chosen = group.networks[:num]
    for handle in chosen:
        with borrow(handle) as network:
            check_ready(network)
    deadline = time.monotonic() + group.timeout / 1000 if group.timeout else None
    group.deadline = deadline
    group.cancelled.clear()

    def work() -> None:
        with group.lock:
            _run_all(group, chosen, deadline)

    group.request = Request(work, group.cancel, CONVENTIONS)
    return group.request


def _run_all(group: Group, handles: list[int], deadline: float | None) -> None:
    total = 0
    try:
        for handle in handles:
            with borrow(handle) as network:
                check_ready(network)
                group.running = network
                if group.cancelled.is_set():
                    raise Failure(Status.CANCELED, "the group's run was cancelled")
                compute(network, deadline)
                total += network.microseconds
    finally:
        group.running = None
    group.microseconds = total


def _finish(group: Group, request: Request) -> None:
    deadline = group.deadline
    if not request.wait(None if deadline is None else max(0.0, deadline - time.monotonic())):
        request.cancel()
        raise Failure(Status.TIMEOUT, f"the group took longer than {group.timeout} ms")
    if group.request is request:
        group.request = None
    request.result()
