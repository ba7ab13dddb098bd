"""What a critic or a policy was made for: the planning model's sizes, parameters and code.

Sizes and parameters are the problem: where they differ, a critic is refused. Code is what the problem's author wrote:
where it differs, it may have been tidied or it may have been changed, and only the author knows which. So that is said
aloud, and a run that was begun with other code is not resumed. Code is compared as text, with the constants and helpers
that it names: bytecode is another one in every release of Python.
"""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from cmcts.compilation.content import python_function
from cmcts.model.interface import KERNEL_FUNCTIONS, Model

# What others maintain, and what of ours is no model: these may be improved without a word.
_OTHERS = ("numpy", "numba", "scipy", "gymnasium", "cmcts.model", "cmcts.random", "cmcts.compilation")


def model_digest(model: Model) -> str:
    """Names the problem a critic was made for: a hash of the planning model's parameters and sizes."""
    hasher = hashlib.sha256(repr((model.name, model.state_size, model.action_count, model.cost_count)).encode())
    if hasattr(model.params, "_fields"):
        for name, value in zip(model.params._fields, model.params, strict=True):
            _hash_part(name, value, hasher)
    else:
        _hash_part("params", model.params, hasher)
    return hasher.hexdigest()


def params_digest(params: Any) -> str:
    """A hash of a critic's parameters, to tell one critic from another."""
    hasher = hashlib.sha256()
    _hash_part("params", tuple(params) if isinstance(params, tuple) else params, hasher)
    return hasher.hexdigest()[:20]


def _hash_part(name: str, value: Any, hasher: Any) -> None:
    """Numbers by their bits; a plain model's other parameters by their parts, and what has none by its type."""
    value = getattr(value, "identity", value)
    if isinstance(value, dict):
        for key in sorted(value, key=repr):
            _hash_part(f"{name}.{key!r}", value[key], hasher)
        return
    try:
        array = np.ascontiguousarray(value)
    except ValueError:  # parts of different lengths
        array = np.zeros(0, object)
    if array.dtype != object:
        hasher.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        hasher.update(array.tobytes())
    elif isinstance(value, (tuple, list)):
        for index, part in enumerate(value):
            _hash_part(f"{name}.{index}", part, hasher)
    elif isinstance(value, (set, frozenset)):
        hasher.update(f"{name}:{sorted(map(repr, value))}".encode())
    else:
        hasher.update(f"{name}:{type(value).__module__}.{type(value).__qualname__}".encode())


def code_digests(model: Model) -> dict[str, str]:
    """A hash of the text of each of the model's functions, and of its action and cost names.

    A function whose text is not to be had, because it was typed into a shell, has none.
    """
    digests = {}
    for name in (*KERNEL_FUNCTIONS, *(("at_prices",) if model.at_prices else ())):
        texts: list[str] = []
        if _collect(python_function(getattr(model, name)), texts, set()):
            digests[name] = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:20]
    names = repr((tuple(model.action_names), tuple(model.cost_names)))
    return digests | {"names": hashlib.sha256(names.encode()).hexdigest()[:20]}


def changed_code(before: Mapping[str, str], model: Model) -> list[str]:
    """What of a model's code is not what it was, where both are known: names of functions, or "names"."""
    now = code_digests(model)
    return [name for name, digest in before.items() if now.get(name, digest) != digest]


def _collect(function: Any, texts: list[str], seen: set[int]) -> bool:
    """The text of a function and of all helpers and constants that it names; False if some text is not to be had."""
    if id(function) in seen:
        return True
    seen.add(id(function))
    try:
        texts.append(inspect.getsource(function).strip())
    except (OSError, TypeError):
        return False
    reachable = inspect.getclosurevars(function)
    known = True
    for name, value in sorted({**reachable.globals, **reachable.nonlocals}.items()):
        helper = python_function(value)
        if isinstance(helper, types.FunctionType):
            if not helper.__module__.startswith(_OTHERS):
                known = _collect(helper, texts, seen) and known
        elif _is_plain(value):
            texts.append(f"{name} = {value!r}")
    return known


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(part) for part in value)
    return value is None or isinstance(value, (bool, int, float, str, np.generic))
