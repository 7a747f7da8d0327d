"""Provider options: declared once, as the fields of a dataclass, and parsed from what people pass.

A field's `metadata` names the function that checks and converts its value, and its aliases. The
scheduling options here are every vendor's; a backend's own class adds its own.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from .errors import OptionError

_OptionsT = TypeVar("_OptionsT", bound="Options")
Converter = Callable[[str, Any], Any]


# ------------------------------------------------------------------------------- converters


def positive(name: str, value: Any) -> int:
    """A whole number above 0, or its text."""
    try:
        number = int(value) if isinstance(value, str) else value.__index__()
    except (ValueError, AttributeError):
        raise OptionError(f"{name} is {value!r}; it takes a whole number above 0") from None
    if isinstance(value, bool) or number < 1:
        raise OptionError(f"{name} is {value!r}; it takes a whole number above 0")
    return int(number)


_BOOLEANS = {"1": True, "true": True, "on": True, "yes": True}
_BOOLEANS |= {"0": False, "false": False, "off": False, "no": False}


def boolean(name: str, value: Any) -> bool:
    """A bool, 0 or 1, or the words for them."""
    try:
        return _BOOLEANS[str(value).strip().lower()]
    except KeyError:
        raise OptionError(f"{name} is {value!r}; it takes True or False") from None


def choice(*known: str) -> Converter:
    """A converter for one of some words, in any case."""

    def convert(name: str, value: Any) -> str:
        word = str(value).strip().lower()
        if word not in known:
            raise OptionError(f"{name} is {value!r}; it may be {', '.join(known)}")
        return word

    return convert


def cores(name: str, value: Any) -> tuple[int, ...]:
    """Numbers of cores: one, a comma-separated text, or a sequence."""
    hint = f"{name} is {value!r}; it takes numbers of cores such as [0, 1, 2]"
    try:
        if isinstance(value, str):
            numbers = [int(part) for part in value.split(",")]
        elif isinstance(value, Sequence):
            numbers = [part.__index__() for part in value]
        else:
            numbers = [value.__index__()]
    except (ValueError, AttributeError):
        raise OptionError(hint) from None
    if not numbers or min(numbers) < 0 or isinstance(value, bool):
        raise OptionError(hint)
    return tuple(int(number) for number in numbers)


def paths(name: str, value: Any) -> tuple[str, ...]:
    """One path or several."""
    given = [value] if isinstance(value, (str, os.PathLike)) else value
    try:
        return tuple(os.fspath(path) for path in given)
    except TypeError:
        raise OptionError(f"{name} is {value!r}; it takes a path or a sequence of paths") from None


def path(name: str, value: Any) -> str:
    """A path."""
    try:
        return os.fspath(value)  # type: ignore[no-any-return]
    except TypeError:
        raise OptionError(f"{name} is {value!r}; it takes a path") from None


def anything(name: str, value: Any) -> Any:
    """A value that whoever uses it checks."""
    return value


# ---------------------------------------------------------------------------------- options


def option(default: Any, convert: Converter, *aliases: str) -> Any:
    """A field that is an option; `convert` gets the option's name and the value given."""
    return field(default=default, metadata={"convert": convert, "aliases": aliases})


@dataclass(frozen=True)
class Options:
    """What every backend's session takes.

    `max_queue_size` requests may wait for a worker; another has to wait up to `submit_timeout_ms`
    for a place. `threads_per_core` workers share a core, each with a context of its own.
    `sequential_callbacks` delivers the results of `run_async` in the order of the calls, not as
    they are done. `schedule` lists cores. `dispatch` is ``"idle"``: an idle worker takes the next
    request, or ``"round_robin"``: request n runs on core ``schedule[n % len(schedule)]``, the
    default with a schedule. `enable_pacing` accepts requests no faster than they are done.
    """

    max_queue_size: int = option(3, positive)
    threads_per_core: int = option(1, positive)
    submit_timeout_ms: int = option(10_000, positive)
    sequential_callbacks: bool = option(True, boolean)
    schedule: tuple[int, ...] | None = option(None, cores)
    dispatch: str | None = option(None, choice("idle", "round_robin"))
    enable_pacing: bool = option(False, boolean)

    @property
    def is_round_robin(self) -> bool:
        """Whether requests are tied to the schedule's cores in turn."""
        return self.schedule is not None and self.dispatch != "idle"

    def as_dict(self) -> dict[str, Any]:
        """Every option and the value in force."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def names(cls) -> dict[str, dataclasses.Field[Any]]:
        """The fields by their names and aliases."""
        found = {entry.name: entry for entry in fields(cls)}
        for entry in fields(cls):
            found |= dict.fromkeys(entry.metadata["aliases"], entry)
        return found

    @classmethod
    def parse(cls: type[_OptionsT], given: Mapping[str, Any]) -> _OptionsT:
        """Options from a mapping; None leaves an option at its default.

        Raises `OptionError` for unknown keys, wrong values and contradictions.
        """
        known = cls.names()
        values: dict[str, Any] = {}
        for key, value in given.items():
            if key not in known:
                raise OptionError(unknown("provider option", str(key), known))
            entry = known[key]
            if value is None:
                continue
            converted = entry.metadata["convert"](key, value)
            if entry.name in values:
                converted = _merge(entry.name, values[entry.name], converted)
            values[entry.name] = converted
        return cls(**values)


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """What is said of an unknown name: the nearest one, and all that are known."""
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    hint = f", perhaps {near[0]!r}" if near else ""
    return f"unknown {kind} {name!r}{hint}; known are {', '.join(known) or 'none'}"


def _merge(name: str, first: Any, second: Any) -> Any:
    """An option that was given under two of its names."""
    if isinstance(first, tuple):
        return first + second
    if first != second:
        raise OptionError(f"{name} was given twice, as {first!r} and as {second!r}")
    return first
