"""A line a request on the standard error stream, as text or JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from .inference import Story


def set_up(form: str) -> None:
    """Let requests and what happens to models be logged: ``none`` (of requests), text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    log = logging.getLogger("anynpu.serving")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return " ".join(str(value) for value in _fields(record, self).values() if value != "")


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        return json.dumps(_fields(record, self))


def _fields(record: logging.LogRecord, formatter: logging.Formatter) -> dict[str, Any]:
    seconds, thousandths = int(record.created), int(record.msecs)
    when = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{thousandths:03}Z"
    found: dict[str, Any] = {"time": when, "level": record.levelname.lower()}
    story = getattr(record, "story", None)
    if not isinstance(story, Story):
        found["message"] = record.getMessage()
        if record.exc_info:
            found["message"] += "\n" + formatter.formatException(record.exc_info)
        return found
    return found | {
        "protocol": story.protocol,
        "client": story.client,
        "model": story.model,
        "id": story.request_id,
        "code": story.answer.code,
        "milliseconds": round(record.__dict__["seconds"] * 1000, 3),
        "error": story.error,
    }
