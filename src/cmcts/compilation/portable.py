"""Parameters whose class lives in the script that is run, in a class that the next process has as well.

Numba's cache on disk names the classes of a kernel's arguments. One that was defined in `__main__` cannot be named: it
is another class in every process, and a compiled search would never be found again. So a kernel is handed the same
numbers in a class of this module. Its name says its fields, and asking the module for that name makes it anew.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

_MADE: dict[str, type] = {}


def portable(params: Any) -> Any:
    """`params` itself, unless it is, or holds, a named tuple of a class in `__main__`."""
    kind = type(params)
    if not (isinstance(params, tuple) and hasattr(kind, "_fields")):
        return params
    parts = [portable(part) for part in params]
    if kind.__module__ == "__main__":
        return __getattr__(f"Params({','.join(kind._fields)})")(*parts)
    changed = any(part is not old for part, old in zip(parts, params, strict=True))
    return kind(*parts) if changed else params


def __getattr__(name: str) -> type:
    """The class `Params(field,field,...)`; pickle asks for it by this name."""
    if not (name.startswith("Params(") and name.endswith(")")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _MADE:
        made = namedtuple("Params", name.removeprefix("Params(").removesuffix(")").split(","))  # type: ignore[misc]
        made.__name__ = made.__qualname__ = name
        made.__module__ = __name__
        _MADE.setdefault(name, made)  # threads may come here at once
    return _MADE[name]
