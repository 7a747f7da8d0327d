"""Where tables go: a terminal, whose width they keep to, or a pipe, where no line is broken."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

_UNBROKEN = 100_000
NO_KERNELS_OF_ONNX = "--kernels: ONNX Runtime computes this model, without our kernels"
NO_KERNELS = "none: NumPy computes"
Rows = Iterable[Sequence[object]]


@dataclass(frozen=True)
class Shown:
    """What `anynpu inspect` shows besides the facts, and how: which kernels run what, work."""

    layers: bool
    kernels: bool
    macs: bool
    as_json: bool
    as_markdown: bool


class Report:
    """Facts, tables and lines on the standard output, for a person or as Markdown.

    Nothing that is printed is taken for markup: names come from files.
    """

    def __init__(self, *, as_markdown: bool = False) -> None:
        self._as_markdown = as_markdown
        self._console = None if as_markdown else console()

    def line(self, text: str = "") -> None:
        """Print a line."""
        if self._console is None:
            print(text)
        else:
            self._console.print(text, markup=False)

    def facts(self, rows: Iterable[tuple[str, object]]) -> None:
        """Print names and what they stand for."""
        if self._console is None:
            print(_markdown(("", ""), rows) + "\n")
            return
        if not self._console.is_terminal:
            lines = list(rows)
            widest = max((len(name) for name, _ in lines), default=0)
            for name, value in lines:
                self.line(f"{name:<{widest}} {value}")
            return
        from rich.table import Table
        from rich.text import Text

        made = Table(show_header=False, box=None, pad_edge=False)
        made.add_column()
        made.add_column(overflow="fold")
        for name, value in rows:
            made.add_row(name, Text(str(value)))
        self._console.print(made)

    def table(self, title: str, headings: Sequence[str], rows: Rows, align: str = "") -> None:
        """Print a table; `align` has a letter for each column, r for numbers, others for text.

        Where a terminal is too narrow for it, it goes without rules; texts are broken then, numbers
        never.
        """
        if self._console is None:
            print((f"### {title}\n\n" if title else "") + _markdown(headings, rows) + "\n")
            return
        cells = [[str(cell) for cell in row] for row in rows]
        is_narrow = _natural_width(headings, cells) > self._console.width
        made = _table(title, headings, cells, align, is_narrow=is_narrow)
        self._console.print(made)


def console() -> Console:
    """The standard output; a pipe is as wide as need be, and may close early."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else _UNBROKEN
    return Output(highlight=False, soft_wrap=True, width=width)


def _table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    align: str,
    *,
    is_narrow: bool,
) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD if is_narrow else box.HEAVY_HEAD,
        pad_edge=not is_narrow,
        padding=0 if is_narrow else (0, 1),
    )
    for number, heading in enumerate(headings):
        is_number = align[number : number + 1] == "r"
        made.add_column(
            heading.replace(" ", "\n") if is_number and is_narrow else heading,
            overflow="fold",
            justify="right" if is_number else "left",
            no_wrap=is_number,
        )
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def _natural_width(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The width of a table with rules round its cells, none of which is broken."""
    columns = zip(headings, *rows, strict=True)
    return sum(max(map(len, column)) + 3 for column in columns) + 1


def _markdown(headings: Sequence[str], rows: Rows) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines
    )


@contextmanager
def progress(what: str, total: float) -> Iterator[Progress | None]:
    """A bar on the standard error stream where that is a terminal, else None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        bar.add_task(what, total=total)
        yield bar
