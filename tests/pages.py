"""The pages on the C APIs: their tables, and the tests that they name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent


class Page:
    """A page of `docs`; the tests that it names lie in `folders`, each file once."""

    def __init__(self, name: str, *folders: str) -> None:
        self.text = (TESTS.parent / "docs" / name).read_text()
        self.rows = {
            match[1]: (match[2], re.findall(r"`([^`]+)`", match[3]))
            for match in re.finditer(r"^\| `(\w+)` \| (.*?) \|([^|]*)\|$", self.text, re.MULTILINE)
        }
        self._folders = [TESTS / folder for folder in folders]

    def tests(self) -> list[str]:
        """Every test that the page names, as FILE::FUNCTION."""
        return self.tests_in(self.text)

    @staticmethod
    def tests_in(text: str) -> list[str]:
        """Those that a part of it names."""
        return re.findall(r"`(test_\w+\.py::\w+)`", text)

    def exists(self, test: str) -> bool:
        """Whether a test is there."""
        file, _, function = test.partition("::")
        found = [path for folder in self._folders for path in folder.glob(file)]
        return len(found) == 1 and function in _functions_of(found[0])


def _functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
