"""Faults on demand."""

from __future__ import annotations

import pytest

from anynpu.soft import faults
from anynpu.viplite.abi import Status
from anynpu.viplite.library import VipliteLibrary

from .client import OK, bind_all, create, make_buffer, plain, prepared, relu


@pytest.fixture(autouse=True)
def _counts_begin_anew() -> None:
    faults.reset()


def begin(vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch, setting: str) -> int:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", setting)
    code: int = vip.vip_init()
    return code


@pytest.mark.parametrize("code", [code for code in Status if code is not OK])
def test_every_code_can_be_had(
    vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch, code: Status
) -> None:
    assert begin(vip, monkeypatch, f"vip_run_network@2={code.name}") == OK
    with prepared(vip, relu()) as network:
        bind_all(vip, network)
        assert [vip.vip_run_network(network) for _ in range(3)] == [OK, code, OK]


def test_functions_that_return_no_code(
    vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = make_buffer(vip, plain(10))
    assert begin(vip, monkeypatch, "vip_map_buffer=FAILURE vip_get_buffer_size=FAILURE") == OK
    assert vip.vip_map_buffer(buffer) is None
    assert vip.vip_get_buffer_size(buffer) == 0


def test_a_device_that_is_not_there(
    bare_vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert begin(bare_vip, monkeypatch, "vip_init=IO") == Status.IO
    assert create(bare_vip, relu())[0] == Status.FAILURE


@pytest.mark.parametrize(
    "setting", ["vip_run_network", "vip_run_network=SUCC", "vip_run=IO", "rknn_run=RECOVERY"]
)
def test_settings_that_make_no_sense(
    bare_vip: VipliteLibrary,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    setting: str,
) -> None:
    assert begin(bare_vip, monkeypatch, setting) == Status.INVALID_ARGUMENTS
    assert f"$ANYNPU_SOFT_FAULTS has {setting!r}" in capfd.readouterr().err
