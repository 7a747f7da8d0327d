"""vip_create_network, the two ways to duplicate one, and vip_destroy_network."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from ... import soc as socs
from ...errors import ModelError
from ...soc import VipSoc
from ...viplite.abi import SOFT_TWIN_FOLLOWS, CreateNetworkType, DupNetworkType, Status
from ..cabi.memory_views import readable
from ..formats.nbg import Nbg, read
from .driver import chosen_chip, needs_driver
from .failure import Failure, invalid, require
from .log import LOG
from .networks import NETWORKS, Network, NetworkFile

_SOURCES: dict[int, CreateNetworkType] = {
    DupNetworkType.FROM_NBG_FILE: CreateNetworkType.FILE,
    DupNetworkType.FROM_NBG_MEMORY: CreateNetworkType.MEMORY,
    DupNetworkType.FROM_NBG_FLASH: CreateNetworkType.FLASH,
}
_WAYS = int(DupNetworkType.FOR_CMD_BY_NETWORK | DupNetworkType.FOR_CMD_BY_NBG)


@needs_driver
def vip_create_network(data: int | None, size_of_data: int, type: int, network: Any) -> None:
    """A network from a file, or from memory, which is copied (flash is memory here).

    A compiled file with an operation that isn't known is NOT_SUPPORTED, unless a twin is to be
    named before the network is prepared.
    """
    require(network, "network")
    network[0] = None
    file = _open(data, size_of_data, type & ~SOFT_TWIN_FOLLOWS)
    if file.nbg.onnx is None and not type & SOFT_TWIN_FOLLOWS:
        file.program(None)
    network[0] = NETWORKS.add(Network(file))


@needs_driver
def vip_dup_network(
    data: int | None, size_of_data: int, type: int, network: int | None, dup_network: Any
) -> None:
    """A network of its own that shares another's weights.

    The network binary is the other network's own, or the same one, given again.
    """
    require(dup_network, "dup_network")
    dup_network[0] = None
    source = type & ~_WAYS
    with NETWORKS.borrow(network) as original:
        if source in (DupNetworkType.NONE, DupNetworkType.FROM_NETWORK):
            created = original.duplicate()
        elif source in _SOURCES:
            given = _open(data, size_of_data, _SOURCES[source])
            _check_same(given.nbg, original.nbg)
            created = original.duplicate()
        else:
            raise invalid(f"type {type:#x} names no way to duplicate a network")
    dup_network[0] = NETWORKS.add(created)


@needs_driver
def vip_weak_dup_network(network: int | None, dup_network: Any) -> None:
    """A network of its own on another's binary and weights."""
    vip_dup_network(None, 0, DupNetworkType.FROM_NETWORK, network, dup_network)


@needs_driver
def vip_destroy_network(network: int | None) -> None:
    """Free a network; a run under way ends. Its buffers and duplicates live on."""
    NETWORKS.remove(network).close()


def _open(data: int | None, size: int, type: int) -> NetworkFile:
    require(data, "data")
    assert data is not None, "it was required"
    if type == CreateNetworkType.FILE:
        return open_file(Path(os.fsdecode(ctypes.string_at(data))))
    if type not in (CreateNetworkType.MEMORY, CreateNetworkType.FLASH):
        raise invalid(f"type {type} doesn't say where the network is")
    if not size:
        raise invalid("size_of_data is 0")
    return _parse(bytes(readable(data, size)), None)


def open_file(path: Path) -> NetworkFile:
    """The network binary at a path."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise Failure(Status.IO, f"{path} can't be read: {error}") from error
    return _parse(content, path)


def _parse(content: bytes, path: Path | None) -> NetworkFile:
    try:
        nbg = read(content)
    except ModelError as error:
        raise Failure(Status.INVALID_NETWORK, str(error)) from error
    chip = _chip_for(nbg)
    LOG.information(
        f"network {nbg.name!r}, version {nbg.version:#x}, target {nbg.target:#x}, on {chip.name}"
    )
    return NetworkFile(nbg, chip, path)


def _chip_for(nbg: Nbg) -> VipSoc:
    """The chip to run on: the environment's, which the network must be for, else the network's."""
    chosen = chosen_chip()
    fitting = [soc for soc in socs.VIP_SOCS.values() if soc.target == nbg.target]
    if chosen is not None:
        if chosen in fitting:
            return chosen
        names = ", ".join(soc.name for soc in fitting) or "no chip that is known"
        raise Failure(
            Status.NOT_SUPPORTED,
            f"network {nbg.name!r} is for NPU {nbg.target:#x} ({names}), this is {chosen.name} "
            f"with NPU {chosen.target:#x}",
        )
    if not fitting:
        raise Failure(
            Status.NOT_SUPPORTED,
            f"network {nbg.name!r} is for NPU {nbg.target:#x}, which none of Allwinner's chips has",
        )
    return fitting[0]


def _check_same(given: Nbg, original: Nbg) -> None:
    if (given.name, given.target, given.inputs, given.outputs) != (
        original.name, original.target, original.inputs, original.outputs,
    ):  # fmt: skip
        raise Failure(
            Status.INVALID_NETWORK,
            f"the network binary of {given.name!r} isn't that of the network {original.name!r}",
        )
