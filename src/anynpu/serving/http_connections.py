"""Connections of the REST form: as many as allowed, and none that sends its head for ever.

uvicorn closes connections that are idle after a request. Those that never send a whole head, or
send it byte by byte, are closed here.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEAD = 64 * 1024


def guarded(most: int, seconds: float) -> type[HttpToolsProtocol]:
    """The protocol of a server's connections: `most` at once, heads within `seconds`."""

    class GuardedProtocol(HttpToolsProtocol):
        _head_timer: asyncio.TimerHandle | None = None
        _head_size = 0
        _is_in_head = True

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
            else:
                self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._is_in_head:
                self._head_size += len(data)
                self._await_head()
            super().data_received(data)
            # A head may lie at the start of a piece with much of its body.
            if self._is_in_head and self._head_size > _MOST_HEAD:
                self.transport.abort()

        def on_headers_complete(self) -> None:
            self._stop_timer()
            self._is_in_head, self._head_size = False, 0
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._is_in_head = True
            super().on_message_complete()

        def _await_head(self) -> None:
            if self._head_timer is None:
                self._head_timer = self.loop.call_later(seconds, self._abort)

        def _abort(self) -> None:
            if not self.transport.is_closing():
                self.transport.abort()

        def _stop_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return GuardedProtocol
