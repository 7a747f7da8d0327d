"""vip_init and vip_destroy, versions, hardware, power, the log."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from anynpu.viplite import abi
from anynpu.viplite.abi import HardwareProperty, PowerProperty, Status
from anynpu.viplite.library import VipliteLibrary

from .client import OK, answer, bind_all, create, make_buffer, plain, prepared, relu


def test_calls_before_initialising_fail(bare_vip: VipliteLibrary) -> None:
    assert bare_vip.vip_get_version() == 0x00020003
    assert bare_vip.vip_destroy() == Status.FAILURE
    assert create(bare_vip, relu())[0] == Status.FAILURE
    assert bare_vip.vip_map_buffer(1) is None
    assert bare_vip.vip_get_buffer_size(1) == 0


def test_initialising_is_counted(bare_vip: VipliteLibrary) -> None:
    assert [bare_vip.vip_init() for _ in range(3)] == [OK] * 3
    buffer = make_buffer(bare_vip, plain(10))
    for _ in range(2):
        assert bare_vip.vip_destroy() == OK
        assert bare_vip.vip_get_buffer_size(buffer) == 10
    assert bare_vip.vip_destroy() == OK
    assert bare_vip.vip_destroy() == Status.FAILURE


def test_the_last_one_destroys_what_is_left(bare_vip: VipliteLibrary) -> None:
    assert bare_vip.vip_init() == OK
    code, network = create(bare_vip, relu())
    assert code == OK
    buffer = make_buffer(bare_vip, plain(10))
    assert bare_vip.vip_destroy() == OK
    assert bare_vip.vip_init() == OK
    assert bare_vip.vip_destroy_network(network) == Status.INVALID_ARGUMENTS
    assert bare_vip.vip_destroy_buffer(buffer) == Status.INVALID_ARGUMENTS
    assert bare_vip.vip_destroy() == OK


def test_the_hardware(vip: VipliteLibrary) -> None:
    def ask(what: HardwareProperty) -> int:
        found: int = answer(vip.vip_query_hardware, what, 4)
        return found

    assert ask(HardwareProperty.CID) == 0x1000003B
    assert ask(HardwareProperty.DEVICE_COUNT) == 1
    assert ask(HardwareProperty.CORE_COUNT_EACH_DEVICE) == 1


def test_misuse_of_the_hardware_s_query(vip: VipliteLibrary) -> None:
    value = ctypes.c_uint32()
    query, address = vip.vip_query_hardware, ctypes.addressof(value)
    assert query(HardwareProperty.CID, 8, address) == Status.INVALID_ARGUMENTS
    assert query(HardwareProperty.CID, 4, None) == Status.INVALID_ARGUMENTS
    assert query(3, 4, address) == Status.INVALID_ARGUMENTS


def test_a_network_does_not_run_without_power(vip: VipliteLibrary) -> None:
    with prepared(vip, relu()) as network:
        bind_all(vip, network)
        for off, on, code in (
            (PowerProperty.OFF, PowerProperty.ON, Status.POWER_OFF),
            (PowerProperty.STOP, PowerProperty.START, Status.POWER_STOP),
        ):
            assert vip.vip_power_management(0, off, None) == OK
            assert vip.vip_run_network(network) == code
            assert vip.vip_trigger_network(network) == code
            assert vip.vip_power_management(0, on, None) == OK
            assert vip.vip_run_network(network) == OK


def test_the_frequency(vip: VipliteLibrary) -> None:
    for percent, code in ((50, OK), (100, OK), (0, -3), (101, -3)):
        value = abi.PowerFrequency(percent)
        address = ctypes.addressof(value)
        assert vip.vip_power_management(0, PowerProperty.SET_FREQUENCY, address) == code
    assert vip.vip_power_management(0, PowerProperty.SET_FREQUENCY, None) == -3


def test_misuse_of_power(vip: VipliteLibrary) -> None:
    assert vip.vip_power_management(1, PowerProperty.ON, None) == Status.INVALID_ARGUMENTS
    assert vip.vip_power_management(0, 3, None) == Status.INVALID_ARGUMENTS


def test_the_log_goes_to_a_folder(
    vip: VipliteLibrary, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert vip.vip_set_log_path(str(tmp_path).encode()) == OK
    assert vip.vip_run_network(12345) == Status.INVALID_ARGUMENTS
    written = (tmp_path / "viplite.log").read_text()
    assert "vip_run_network, network 0x3039 is not alive" in written
    assert written in capfd.readouterr().err


def test_a_log_folder_that_is_not_there(vip: VipliteLibrary, tmp_path: Path) -> None:
    assert vip.vip_set_log_path(str(tmp_path / "none").encode()) == Status.IO
    assert vip.vip_set_log_path(None) == Status.INVALID_ARGUMENTS


def test_the_level_of_the_log(
    bare_vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANYNPU_VIPLITE_LOG_LEVEL", "2")
    assert bare_vip.vip_init() == OK
    assert create(bare_vip, relu())[0] == OK
    assert "network 'test', version 0x10020, target 0x1000003b, on a733" in capfd.readouterr().err
    assert bare_vip.vip_destroy() == OK
