"""The soft NPU behind VIPLite, through both of its doors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anynpu import soc
from anynpu.soft.cabi.build import library_folder
from anynpu.viplite.abi import Status
from anynpu.viplite.library import VipliteLibrary, load


@pytest.fixture(scope="session")
def vip_folder(_own_cache: None) -> Path:
    """The folder with libNBGlinker.so and its like."""
    return library_folder(soc.find_vip("a733"))


@pytest.fixture(params=["table", "shared library"])
def bare_vip(request: pytest.FixtureRequest, vip_folder: Path) -> VipliteLibrary:
    """The functions of VIPLite 2.0, from the table and from libNBGlinker.so; not initialised."""
    return load("soft" if request.param == "table" else vip_folder / "libNBGlinker.so")


@pytest.fixture
def vip(bare_vip: VipliteLibrary) -> Iterator[VipliteLibrary]:
    """The same, initialised; what a test leaves alive is destroyed."""
    assert bare_vip.vip_init() == Status.SUCCESS
    yield bare_vip
    while bare_vip.vip_destroy() == Status.SUCCESS:
        pass
