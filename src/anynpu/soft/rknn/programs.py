"""Models that contexts of a process share: a compiled file is loaded once, however often it is."""

from __future__ import annotations

from weakref import WeakValueDictionary

from ..engines import ModelSource, Program, load

_loaded: WeakValueDictionary[ModelSource, Program] = WeakValueDictionary()
"""As long as a context has them. By the file and when it was written."""


def program_of(source: ModelSource, weights: Program | None = None) -> Program:
    """The program of a model; `weights` has those that were removed from it.

    Raises what `load` does.
    """
    if weights is not None or not source.is_settled:
        return load(source, weights)
    known = _loaded.get(source)
    if known is not None:
        return known
    program = load(source)
    if program.follows_from_one_file:
        _loaded[source] = program
    return program
