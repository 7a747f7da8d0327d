"""Pages of the site that lie beside `docs`.

They are read there, so that nothing is written twice.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "deploy/README.md": "deploy.md",
    "examples/README.md": "examples.md",
    "examples": "examples.md",
}
"""Where in the repository a page lies, and its name in the site."""

_LINK = re.compile(r"(\]\()([^)#:\s]+)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages, their links pointing to what the site calls those files."""
    for source, page in _PAGES.items():
        file = _root(config) / source
        if file.is_file():
            text = _relinked(file.read_text(), posixpath.dirname(source), "", config)
            files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Let links that leave `docs` point to these pages, or to the repository."""
    if page.file.generated_by:
        return markdown
    folder = posixpath.dirname(page.file.src_uri)
    return _relinked(markdown, posixpath.join("docs", folder), folder, config)


def _relinked(markdown: str, folder: str, site_folder: str, config: Any) -> str:
    """A page in a folder of the repository, as it reads in a folder of the site."""

    def relinked(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[2]))
        target = _PAGES.get(path) or posixpath.relpath(path, "docs")
        if target.startswith("../") and (_root(config) / path).exists():
            return f"{match[1]}{config.repo_url}/blob/main/{path}"
        return match[1] + posixpath.relpath(target, site_folder or ".")

    return _LINK.sub(relinked, markdown)


def _root(config: Any) -> Path:
    return Path(config.config_file_path).parent
