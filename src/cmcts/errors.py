"""What can go wrong through no fault of the library: each error's message names the culprit."""

from __future__ import annotations

import sys
from pathlib import Path

_LIBRARY = str(Path(__file__).parent)


class InvalidInput(ValueError):
    """An argument, a setting or a file that cannot be used; raised before anything is planned or written."""


class ModelError(RuntimeError):
    """A model broke its contract while it was being simulated."""


def expect(condition: bool, expected: str, got: object) -> None:
    """Raise `InvalidInput("expected ..., got ...")` unless `condition` holds."""
    if not condition:
        raise InvalidInput(f"expected {expected}, got {got!r}")


def users_stack_level() -> int:
    """The `stacklevel` with which a warning of the calling function points at the line that called the library."""
    level, frame = 1, sys._getframe(1)
    # Python's own import machinery stands between a moved module and the line that imports it.
    ours = (_LIBRARY, "<frozen importlib")
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        level, frame = level + 1, frame.f_back
    return level
