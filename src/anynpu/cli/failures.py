"""A command's failures as lines for a person, not tracebacks."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import TextIO

from ..errors import AnynpuError, OptionError, SoftNpuWarning
from . import extras

_FAILURE, _USAGE = 1, 2
"""Exit statuses; argparse's own mistakes have the second one too."""


def reported(options: argparse.Namespace) -> int:
    """Run a command; what goes wrong is one message on the standard error stream.

    The status is the command's own, 1 for a failure, 2 for an option's value that can't be.
    """
    try:
        with warnings.catch_warnings():
            # What a command runs on is its first line.
            warnings.simplefilter("ignore", SoftNpuWarning)
            warnings.showwarning = _show
            status: int = options.run(options)
    except BrokenPipeError:
        raise
    except ImportError as error:
        needs = getattr(options, "needs", ())
        print(f"anynpu: {extras.advice(needs, error)}", file=sys.stderr)
        return _FAILURE
    except (AnynpuError, OSError) as error:
        print(f"anynpu: {error}", file=sys.stderr)
        return _USAGE if isinstance(error, OptionError) else _FAILURE
    except KeyboardInterrupt:
        print("anynpu: interrupted", file=sys.stderr)
        return 130
    return status


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"anynpu: {message}", file=sys.stderr)
