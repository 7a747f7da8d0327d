"""Every error code becomes its exception."""

from __future__ import annotations

import pytest

import anynpu
from anynpu.soft import faults
from anynpu.viplite.abi import Status
from anynpu.viplite.library import VipliteLibrary
from anynpu.viplite.network import Network
from anynpu.viplite.status import error_for

from ..soft.viplite.client import relu

EXPECTED = {
    "TIMEOUT": (anynpu.CallTimeoutError, TimeoutError),
    "IO": (anynpu.DeviceError, RuntimeError),
    "INVALID_ARGUMENTS": (anynpu.InvalidArgumentError, ValueError),
    "NOT_SUPPORTED": (anynpu.CallError, RuntimeError),
    "OUT_OF_RESOURCE": (anynpu.OutOfMemoryError, MemoryError),
    "OUT_OF_MEMORY": (anynpu.OutOfMemoryError, MemoryError),
    "INVALID_NETWORK": (anynpu.InvalidModelError, ValueError),
    "MISSING_INPUT_OUTPUT": (anynpu.CallError, RuntimeError),
    "NETWORK_NOT_PREPARED": (anynpu.CallError, RuntimeError),
    "NETWORK_INCOMPATIBLE": (anynpu.InvalidModelError, anynpu.ModelError),
    "FAILURE": (anynpu.CallError, RuntimeError),
    "POWER_OFF": (anynpu.DeviceError, RuntimeError),
    "POWER_STOP": (anynpu.DeviceError, RuntimeError),
    "RECOVERY": (anynpu.DeviceError, RuntimeError),
    "CANCELED": (anynpu.CallCancelledError, RuntimeError),
    "NAN_INF": (anynpu.CallError, RuntimeError),
    "FUSA": (anynpu.DeviceError, RuntimeError),
}


def test_the_table_is_complete() -> None:
    assert {code.name for code in Status} - set(EXPECTED) == {"SUCCESS"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_call_that_fails_with_each_code(
    name: str, monkeypatch: pytest.MonkeyPatch, vip: VipliteLibrary
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", f"vip_prepare_network={name}")
    faults.reset()
    kind, built_in = EXPECTED[name]
    with Network(relu(), library=vip) as network:
        with pytest.raises(kind) as caught:
            network.prepare()
        assert isinstance(caught.value, built_in)
        assert type(caught.value) is kind
        assert (caught.value.call, caught.value.code) == ("vip_prepare_network", Status[name])
        assert str(caught.value).startswith(
            f"vip_prepare_network returned VIP_ERROR_{name} ({Status[name].value})"
        )
        assert not network.is_prepared


@pytest.mark.parametrize("code", [-18, 7, 2**31 - 1])
def test_codes_from_other_versions(code: int) -> None:
    error = error_for("vip_run_network", code, "more")
    assert type(error) is anynpu.CallError
    assert str(code) in str(error)
    assert str(error).endswith("\nmore")
