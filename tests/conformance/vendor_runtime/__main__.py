"""Print the three tables; with ``--write`` take what is found into data/.

Places that are listed keep their reasons, new ones get ``?``. The status is 1 where what is found
isn't what is listed, or a row has no reason.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import api_answers, attributes, results
from .vendor import UnavailableError


def main(arguments: Sequence[str]) -> int:
    """All tables, one after another."""
    options = [word for word in arguments if word == "--write"]
    if len(options) != len(arguments):
        print("python -m tests.conformance.vendor_runtime [--write]", file=sys.stderr)
        return 2
    try:
        mains = (api_answers.main, attributes.main, results.main)
        return max([main_of(options) for main_of in mains])
    except UnavailableError as reason:
        print(f"nothing is compared: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
