"""vip_run_network, vip_trigger_network, vip_wait_network and vip_cancel_network."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ...errors import ModelError
from ...native import kernels
from ...viplite.abi import Status
from ..device import CancelledError, DeadlineError
from ..engines import Port
from . import runs
from .buffers import Buffer
from .driver import DRIVER, needs_driver
from .failure import Failure
from .networks import NETWORKS, Network, on_network

_HIGHEST_PRIORITY = 255


@needs_driver
def vip_run_network(network: int | None) -> None:
    """Compute; returns when the outputs are there, or the network's time is out."""
    runs.run(NETWORKS, network, _checked)


@on_network
def vip_trigger_network(network: Network) -> None:
    """Begin to compute."""
    network.trigger(_checked(network))


@needs_driver
def vip_wait_network(network: int | None) -> None:
    """Wait for the run that was triggered, and end as it ended; at once where there is none."""
    runs.wait(NETWORKS, network, lambda found: found.prepared)


@needs_driver
def vip_cancel_network(network: int | None) -> None:
    """Make a run that waits or is under way end with CANCELED; from any thread."""
    NETWORKS.find(network).cancel()


def _checked(network: Network) -> runs.Work:
    """What a run of the network does, which may be submitted."""
    check_ready(network)
    return lambda deadline: compute(network, deadline)


def check_ready(network: Network) -> None:
    """Whether a run may be submitted: prepared, the NPU on, everything bound."""
    _ = network.prepared
    DRIVER.power.check()
    for side, bindings, tensors in (
        ("input", network.inputs, network.nbg.inputs),
        ("output", network.outputs, network.nbg.outputs),
    ):
        for index in [index for index, buffer in bindings.items() if buffer.is_closed]:
            del bindings[index]
        missing = [tensor.name for i, tensor in enumerate(tensors) if i not in bindings]
        if missing:
            raise Failure(
                Status.MISSING_INPUT_OUTPUT, f"no buffer is set for {side} {', '.join(missing)}"
            )
    network.cancelled.clear()


def compute(network: Network, deadline: float | None) -> None:
    """Bring the inputs in, hold a core, run, bring the outputs out; the network is locked."""
    instance = network.prepared
    priority = _HIGHEST_PRIORITY - network.priority
    pool = DRIVER.pool(network.chip)
    try:
        with pool.occupy(1, priority, deadline, network.cancelled):
            DRIVER.power.check()
            start = time.perf_counter()
            inputs = _views(network.inputs, network.ports.inputs)
            outputs = _views(network.outputs, network.ports.outputs)
            for index, source in inputs:
                _move(source, instance.inputs[index])
            instance.run()
            if network.cancelled.is_set():
                raise CancelledError
            for index, target in outputs:
                _move(instance.outputs[index], target)
                network.outputs[index].memory.poison()
            network.microseconds = round((time.perf_counter() - start) * 1e6)
    except DeadlineError:
        raise Failure(Status.TIMEOUT, "the NPU did not become free in time") from None
    except CancelledError:
        raise runs.cancelled(network.chip) from None
    except ModelError as error:
        if network.cancelled.is_set():
            raise runs.cancelled(network.chip) from None
        raise Failure(Status.FAILURE, str(error)) from error


def _views(buffers: Mapping[int, Buffer], ports: Sequence[Port]) -> list[tuple[int, NDArray[Any]]]:
    """What the device sees of the buffers that are bound, by index.

    They are taken before a run: its buffers may be destroyed while it is under way.
    """
    return [
        (index, buffer.view(ports[index].dtype, ports[index].shape))
        for index, buffer in buffers.items()
    ]


def _move(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy between memory and a program's array, which has float32 for float16."""
    if source.dtype == target.dtype:
        kernels.copy(source, target)
    else:
        kernels.convert(source, target)
