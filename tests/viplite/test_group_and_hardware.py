"""Groups of networks, and the hardware's queries and power."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu.viplite.buffer import Buffer
from anynpu.viplite.group import Group
from anynpu.viplite.hardware import Power, hardware, set_log_path
from anynpu.viplite.library import VipliteLibrary, load
from anynpu.viplite.network import Network
from anynpu.viplite.runtime import runtime_of

from ..soft.viplite.client import relu

VALUES = np.arange(60, dtype=np.uint8).reshape(1, 3, 4, 5) + 100


def ready(library: VipliteLibrary) -> tuple[Network, Buffer]:
    network = Network(relu(), library=library)
    network.prepare()
    source = network.new_input(0)
    source.array()[...] = VALUES
    source.flush()
    return network, network.new_output(0)


def test_a_group_runs_its_networks(vip: VipliteLibrary) -> None:
    users = runtime_of(vip).users
    pairs = [ready(vip) for _ in range(3)]
    group = Group(3, library=vip)
    for network, _ in pairs:
        group.add(network)
        network.close()  # the group still has it
    group.set_device(0)
    group.set_core(0)
    group.set_timeout(60_000)
    assert len(group) == 3
    group.run(2)
    results = []
    for _, target in pairs:
        target.invalidate()
        results.append(target.array().copy())
    np.testing.assert_array_equal(results[0], np.maximum(VALUES, 125))
    np.testing.assert_array_equal(results[1], results[0])
    assert not results[2].any()
    group.trigger()
    group.wait()
    pairs[2][1].invalidate()
    np.testing.assert_array_equal(pairs[2][1].array(), results[0])
    assert group.run_time().microseconds > 0
    group.close()
    group.close()
    with pytest.raises(anynpu.ClosedError):
        group.run()
    for _, target in pairs:
        target.close()
    assert runtime_of(vip).users == users


def test_misuse_of_a_group(vip: VipliteLibrary) -> None:
    network, _ = ready(vip)
    with Group(1, library=vip) as group, network:
        group.add(network)
        with pytest.raises(anynpu.CallError, match=r"vip_add_network.*\n.*number 1"):
            group.add(network)
        with pytest.raises(anynpu.CallError, match=r"vip_run_group.*\n5 of 1 networks"):
            group.run(5)


def test_the_hardware(vip: VipliteLibrary) -> None:
    found = hardware(vip)
    assert found.customer_id == 0x1000003B
    assert found.core_counts == (1,)
    assert found.device_count == 1


def test_power(vip: VipliteLibrary) -> None:
    power = Power(library=vip)
    network, _ = ready(vip)
    with network:
        power.set_frequency(50)
        power.off()
        with pytest.raises(anynpu.DeviceError, match="POWER_OFF"):
            network.run()
        power.on()
        power.stop()
        with pytest.raises(anynpu.DeviceError, match="POWER_STOP"):
            network.run()
        power.start()
        network.run()
        for percent in (0, 101):
            with pytest.raises(ValueError, match=str(percent)):
                power.set_frequency(percent)
        with pytest.raises(anynpu.CallError, match=r"vip_power_management.*\n.*of device 9"):
            Power(9, library=vip).off()


def test_power_on_the_old_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first argument is a network, in all its 64 bits."""
    monkeypatch.setenv("ANYNPU_SOC", "v853")
    library = load("soft")
    with Network(relu("v853"), library=library) as network:
        network.prepare()
        network.new_input(0)
        network.new_output(0)
        power = Power(network=network)
        power.off()
        with pytest.raises(anynpu.DeviceError, match="POWER_OFF"):
            network.run()
        power.on()
        network.run()
    with pytest.raises(anynpu.CallError):
        Power(library=library).off()


def test_the_log_s_folder(vip: VipliteLibrary, tmp_path: Path) -> None:
    set_log_path(tmp_path, library=vip)
    set_log_path(".", library=vip)
