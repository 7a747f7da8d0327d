"""Objects that come and go in any order: nothing crashes, leaks, or outlives what needs it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, rule

from anynpu import AnynpuError
from anynpu.lifetime import Closeable
from anynpu.viplite.buffer import Buffer, aligned_memory
from anynpu.viplite.group import Group
from anynpu.viplite.library import load
from anynpu.viplite.network import Network
from anynpu.viplite.runtime import runtime_of

from ..soft.viplite.client import relu

PLACES = st.sampled_from(["input", "output"])


def attempt(call: Any, *arguments: Any) -> Any:
    """The result, or None where the call is refused: only by exceptions of anynpu's."""
    try:
        return call(*arguments)
    except AnynpuError:
        return None


class Lifetimes(RuleBasedStateMachine):
    """Networks, buffers, groups and arrays, in every order that a program may close them."""

    networks = Bundle("networks")
    buffers = Bundle("buffers")
    groups = Bundle("groups")

    def __init__(self) -> None:
        super().__init__()
        gc.collect()
        self.library = load("soft")
        # Hypothesis keeps what bundles have, so arrays are kept, and all is closed, here.
        self.arrays: list[np.ndarray] = []
        self.made: list[Closeable] = []
        self.before = runtime_of(self.library).users

    @rule(target=networks, prepares=st.booleans())
    def create(self, prepares: bool) -> Network:
        network = Network(relu(), library=self.library)
        if prepares:
            network.prepare()
        self.made.append(network)
        return network

    @rule(target=networks, network=networks, is_weak=st.booleans())
    def duplicate(self, network: Network, is_weak: bool) -> Any:
        found = attempt(network.weak_dup if is_weak else network.dup)
        if found is None:
            return multiple()
        self.made.append(found)
        return found

    @rule(target=buffers, place=PLACES, is_own=st.booleans())
    def allocate(self, place: str, is_own: bool) -> Buffer:
        with Network(relu(), library=self.library) as network:
            (info,) = network.inputs if place == "input" else network.outputs
        if is_own:
            memory = aligned_memory(info.size)
            buffer = Buffer.from_array(info, memory, library=self.library)
        else:
            buffer = Buffer.allocate(info, library=self.library)
        self.made.append(buffer)
        return buffer

    @rule(network=networks, buffer=buffers, place=PLACES)
    def bind(self, network: Network, buffer: Buffer, place: str) -> None:
        attempt(network.set_input if place == "input" else network.set_output, 0, buffer)

    @rule(buffer=buffers, value=st.integers(0, 255))
    def share(self, buffer: Buffer, value: int) -> None:
        array = attempt(buffer.array)
        if array is not None:
            array[...] = value
            self.arrays.append(array)

    @rule()
    def write(self) -> None:
        for value, array in enumerate(self.arrays):
            array[...] = value
            assert (array == value).all()

    @rule()
    def drop(self) -> None:
        self.arrays[:1] = []

    @rule(network=networks)
    def prepare_and_run(self, network: Network) -> None:
        attempt(network.prepare)
        attempt(network.run)

    @rule(network=networks)
    def finish(self, network: Network) -> None:
        attempt(network.finish)

    @rule(target=groups)
    def group(self) -> Group:
        group = Group(2, library=self.library)
        self.made.append(group)
        return group

    @rule(group=groups, network=networks)
    def add(self, group: Group, network: Network) -> None:
        attempt(group.add, network)
        attempt(group.run)

    @rule(network=consumes(networks))
    def close_network(self, network: Network) -> None:
        network.close()

    @rule(buffer=buffers)
    def close_buffer(self, buffer: Buffer) -> None:
        attempt(buffer.close)

    @rule(group=consumes(groups))
    def close_group(self, group: Group) -> None:
        group.close()

    def teardown(self) -> None:
        self.write()
        self.arrays.clear()
        for each in self.made:
            each.close()
        assert runtime_of(self.library).users == self.before


TestLifetimes = Lifetimes.TestCase
TestLifetimes.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
