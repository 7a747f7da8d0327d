"""The kernel interface that the driver's library offers, from programs that use it alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from anynpu import soc
from anynpu.errors import OptionError
from anynpu.soft.driver import Board, Launch, Server, Settings
from anynpu.soft.driver.board import driver_version
from anynpu.soft.driver.faults import for_driver


def check(
    name: str, chip: str = "rk3588", *, board: dict[str, Any] | None = None, **settings: Any
) -> str:
    """Run a check of interface_checks.py; what it and the driver's log said."""
    described = Settings(Board(soc.find(chip), **(board or {})), log="-", **settings)
    with Launch(Path(sys.executable), described) as launch:
        done = launch.run(["-m", "tests.soft.driver.interface_checks", name], timeout=60)
    text = done.stdout.decode()
    assert done.returncode == 0, text[-3000:]
    return text


def test_versions() -> None:
    check("version", board={"driver": driver_version("0.9.2")})


@pytest.mark.parametrize("name", ["memory", "addresses_are_used_again", "sharing"])
def test_memory(name: str) -> None:
    check(name)


def test_misuse_is_an_error() -> None:
    text = check("misuse")
    assert "of the NPU is not known" in text
    assert "of DRM is not known" in text


def test_random_requests() -> None:
    check("anything")


def test_files_of_the_board() -> None:
    check("paths", board={"machine": "armv9l"})


def test_the_small_chips_device() -> None:
    check("small_chip", "rv1106")


def test_faults() -> None:
    text = check("faults", faults="submit@2=ETIMEDOUT create@3+=ENOMEM")
    assert "submit: call 2 fails on demand, errno 110" in text


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("submit@2=ETIMEDOUT", "submit@2=110"),
        ("create=ENOMEM, map@3+=EIO", "create@1+=12,map@3+=5"),
        ("", ""),
    ],
)
def test_rules_of_faults(rules: str, expected: str) -> None:
    assert for_driver(rules) == expected


@pytest.mark.parametrize("rules", ["submit", "fly=EIO", "submit@x=EIO", "submit=NONSENSE", "a=b=c"])
def test_wrong_rules_of_faults(rules: str) -> None:
    with pytest.raises(OptionError, match="isn't a fault"):
        for_driver(rules)


@pytest.mark.parametrize("text", ["1", "0.9", "0.9.x", "0.9.100", "0.9.8.1", ""])
def test_wrong_versions(text: str) -> None:
    with pytest.raises(OptionError, match="three numbers"):
        driver_version(text)


@pytest.mark.parametrize("name", ["refused_jobs", "forked", "many_objects", "memory_stays"])
def test_with_an_engine(name: str) -> None:
    reports: list[str] = []
    found = soc.find("rk3588")
    with Server(found, report=lambda line, _: reports.append(line)) as server:
        check(name, socket=server.path)
    if name == "refused_jobs":
        wanted = (
            "no memory of the program has the address 0x0",
            "can't hold all",
            "don't end with the start",
            "cores 0x5",
            "flags 0x0",
            "room for 102",
        )
        for words, line in zip(wanted, reports, strict=False):
            assert words in line
