"""What can go wrong through no fault of the library: each error's message names the culprit."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

_IMPORT_SYSTEM = "<frozen importlib._bootstrap"
# Python's own machinery stands between a moved module and the line that imports it.
_NOT_THE_USERS = (str(Path(__file__).parent), str(importlib.__file__), _IMPORT_SYSTEM)


class InvalidInput(ValueError):
    """An argument, a setting or a file that cannot be used; raised before anything is planned or written."""


class ModelError(RuntimeError):
    """A model broke its contract while it was being simulated."""


class BudgetWarning(UserWarning):
    """A budget lies outside of what was trained for or measured."""


class CacheWarning(UserWarning):
    """Compiled code could not be read from disk or written there; planning goes on without."""


class ModelWarning(UserWarning):
    """A model's code or names are not those that a critic was trained with."""


def expect(condition: bool, expected: str, got: object) -> None:
    """Raise `InvalidInput("expected ..., got ...")` unless `condition` holds."""
    if not condition:
        raise InvalidInput(f"expected {expected}, got {got!r}")


def users_stack_level() -> int:
    """The `stacklevel` with which a warning of the calling function points at the line that called the library."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
        if not frame.f_code.co_filename.startswith(_IMPORT_SYSTEM):  # `warnings.warn` does not count these either
            level += 1
    return level
