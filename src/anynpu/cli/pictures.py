"""What the commands for pictures share: where they come from, what is shown, printed and saved."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import OptionError
from . import device, extras
from .output import Report, progress

if TYPE_CHECKING:
    from ..session import InferenceSession
    from ..vision.frames import Frame, Frames, VideoWriter
    from ..vision.pictures import Pixels

Found = TypeVar("Found")
SOURCES = (
    "a picture or several, a folder of pictures, a video, a camera's number, or a stream's URL"
)
_USUAL_RATE = 25.0
_NEEDS = ("formats", "tables", "soft", "vision", "video")


@dataclass(frozen=True)
class Task(Generic[Found]):
    """What a command does to each frame.

    `stream` gives what is found in pictures, in order; `as_json` and `row` say it, `draw` shows it;
    `headings` and `align` are those of the rows' table.
    """

    stream: Callable[[Iterable[Pixels]], Iterator[Found]]
    as_json: Callable[[Found], Any]
    rows: Callable[[Found], list[Sequence[object]]]
    draw: Callable[[Pixels, Found], Pixels]
    headings: Sequence[str]
    align: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what all these commands take, but for the model."""
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help=SOURCES)
    parser.add_argument(
        "--save",
        metavar="FILE",
        help="write what was found into a copy: a picture, a video, or a folder for several "
        "pictures",
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object for each frame, a line each"
    )
    parser.add_argument("--frames", type=int, metavar="N", help="stop after that many frames")
    device.add_arguments(parser)
    parser.set_defaults(needs=_NEEDS)


def open_session(
    stack: ExitStack, options: argparse.Namespace, model: str, **more: Any
) -> InferenceSession:
    """A session for a model, which gives quantised outputs as they are."""
    extras.require("vision", "video", *(() if options.json else ("tables",)))
    if options.save:
        extras.require("drawing")
    if options.frames is not None and options.frames < 1:
        raise OptionError(f"--frames {options.frames}: it takes a number of 1 or more")
    device.apply(options)
    return stack.enter_context(device.open_session(options, model, output_dtype="model", **more))


def process(
    options: argparse.Namespace, session: InferenceSession, task: Task[Found], about: str
) -> int:
    """Do it to every frame of the sources, print what is found, and save it.

    0, or 1 where a file among several is no picture.
    """
    from ..vision.frames import open_frames

    runs_on = device.device_of(session)
    report = None if options.json else Report()
    if report:
        report.line(str(runs_on))
        report.line(about)
    unread: list[OSError] = []
    with (
        open_frames(*options.sources, unreadable=unread.append) as frames,
        _Saved(options.save, frames) as saved,
    ):
        rate = _Rate()
        for frame, found in _results(frames, task, options):
            rate.count()
            if report is None:
                said = {
                    "source": frame.name,
                    "device": runs_on.plain(),
                    "found": task.as_json(found),
                }
                print(json.dumps(said), flush=frames.kind == "camera")
            elif frames.total == 1 and task.rows(found):
                report.table("", task.headings, task.rows(found), task.align)
            else:
                report.line(f"{frame.name}: {_in_a_line(task.rows(found))}")
            if saved.is_wanted:
                saved.write(frame, task.draw(frame.pixels, found))
        if report:
            _conclude(report, frames, rate, options.save)
    for error in unread:
        print(f"anynpu: {error}", file=sys.stderr)
    return int(bool(unread))


def _results(
    frames: Frames, task: Task[Found], options: argparse.Namespace
) -> Iterator[tuple[Frame, Found]]:
    """Each frame with what is found in it; a bar shows how far it is."""
    pending: list[Frame] = []

    def remembered() -> Iterator[Pixels]:
        for frame in itertools.islice(frames, options.frames):
            pending.append(frame)
            yield frame.pixels

    total = min(frames.total or sys.maxsize, options.frames or sys.maxsize)
    with contextlib.ExitStack() as stack:
        bar = None
        if frames.kind != "picture" and total < sys.maxsize and not options.json:
            bar = stack.enter_context(progress(frames.kind, total))
        for found in task.stream(remembered()):
            yield pending.pop(0), found
            if bar is not None:
                bar.advance(bar.task_ids[0])


class _Rate:
    """Frames a second, from the first to the last: what comes before it is loading."""

    def __init__(self) -> None:
        self.frames = 0
        self._first = self._last = 0.0

    def count(self) -> None:
        self._last = time.perf_counter()
        self._first = self._first if self.frames else self._last
        self.frames += 1

    @property
    def per_second(self) -> float | None:
        """None where there aren't enough frames to tell."""
        if self.frames < 3 or self._last <= self._first:
            return None
        return (self.frames - 1) / (self._last - self._first)


class _Saved:
    """The pictures that are written, each where its source's kind says."""

    def __init__(self, path: str | None, frames: Frames) -> None:
        self.is_wanted = path is not None
        self._path, self._frames = Path(path or ""), frames
        self._writer: VideoWriter | None = None

    def __enter__(self) -> _Saved:
        if not self.is_wanted:
            return self
        self._check()
        if self._frames.kind == "folder":
            self._path.mkdir(parents=True, exist_ok=True)
        elif self._frames.kind != "picture":
            from ..vision.frames import VideoWriter

            self._writer = VideoWriter(self._path, self._frames.rate or _USUAL_RATE)
        return self

    def _check(self) -> None:
        """Raise where a source would be written over, or one picture over another."""
        files, kind = self._frames.files, self._frames.kind
        if kind == "picture":
            from ..vision.pictures import check_ending

            check_ending(self._path)
        for file in files:
            target = self._path / file.name if kind == "folder" else self._path
            if target.exists() and target.samefile(file):
                raise OptionError(f"--save {self._path}: {file} would be written over")
        names = Counter(file.name for file in files)
        if len(names) < len(files):
            twice = names.most_common(1)[0][0]
            raise OptionError(
                f"--save {self._path}: there are several {twice}, and one would be written over "
                f"the other"
            )

    def write(self, frame: Frame, drawn: Pixels) -> None:
        """Write a frame."""
        from ..vision.pictures import write_picture

        if self._writer is not None:
            self._writer.write(drawn)
        elif self._frames.kind == "folder":
            write_picture(self._path / Path(frame.name).name, drawn)
        else:
            write_picture(self._path, drawn)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()


def _in_a_line(rows: Sequence[Sequence[object]]) -> str:
    return ", ".join(f"{row[0]} {row[1]}" for row in rows) or "nothing"


def _conclude(report: Report, frames: Frames, rate: _Rate, saved: str | None) -> None:
    if rate.per_second is not None:
        report.line(f"{rate.frames} frames, {rate.per_second:.1f} a second")
    if rate.frames == 0 and frames.kind != "folder":
        report.line(f"no frames came from the {frames.kind}")
    if saved and rate.frames:
        report.line(f"written to {saved}")
