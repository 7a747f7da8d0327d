"""What `import anynpu` costs a new process, over a process that imports nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

from .measure import Comparison, compare


def run(rounds: int) -> Iterator[Comparison]:
    """The difference of the two times is the import; the goal for it is 80 ms."""
    empty = _python("pass")
    yield compare(
        "python -c 'import anynpu' / 'pass'", _python("import anynpu"), empty, rounds=rounds
    )
    yield compare(
        "python -c 'import anynpu; anynpu.InferenceSession' / 'import numpy'",
        _python("import anynpu; anynpu.InferenceSession"),
        _python("import numpy"),
        rounds=rounds,
    )


def _python(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)
