"""What can go wrong through no fault of the library: each error's message names the culprit."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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


class ClusterWarning(UserWarning):
    """The machines of a cluster are not alike, so that their results may not be either."""


class ModelWarning(UserWarning):
    """A model's code or names are not those that a critic was trained with."""


def expect(condition: bool, expected: str, got: object) -> None:
    """Raise `InvalidInput("expected ..., got ...")` unless `condition` holds."""
    if not condition:
        raise InvalidInput(f"expected {expected}, got {got!r}")


def shown(numbers: Iterable[Any], most: int = 12) -> str:
    """Numbers for a message, shortened where they are many: first and last, and those between that are not 0."""
    values = [round(float(number), 6) for number in numbers]
    if len(values) <= most:
        return str(values)
    ends = {0, len(values) - 1}
    chosen = sorted(ends | set([k for k, value in enumerate(values) if value != 0.0][: most - 2]))
    said = ", ".join(f"{k}: {values[k]}" for k in chosen)
    return f"[{len(values)} numbers; {said}{', ...' if len(values) > len(chosen) else ''}]"


def near(name: str, known: Iterable[str]) -> str:
    """For a message about an unknown name: " (did you mean ...?)" if it is almost a known one, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f" (did you mean {close[0]}?)" if close else ""


def users_stack_level() -> int:
    """The `stacklevel` with which a warning of the calling function points at the line that called the library."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
        if not frame.f_code.co_filename.startswith(_IMPORT_SYSTEM):  # `warnings.warn` does not count these either
            level += 1
    return level
