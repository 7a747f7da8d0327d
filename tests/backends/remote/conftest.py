"""Servers that answer as tests say, and sessions of their models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import anynpu

from .scripted import ScriptedServer

Serve = Callable[..., ScriptedServer]
Open = Callable[..., anynpu.InferenceSession]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a `ScriptedServer`; all stop with the test."""
    servers: list[ScriptedServer] = []

    def start(*arguments: Any, **named: Any) -> ScriptedServer:
        servers.append(ScriptedServer(*arguments, **named))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def connect() -> Iterator[Open]:
    """Open a session of the models at some servers; all close with the test."""
    sessions: list[anynpu.InferenceSession] = []

    def open_session(*servers: ScriptedServer | str, **options: Any) -> anynpu.InferenceSession:
        addresses = [s if isinstance(s, str) else s.address for s in servers]
        model = addresses if len(addresses) > 1 else addresses[0]
        sessions.append(anynpu.InferenceSession(model, provider_options=options or None))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()
