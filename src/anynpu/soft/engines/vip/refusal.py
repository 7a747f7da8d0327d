"""What a file asks of the chip that isn't known, by operation, layer and name."""

from __future__ import annotations

from ....errors import ModelError


class Refusal(ModelError):
    """An operation that isn't executed, because what it does isn't known for certain."""


class Unknown(Exception):
    """What is not known about a command; whoever decodes an operation makes a `Refusal` of it."""
