"""vip_group: networks that run one after the other with one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ...viplite.abi import GROUP_VALUES, GroupProperty, Status
from ..handles import RunnableTable
from . import runs
from .answers import put
from .driver import needs_driver, table
from .failure import Failure, invalid, require
from .hardware import check_device
from .networks import NETWORKS, Network
from .properties import profile
from .run import check_ready, compute
from .runs import TimedRunnable

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Group(TimedRunnable):
    """Networks in the order in which they were added; `capacity` is how many it may have."""

    kind = "group"

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.networks: list[int] = []
        self.running: Network | None = None

    def cancel(self) -> None:
        """End the run of the network whose turn it is; no other begins after it."""
        super().cancel()
        running = self.running
        if running is not None:
            running.cancel()

    def release(self) -> None:
        """The networks stay."""
        self.networks = []


GROUPS: RunnableTable[Group] = table(RunnableTable, "group")


def _on_group(
    function: Callable[Concatenate[Group, _P], _R],
) -> Callable[Concatenate[int | None, _P], _R]:
    @needs_driver
    @wraps(function)
    def call(handle: int | None, /, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
        with GROUPS.borrow(handle) as group:
            return function(group, *arguments, **keywords)

    return call


@needs_driver
def vip_create_group(count: int, group: Any) -> None:
    """A group with room for `count` networks."""
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
    with NETWORKS.borrow(network):
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
    """Run the first `num` networks in their order."""
    runs.run(GROUPS, group, lambda found: _checked(found, num))


@_on_group
def vip_trigger_group(group: Group, num: int) -> None:
    """Begin to run the first `num` networks in their order."""
    group.trigger(_checked(group, num))


@needs_driver
def vip_wait_group(group: int | None) -> None:
    """Wait for the run that was triggered, and end as it ended; at once where there is none."""
    runs.wait(GROUPS, group, lambda found: None)


def _checked(group: Group, num: int) -> runs.Work:
    """What a run of the first networks does, each of which may be submitted."""
    if not 0 < num <= len(group.networks):
        raise invalid(f"num {num} is not in 1..{len(group.networks)}")
    chosen = group.networks[:num]
    for handle in chosen:
        with NETWORKS.borrow(handle) as network:
            check_ready(network)
    group.cancelled.clear()
    return lambda deadline: _compute(group, chosen, deadline)


def _compute(group: Group, handles: list[int], deadline: float | None) -> None:
    total = 0
    try:
        for handle in handles:
            with NETWORKS.borrow(handle) as network:
                check_ready(network)
                group.running = network
                if group.cancelled.is_set():
                    raise runs.cancelled(network.chip)
                compute(network, deadline)
                total += network.microseconds
    finally:
        group.running = None
    group.microseconds = total
