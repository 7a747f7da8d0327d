"""The README's words are tried: its code runs, its commands exist, its tables are true."""

from __future__ import annotations

import re
import shlex
import sys
from importlib import import_module
from pathlib import Path

import pytest

from anynpu import cli
from anynpu.cli import (
    bench,
    build,
    classify,
    compare,
    demo,
    detect,
    doctor,
    inspect,
    profile,
    read,
    serve,
    soft,
    soft_driver,
)
from anynpu.cli import run as run_command
from anynpu.rknn.abi import FUNCTIONS
from anynpu.soft.build import BuildOptions, build_file
from anynpu.soft.rknn import IMPLEMENTED

from . import models

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_code_prints_what_its_comments_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    build_file(models.convolution(), "model.rknn", BuildOptions())
    names: dict[str, object] = {}
    assert len(CODE) == 3
    for block in CODE:
        exec(block, names)
        printed = capsys.readouterr().out.splitlines()
        promised = re.findall(r"^\s*# (.*)$", block, re.MULTILINE)
        assert printed == promised
    names["session"].close()  # type: ignore[attr-defined]


def test_the_commands_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []

    def remember(options: object) -> int:
        called.append(options)
        return 0

    for command in (
        bench, build, classify, compare, demo, detect, doctor, inspect, profile, read, run_command,
        serve, soft, soft_driver,
    ):  # fmt: skip
        for name in ("run", "_print_folder", "_run_program"):
            if hasattr(command, name):
                monkeypatch.setattr(command, name, remember)
    commands = re.findall(r"(?:^    |\$\()(anynpu [^)\n]*)", README, re.MULTILINE)
    page = (ROOT / "docs" / "commands.md").read_text()
    commands += re.findall(r"^\$ (anynpu .*)$", page, re.MULTILINE)
    for line in commands:
        assert cli.main(shlex.split(line, comments=True)[1:]) == 0
    assert len(called) == len(commands) >= 4


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake (\w+)", README)) - {"and"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_number_of_functions_is_true() -> None:
    assert f"all {len(FUNCTIONS)} functions" in README
    assert set(IMPLEMENTED) == set(FUNCTIONS)


def test_the_pages_exist() -> None:
    for page in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / page).is_file(), page


def test_every_variable_is_explained() -> None:
    """What the code reads from the environment stands in the documents."""
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    documents = README + "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    for name in re.findall(r'= "(ANYNPU_[A-Z_]+)"', sources):
        assert name in documents, name


def test_its_links_lead_somewhere_on_a_package_index_too() -> None:
    """There are no files beside that page: each relative link becomes one to the version's tag."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = toml.loads((ROOT / "pyproject.toml").read_text())
    text = README
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    home = project["project"]["urls"]["Source"]
    for picture, link in links:
        start = f"{home}/{'raw' if picture else 'blob'}/v$HFPR_VERSION/"
        assert link.startswith(start)
        assert (ROOT / link[len(start) :].partition("#")[0]).is_file()
    assert len(links) == len(re.findall(r"\]\(", README)) > 10
