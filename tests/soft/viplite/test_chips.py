"""Chips and the versions of the interface: what each library exports, says and refuses."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anynpu import soc
from anynpu.soft.cabi.build import library_folder
from anynpu.soft.failure import Failure
from anynpu.soft.viplite import IMPLEMENTED, function_table, functions
from anynpu.soft.viplite.driver import DRIVER
from anynpu.soft.viplite.groups import GROUPS
from anynpu.viplite import abi
from anynpu.viplite.abi import Interface, Status
from anynpu.viplite.library import VipliteLibrary, load

from .client import OK, bind_all, bytes_of, create, make_group, prepared, ready, relu, slow

CHIPS = {Interface.V85X: "v853", Interface.V1_13: "t527", Interface.V2_0: "a733"}
LIBRARIES = {
    Interface.V85X: ("libVIPlite.so", "libVIPuser.so"),
    Interface.V1_13: ("libVIPlite.so", "libVIPuser.so"),
    Interface.V2_0: ("libNBGlinker.so", "libVIPhal.so"),
}


def exported(path: Path, prefix: str) -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in listing.splitlines()}
    return {name for name in names if name.startswith(prefix)}


def test_everything_that_is_declared_is_implemented() -> None:
    assert set(IMPLEMENTED) == set(abi.FUNCTIONS) | set(abi.AWNN_FUNCTIONS)


@pytest.mark.usefixtures("_own_cache")
@pytest.mark.parametrize("interface", Interface)
def test_libraries_export_their_functions(interface: Interface) -> None:
    folder = library_folder(soc.find_vip(CHIPS[interface]))
    for name in LIBRARIES[interface]:
        assert exported(folder / name, "vip_") == set(functions(interface))
    assert exported(folder / "libawnn_viplite.so", "awnn_") == set(abi.AWNN_FUNCTIONS)
    assert not exported(folder / "libawnn_viplite.so", "vip_")


def test_interfaces_differ() -> None:
    newest = set(functions(Interface.V2_0))
    assert set(functions(Interface.V1_13)) == newest
    assert newest - set(functions(Interface.V85X)) == {
        "vip_create_buffer_cache",
        "vip_set_log_path",
    }


@pytest.mark.parametrize(
    ("interface", "version"),
    [(Interface.V85X, 0x00010300), (Interface.V1_13, 0x00010D00), (Interface.V2_0, 0x00020003)],
)
def test_versions(interface: Interface, version: int) -> None:
    table = function_table(interface)
    assert abi.FUNCTIONS["vip_get_version"].prototype(table["vip_get_version"])() == version
    assert Interface.of_version(version) is interface


def of_chip(chip: str, monkeypatch: pytest.MonkeyPatch) -> VipliteLibrary:
    monkeypatch.setenv("ANYNPU_SOC", chip)
    vip = load("soft")
    assert vip.vip_init(*([0] if chip == "v853" else [])) == OK
    return vip


@pytest.mark.parametrize("chip", CHIPS.values())
def test_networks_for_other_chips_are_refused(
    chip: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    vip = of_chip(chip, monkeypatch)
    for other in CHIPS.values():
        code, network = create(vip, relu(other))
        if other == chip:
            assert code == OK
        else:
            assert (code, network) == (Status.NOT_SUPPORTED, None)
            log = capfd.readouterr().err
            assert f"this is {chip}" in log
            assert other in log
    assert vip.vip_destroy() == OK


def test_without_a_chosen_chip_any_of_them_runs() -> None:
    vip = load("soft")
    assert vip.vip_init() == OK
    for chip in CHIPS.values():
        with prepared(vip, relu(chip)) as network:
            bind_all(vip, network)
            assert vip.vip_run_network(network) == OK
    file = bytearray(relu())
    file[8:12] = (0xBA).to_bytes(4, "little")
    assert create(vip, bytes(file))[0] == Status.NOT_SUPPORTED
    assert vip.vip_destroy() == OK


def test_a_rockchip_is_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    vip = load("soft")
    monkeypatch.setenv("ANYNPU_SOC", "rk3588")
    assert vip.vip_init() == OK
    assert create(vip, relu())[0] == Status.NETWORK_INCOMPATIBLE
    assert vip.vip_destroy() == OK


def test_the_customer_id_is_the_chip_s(monkeypatch: pytest.MonkeyPatch) -> None:
    vip, value = of_chip("mr527", monkeypatch), ctypes.c_uint32()
    assert vip.vip_query_hardware(0, 4, ctypes.addressof(value)) == OK
    assert value.value == 0x10000016
    assert vip.vip_destroy() == OK


def test_old_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """V85x initialises with a heap's size, and a network stands for its device's power."""
    vip = of_chip("v853", monkeypatch)
    assert vip.interface is Interface.V85X
    assert vip.vip_init(1 << 20) == OK
    with prepared(vip, relu("v853")) as network:
        bind_all(vip, network)
        assert vip.vip_power_management(network, 2, None) == OK
        assert vip.vip_run_network(network) == Status.POWER_OFF
        assert vip.vip_power_management(network, 4, None) == OK
        assert vip.vip_power_management(None, 4, None) == Status.INVALID_ARGUMENTS
        assert vip.vip_run_network(network) == OK
    assert [vip.vip_destroy() for _ in range(2)] == [OK] * 2


def test_v85x_has_no_code_for_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    vip = of_chip("v853", monkeypatch)
    file = bytearray(slow())
    file[8:12] = (0xEE).to_bytes(4, "little")
    with prepared(vip, bytes(file)) as network:
        bind_all(vip, network)
        assert vip.vip_trigger_network(network) == OK
        assert vip.vip_cancel_network(network) == OK
        assert vip.vip_wait_network(network) == Status.FAILURE
    assert vip.vip_destroy() == OK


@pytest.mark.parametrize(
    ("chip", "code"),
    [("v853", Status.FAILURE), ("t527", Status.CANCELED), ("a733", Status.CANCELED)],
)
def test_a_run_ends_with_its_group(
    monkeypatch: pytest.MonkeyPatch, chip: str, code: Status
) -> None:
    """Whoever waits for it gets the code that the chip's interface has for it."""
    vip = of_chip(chip, monkeypatch)
    assert (vip.vip_init(0) if chip == "v853" else vip.vip_init()) == OK
    group = make_group(vip, 2)
    for _ in range(2):
        network, _, target = ready(vip, relu(chip))
        assert vip.vip_add_network(group, network) == OK
    with DRIVER.pool(soc.find_vip(chip)).occupy(1, 0):
        assert vip.vip_trigger_group(group, 2) == OK
        request = GROUPS.find(group).request
        assert vip.vip_destroy_group(group) == OK
    assert request is not None
    with pytest.raises(Failure) as caught:
        request.result()
    assert caught.value.code == code
    assert not bytes_of(vip, target).any()
    assert vip.vip_run_network(network) == OK
    assert vip.vip_destroy() == OK


@pytest.mark.usefixtures("_own_cache")
def test_a_library_in_its_folder_simulates_its_chip(tmp_path: Path) -> None:
    """In a process of its own: the chip that a folder is for is set for the whole process."""
    folder = library_folder(soc.find_vip("t527"))
    model = tmp_path / "net.nb"
    model.write_bytes(relu("t527"))
    other = tmp_path / "other.nb"
    other.write_bytes(relu("a733"))
    script = (
        "import ctypes, sys\n"
        "vip, network = ctypes.CDLL(sys.argv[1] + '/libVIPuser.so'), ctypes.c_void_p()\n"
        "again = ctypes.CDLL(sys.argv[1] + '/libVIPlite.so')\n"
        "assert vip.vip_init() == 0\n"
        "codes = [again.vip_create_network(p.encode(), 0, 1, ctypes.byref(network))\n"
        "         for p in sys.argv[2:]]\n"
        "print(hex(vip.vip_get_version()), *codes)\n"
    )
    result: Any = subprocess.run(
        [sys.executable, "-c", script, str(folder), str(model), str(other)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.stdout.split() == ["0x10d00", "0", "-4"], result.stderr
