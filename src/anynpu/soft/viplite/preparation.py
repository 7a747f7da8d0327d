"""vip_prepare_network and vip_finish_network."""

from __future__ import annotations

from .networks import Network, on_network


@on_network
def vip_prepare_network(network: Network) -> None:
    """Load what computes the network, unless it is there; buffers can be bound from then on."""
    prepare(network)


def prepare(network: Network) -> None:
    """Make a network ready to run; FAILURE where nothing can compute it."""
    if network.instance is None:
        program = network.file.program(network.twin)
        network.ports = program.variant(0)
        network.instance = program.instance(0)


@on_network
def vip_finish_network(network: Network) -> None:
    """Undo the preparation; buffers are no longer bound."""
    _ = network.prepared
    network.unprepare()
