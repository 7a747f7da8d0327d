"""The site: its pages are there, links lead somewhere, code prints what is said, commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from anynpu import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BESIDE = {"index.md", "contributing.md", "changelog.md", "security.md", "deploy.md", "examples.md"}
"""Pages that docs/site/hooks.py makes of files elsewhere."""


def name(page: Path) -> str:
    return str(page.relative_to(DOCS))


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    assert set(re.findall(r"[\w/-]+\.md", navigation)) == BESIDE | set(map(name, PAGES))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, _ = link.partition("#")
        if path and "://" not in path and not path.endswith("index.md"):
            assert (page.parent / path).exists(), link


@pytest.mark.parametrize("page", [DOCS / "layouts.md"], ids=name)
def test_code_prints_what_its_comments_say(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page.read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, {"anynpu": __import__("anynpu")})
        assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.*)$", block, re.MULTILINE)


def commands(page: Path) -> list[str]:
    line = r"^(?:    |.*- run: |\$ )(anynpu (?!is\b)\w+[^|\n]*)"
    return re.findall(line, page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_are_understood(page: Path) -> None:
    for line in commands(page):
        words = shlex.split(line, comments=True)[1:]
        assert cli._parser(words).parse_args(words).run
