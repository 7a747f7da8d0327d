"""vip_group: networks that run with one call."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from anynpu import soc
from anynpu.soft.viplite.driver import DRIVER
from anynpu.viplite import abi
from anynpu.viplite.abi import GroupProperty, Status
from anynpu.viplite.library import VipliteLibrary

from .client import OK, answer, bytes_of, create, make_group, ready, relu, slow

INVALID = Status.INVALID_ARGUMENTS


def set_word(vip: VipliteLibrary, group: int, property: int, word: int) -> int:
    value = ctypes.c_int32(word)
    code: int = vip.vip_set_group(group, property, ctypes.addressof(value))
    return code


@pytest.mark.parametrize("triggered", [False, True])
def test_the_first_networks_run(vip: VipliteLibrary, triggered: bool) -> None:
    group = make_group(vip, 3)
    networks = [ready(vip, relu()) for _ in range(3)]
    for number, (network, source, _) in enumerate(networks):
        bytes_of(vip, source)[:] = 130 + number
        assert vip.vip_add_network(group, network) == OK
    for count in (1, 2, 3):
        if triggered:
            assert vip.vip_trigger_group(group, count) == OK
            assert vip.vip_wait_group(group) == OK
        else:
            assert vip.vip_run_group(group, count) == OK
        results = [bytes_of(vip, target)[0] for _, _, target in networks]
        assert results == [130 + number if number < count else 0 for number in range(3)]
    assert vip.vip_wait_group(group) == OK
    profile = answer(vip.vip_query_group, group, GroupProperty.PROFILING, kind=abi.InferenceProfile)
    assert profile.inference_time > 0
    assert vip.vip_destroy_group(group) == OK
    assert vip.vip_run_network(networks[0][0]) == OK


def test_a_group_has_so_much_room(vip: VipliteLibrary) -> None:
    group = make_group(vip, 1)
    network, _, _ = ready(vip, relu())
    other, _, _ = ready(vip, relu())
    assert vip.vip_add_network(group, network) == OK
    assert vip.vip_add_network(group, network) == INVALID
    assert vip.vip_add_network(group, other) == Status.OUT_OF_RESOURCE


def test_a_network_that_cannot_run(vip: VipliteLibrary) -> None:
    group = make_group(vip, 2)
    network, _, target = ready(vip, relu())
    _, idle = create(vip, relu())
    assert vip.vip_add_network(group, network) == OK
    assert vip.vip_add_network(group, idle) == OK
    assert vip.vip_run_group(group, 2) == Status.NETWORK_NOT_PREPARED
    assert vip.vip_prepare_network(idle) == OK
    assert vip.vip_trigger_group(group, 2) == Status.MISSING_INPUT_OUTPUT
    assert not bytes_of(vip, target).any()
    assert vip.vip_destroy_network(idle) == OK
    assert vip.vip_run_group(group, 2) == INVALID
    assert vip.vip_run_group(group, 1) == OK


def test_a_group_that_takes_too_long(vip: VipliteLibrary) -> None:
    group = make_group(vip, 1)
    network, _, _ = ready(vip, slow())
    assert vip.vip_add_network(group, network) == OK
    assert set_word(vip, group, GroupProperty.SET_TIME_OUT, 1) == OK
    assert vip.vip_run_group(group, 1) == Status.TIMEOUT
    assert set_word(vip, group, GroupProperty.SET_TIME_OUT, 0) == OK
    assert vip.vip_run_group(group, 1) == OK


def test_no_network_begins_after_the_time_is_out(vip: VipliteLibrary) -> None:
    group = make_group(vip, 2)
    first, _, _ = ready(vip, slow())
    second, source, target = ready(vip, relu())
    bytes_of(vip, source)[:] = 200
    assert [vip.vip_add_network(group, network) for network in (first, second)] == [OK, OK]
    assert set_word(vip, group, GroupProperty.SET_TIME_OUT, 1) == OK
    assert vip.vip_run_group(group, 2) == Status.TIMEOUT
    assert vip.vip_run_group(group, 3) == INVALID  # waits for the end of the one before
    assert not bytes_of(vip, target).any()
    assert vip.vip_run_network(second) == OK


def test_destroying_a_group_that_runs(vip: VipliteLibrary) -> None:
    group = make_group(vip, 1)
    network, _, _ = ready(vip, slow())
    assert vip.vip_add_network(group, network) == OK
    assert vip.vip_trigger_group(group, 1) == OK
    assert vip.vip_destroy_group(group) == OK
    assert vip.vip_run_network(network) == OK


def test_a_call_that_waits_while_its_group_is_destroyed(vip: VipliteLibrary) -> None:
    group = make_group(vip, 1)
    network, _, _ = ready(vip, relu())
    assert vip.vip_add_network(group, network) == OK
    with ThreadPoolExecutor() as threads, DRIVER.pool(soc.find_vip("a733")).occupy(1, 0):
        assert vip.vip_trigger_group(group, 1) == OK
        setting = threads.submit(set_word, vip, group, GroupProperty.SET_TIME_OUT, 1)
        time.sleep(0.02)  # or it comes later, and finds no group
        assert vip.vip_destroy_group(group) == OK
        assert setting.result(20) == INVALID


@pytest.mark.parametrize(
    ("property", "word", "code"),
    [
        (GroupProperty.SET_DEVICE_INDEX, 0, OK),
        (GroupProperty.SET_DEVICE_INDEX, 1, INVALID),
        (GroupProperty.SET_CORE_INDEX, 0, OK),
        (GroupProperty.SET_CORE_INDEX, 1, INVALID),
        (GroupProperty.SET_TIME_OUT, 100, OK),
        (GroupProperty.PROFILING, 1, INVALID),
        (66, 1, INVALID),
    ],
)
def test_properties(vip: VipliteLibrary, property: int, word: int, code: int) -> None:
    assert set_word(vip, make_group(vip, 1), property, word) == code


def test_misuse(vip: VipliteLibrary) -> None:
    group: Any = ctypes.c_void_p()
    assert vip.vip_create_group(0, ctypes.byref(group)) == INVALID
    assert vip.vip_create_group(1, None) == INVALID
    made = make_group(vip, 1)
    for count in (0, 1, 2**32 - 1):
        assert vip.vip_run_group(made, count) == INVALID
        assert vip.vip_trigger_group(made, count) == INVALID
    assert vip.vip_add_network(made, 0xDEAD) == INVALID
    assert vip.vip_set_group(made, GroupProperty.SET_TIME_OUT, None) == INVALID
    assert vip.vip_query_group(made, GroupProperty.PROFILING, None) == INVALID
    assert vip.vip_query_group(made, GroupProperty.SET_TIME_OUT, None) == INVALID
    assert vip.vip_destroy_group(made) == OK
    for handle in (made, None, 0xDEAD):
        assert vip.vip_destroy_group(handle) == INVALID
        assert vip.vip_add_network(handle, 1) == INVALID
        assert vip.vip_wait_group(handle) == INVALID
        assert vip.vip_run_group(handle, 1) == INVALID
