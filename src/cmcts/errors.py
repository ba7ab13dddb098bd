"""What can go wrong through no fault of the library: each error's message names the culprit."""

from __future__ import annotations


class InvalidInput(ValueError):
    """An argument, a setting or a file that cannot be used; raised before anything is planned or written."""


class ModelError(RuntimeError):
    """A model broke its contract while it was being simulated."""


def expect(condition: bool, expected: str, got: object) -> None:
    """Raise `InvalidInput("expected ..., got ...")` unless `condition` holds."""
    if not condition:
        raise InvalidInput(f"expected {expected}, got {got!r}")
