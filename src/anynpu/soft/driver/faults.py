"""Calls of the kernel's driver that fail on demand.

Rules are as those of `anynpu.soft.faults`, with the driver's requests and the kernel's errors::

    submit@3=ETIMEDOUT      the third job
    create@2+=ENOMEM        the second memory object and all after it
    action=EIO              every question
"""

from __future__ import annotations

import errno
import re

from ...errors import OptionError

REQUESTS = ("action", "submit", "create", "map", "destroy", "sync")
_RULE = re.compile(r"(?P<request>\w+)(?:@(?P<number>\d+)(?P<onwards>\+)?)?=(?P<error>\w+)")


def for_driver(rules: str) -> str:
    """The rules as the driver's library reads them; raises `OptionError` for a wrong one."""
    return ",".join(_rule(word) for word in re.split(r"[,\s]+", rules) if word)


def _rule(word: str) -> str:
    match = _RULE.fullmatch(word)
    number = getattr(errno, match["error"], None) if match else None
    if match is None or match["request"] not in REQUESTS or not isinstance(number, int):
        raise OptionError(
            f"{word!r} isn't a fault; expected REQUEST[@NUMBER[+]]=ERROR, such as "
            f"submit@3=ETIMEDOUT, with one of {', '.join(REQUESTS)} and an error of errno.h"
        )
    first, onwards = match["number"] or "1", match["onwards"] or not match["number"]
    return f"{match['request']}@{first}{'+' if onwards else ''}={number}"
