"""Models and critics in other processes, and as copies: made anew there from what they were made of.

What Numba has made of them does not travel, and need not: the next process finds it in the cache on disk. Functions
travel by their names, so that they are the other process's own.
"""

from __future__ import annotations

import dataclasses
import pkgutil
from typing import Any, NamedTuple

from cmcts.compilation.content import python_function


class ByName(NamedTuple):
    """A function that can be imported."""

    module: str
    name: str


def fields_of(instance: Any) -> dict[str, Any]:
    """What a dataclass was made of; functions that can be imported by their names."""
    return {field.name: _named(getattr(instance, field.name)) for field in dataclasses.fields(instance) if field.init}


def remade(kind: type[Any], fields: dict[str, Any]) -> Any:
    """The dataclass, made of these fields."""
    found = {
        name: pkgutil.resolve_name(f"{value.module}:{value.name}") if isinstance(value, ByName) else value
        for name, value in fields.items()
    }
    return kind(**found)


def _named(value: Any) -> Any:
    source = python_function(value) if callable(value) else None
    module, name = getattr(source, "__module__", None), getattr(source, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or isinstance(value, type):
        return value
    try:
        return ByName(module, name) if pkgutil.resolve_name(f"{module}:{name}") is value else value
    except (AttributeError, ImportError, ValueError):
        return value
