"""`map`: frames, or a Ray dataset, through a model on all boards of a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, cast, overload

from numpy.typing import NDArray

from ..feeds import Feed
from .boards import Boards
from .datasets import Dataset, is_dataset, mapped

_Results = list[NDArray[Any]]


@overload
def map(
    model: str | os.PathLike[str] | bytes,
    feeds: Dataset,
    *,
    provider_options: Mapping[str, Any] | None = None,
    output_names: Sequence[str] | None = None,
    stack: int | None = None,
) -> Dataset: ...


@overload
def map(
    model: str | os.PathLike[str] | bytes,
    feeds: Iterable[Feed],
    *,
    provider_options: Mapping[str, Any] | None = None,
    output_names: Sequence[str] | None = None,
    ordered: bool = True,
    stack: int | None = None,
    outstanding: int = 2,
    timeout: float = 60.0,
    progress: bool = False,
) -> Iterator[_Results]: ...


def map(
    model: str | os.PathLike[str] | bytes,
    feeds: Iterable[Feed] | Dataset,
    *,
    provider_options: Mapping[str, Any] | None = None,
    output_names: Sequence[str] | None = None,
    ordered: bool = True,
    stack: int | None = None,
    outstanding: int = 2,
    timeout: float = 60.0,
    progress: bool = False,
) -> Iterator[_Results] | Dataset:
    """The outputs for each feed, computed on all boards of the Ray cluster.

    `feeds` is an iterable as of `InferenceSession.map`: then this is an iterator of what `run`
    returns, new arrays, in the feeds' order or, without `ordered`, as they are done; `Boards` says
    what `model`, `provider_options`, `outstanding` and `timeout` are, and `Boards.map` what `stack`
    is. Use `Boards` to keep the model open for several maps. `progress` shows a bar.

    Or `feeds` is a `ray.data.Dataset` with a column for each input: then this is the dataset with a
    column more for each output; `NpuBatches` says how rows are taken. Nothing runs until the
    dataset is read; order, retries and progress are then Ray Data's.

    Raises what opening or running the model raises on a board, `LibraryError` without Ray,
    `ServerUnavailableError` where no board of the cluster has the model open in time.
    """
    if is_dataset(feeds):
        return mapped(feeds, model, provider_options, output_names, stack)
    boards = Boards(
        model, provider_options=provider_options, outstanding=outstanding, timeout=timeout
    )
    frames = cast("Iterable[Feed]", feeds)
    return _through(boards, frames, ordered, output_names, stack, progress)


def _through(
    boards: Boards,
    feeds: Iterable[Feed],
    ordered: bool,
    output_names: Sequence[str] | None,
    stack: int | None,
    progress: bool,
) -> Iterator[_Results]:
    with boards:
        results = boards.map(feeds, ordered=ordered, output_names=output_names, stack=stack)
        yield from _with_bar(results, feeds) if progress else results


def _with_bar(results: Iterator[_Results], feeds: Iterable[Feed]) -> Iterator[_Results]:
    from rich.console import Console
    from rich.progress import track

    total = len(feeds) if isinstance(feeds, Sized) else None
    yield from track(results, "frames", total, console=Console(stderr=True))
