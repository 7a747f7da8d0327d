"""A command's failures as lines for a person, not tracebacks."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import TextIO

from ..errors import AnynpuError, SoftNpuWarning
from . import extras


def reported(options: argparse.Namespace) -> int:
    """Run a command; what goes wrong is one message on the standard error stream, and status 1."""
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
        return 1
    except (AnynpuError, OSError) as error:
        print(f"anynpu: {error}", file=sys.stderr)
        return 1
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
