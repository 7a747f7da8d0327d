"""vip_query_network, vip_set_network and vip_set_ppu_param."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...viplite.abi import (
    NETWORK_VALUES,
    OPERATION_RANGE,
    SOFT_TWIN,
    InferenceProfile,
    NetworkProperty,
    Status,
)
from .answers import name_of, put
from .buffers import BUFFERS
from .failure import Failure, invalid, require
from .hardware import check_device
from .log import LOG
from .networks import Network, on_network

CYCLES_PER_MICROSECOND = 1000
"""The soft NPU counts as if its clock had 1 GHz: what the chips' have is not on record."""


@on_network
def vip_query_network(network: Network, property: int, value: int | None) -> None:
    """What the network binary says, and how long the last run took."""
    nbg = network.nbg
    answers = {
        NetworkProperty.LAYER_COUNT: network.file.layer_count,
        NetworkProperty.INPUT_COUNT: len(nbg.inputs),
        NetworkProperty.OUTPUT_COUNT: len(nbg.outputs),
        NetworkProperty.NETWORK_NAME: name_of(nbg.name),
        NetworkProperty.MEMORY_POOL_SIZE: nbg.memory_pool_size,
        NetworkProperty.PROFILING: profile(network.microseconds),
        NetworkProperty.CORE_COUNT: min(nbg.cores, 255),
    }
    if property not in answers:
        raise _unanswered(property)
    wanted = NetworkProperty(property)
    put(value, NETWORK_VALUES[wanted], answers[wanted])


@on_network
def vip_set_network(network: Network, property: int, value: int | None) -> None:
    """Configure a network that isn't prepared yet."""
    if network.instance is not None:
        raise Failure(
            Status.FAILURE,
            f"property {property} has to be set before vip_prepare_network (section 2.3.3)",
        )
    setter = _SETTERS.get(property)
    if setter is None:
        raise _unanswered(property)
    require(value, "value")
    assert value is not None, "it was required"
    setter(network, value)


@on_network
def vip_set_ppu_param(network: Network, param: Any, index: int) -> None:
    """Change the work of a shader operation: refused, the soft NPU executes none."""
    require(param, "param")
    raise Failure(Status.NOT_SUPPORTED, "the soft NPU executes no shader operations")


def profile(microseconds: int) -> InferenceProfile:
    """A time as the API has it."""
    most = 2**32 - 1
    return InferenceProfile(
        min(microseconds, most), min(microseconds * CYCLES_PER_MICROSECOND, most)
    )


def _unanswered(property: int) -> Failure:
    if property in set(NetworkProperty):
        name = NetworkProperty(property).symbol
        return Failure(Status.NOT_SUPPORTED, f"{name} is not supported here")
    return invalid(f"a network has no property {property}")


# --------------------------------------------------------------------------------------- setting


def _read(property: NetworkProperty, value: int) -> int:
    found: int = NETWORK_VALUES[property].from_address(value).value
    return found


def _set_priority(network: Network, value: int) -> None:
    network.priority = _read(NetworkProperty.SET_PRIORITY, value)


def _set_timeout(network: Network, value: int) -> None:
    network.timeout = _read(NetworkProperty.SET_TIME_OUT, value)


def _set_device(network: Network, value: int) -> None:
    check_device(_read(NetworkProperty.SET_DEVICE_INDEX, value))


def _set_core(network: Network, value: int) -> None:
    core = _read(NetworkProperty.SET_CORE_INDEX, value)
    if not 0 <= core < network.chip.cores:
        raise invalid(f"there is no core {core}; {network.chip.name} has {network.chip.cores}")


def _set_memory_pool(network: Network, value: int) -> None:
    size, needed = BUFFERS.find(value).size, network.nbg.memory_pool_size
    if size < needed:
        raise invalid(f"the buffer has {size} bytes; the memory pool takes {needed}")


def _set_coefficients(network: Network, value: int) -> None:
    BUFFERS.find(value)


def _set_hint(network: Network, value: int) -> None:
    """What changes how fast a board is, and nothing here."""


def _set_operation_range(network: Network, value: int) -> None:
    first, last = (ctypes.c_uint32 * 2).from_address(value)
    count = network.file.operation_count
    if not first <= last < count:
        raise invalid(f"operations {first} to {last} are not among 0..{count - 1}")
    if (first, last) != (0, count - 1):
        LOG.warning(f"operations {first} to {last} were asked for: the soft NPU runs them all")


def _set_twin(network: Network, value: int) -> None:
    network.twin = Path(ctypes.string_at(value).decode("utf-8", "surrogateescape"))


_SETTERS: dict[int, Callable[[Network, int], None]] = {
    NetworkProperty.SET_MEMORY_POOL: _set_memory_pool,
    NetworkProperty.SET_DEVICE_INDEX: _set_device,
    NetworkProperty.SET_PRIORITY: _set_priority,
    NetworkProperty.SET_TIME_OUT: _set_timeout,
    NetworkProperty.SET_COEFF_MEMORY: _set_coefficients,
    NetworkProperty.SET_CORE_INDEX: _set_core,
    NetworkProperty.SET_ENABLE_NPD: _set_hint,
    NetworkProperty.SET_VIPSRAM_PRELOAD: _set_hint,
    OPERATION_RANGE: _set_operation_range,
    SOFT_TWIN: _set_twin,
}
