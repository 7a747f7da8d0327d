"""The networks of a session's workers, each with buffers of its own."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence

from ...errors import CallError, MissingFunctionError, OptionError
from ...lifetime import Closeable
from ...viplite.buffer import Buffer
from ...viplite.hardware import hardware
from ...viplite.library import VipliteLibrary
from ...viplite.network import Network
from ..base import ModelSource
from .options import VipliteOptions


class Worker:
    """A prepared network and its buffers, as steps take them: arrays of C's that stay."""

    def __init__(self, network: Network, options: VipliteOptions) -> None:
        self.network = network
        cached = options.cached_buffers
        self._inputs = [network.new_input(i, cached=cached) for i in range(len(network.inputs))]
        self._outputs = [network.new_output(i, cached=cached) for i in range(len(network.outputs))]
        self.input_handles, self.input_memories = _arrays(self._inputs)
        self.output_handles, self.output_memories = _arrays(self._outputs)


def _arrays(buffers: Sequence[Buffer]) -> tuple[ctypes.Array[ctypes.c_void_p], ...]:
    """(the buffers' handles, the addresses of their memory)."""
    pointers = ctypes.c_void_p * len(buffers)
    return (
        pointers(*(buffer.handle.value for buffer in buffers)),
        pointers(*(buffer.address for buffer in buffers)),
    )


class Workers(Closeable):
    """A network for each worker; `devices` has each one's device, None where there is one alone."""

    def __init__(
        self, model: ModelSource, options: VipliteOptions, weights: Network | None = None
    ) -> None:
        self._model, self._options, self._weights = model, options, weights
        self.networks: list[Network] = []
        self.all: list[Worker] = []
        try:
            self.networks.append(self._first())
            self.devices = tuple(_devices(options, self.networks[0].library))
            while len(self.networks) < len(self.devices):
                self.networks.append(self.another())
            for network, device in zip(self.networks, self.devices, strict=True):
                self.all.append(Worker(self.prepared(network, device), options))
        except BaseException:
            self.close()
            raise

    def another(self) -> Network:
        """One more network on the same weights, not prepared."""
        if self._options.disable_dup_network:
            return self._first()
        try:
            return self.networks[0].dup()
        except (CallError, MissingFunctionError) as error:
            warnings.warn(
                f"the network is loaded again, since it can't be duplicated: {error}",
                UserWarning,
                stacklevel=2,
            )
            return self._first()

    def prepared(self, network: Network, device: int | None) -> Network:
        """The network, with the session's properties set, prepared."""
        options = self._options
        if device is not None:
            _choose_device(network, device)
        if options.priority is not None:
            network.set_priority(options.priority)
        if options.timeout_ms is not None:
            network.set_timeout(options.timeout_ms)
        network.prepare()
        return network

    def close(self) -> None:
        """Destroy the networks, the first one last."""
        self.all.clear()
        for network in reversed(self.networks):
            network.close()

    def _first(self) -> Network:
        if self._weights is not None:
            return self._weights.dup(self._model)
        return Network(self._model, library=self._options.library, twin=self._options.twin)


def _choose_device(network: Network, device: int) -> None:
    try:
        network.set_device(device)
    except CallError as error:
        raise OptionError(f"device {device}: {error}") from error


def _devices(options: VipliteOptions, library: VipliteLibrary) -> list[int | None]:
    """Each worker's device; a lone device needn't be named."""
    places: list[int | None] = [options.device]
    if options.schedule is not None:
        places = list(dict.fromkeys(options.schedule))
    elif options.device is None and (count := _count_devices(library)) > 1:
        places = list(range(count))
    return [place for place in places for _ in range(options.threads_per_core)]


def _count_devices(library: VipliteLibrary) -> int:
    try:
        return hardware(library).device_count
    except (CallError, MissingFunctionError):
        return 1  # libraries of V85x don't all answer, and those chips have one
