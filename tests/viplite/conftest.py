"""VIPLite's soft NPU, and small networks for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from anynpu.viplite.library import VipliteLibrary, load
from anynpu.viplite.runtime import runtime_of


@pytest.fixture
def vip() -> Iterator[VipliteLibrary]:
    """The soft NPU's VIPLite 2.0; a test leaves nothing behind that uses it."""
    library = load("soft")
    gc.collect()
    users = runtime_of(library).users
    yield library
    gc.collect()
    assert runtime_of(library).users <= users
