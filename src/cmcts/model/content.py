"""What an environment, or any object, is made of, as a digest that tells contents apart.

Equal contents have equal digests, in every process and whatever was copied from what: objects count by their class and
attributes, code by its name. Three things count for nothing, because a simulation does not go on from them: spaces and
specifications, which describe an environment and never change, and random generators, which are loaded before every
step. Copies share the former, and have the simulation's dice in place of the latter.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Space
from numpy.typing import NDArray

from cmcts.errors import InvalidInput

DIGEST_NUMBERS = 2
_ATOMS = (type(None), bool, int, str, bytes, complex)
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type)
_DICE_ATTRIBUTES = ("_np_random", "_np_random_seed")  # Gymnasium's own; unset until an environment first draws


@dataclass(frozen=True)
class Content:
    """The digest of an object, and those of its parts that are no part of its content."""

    digest: NDArray[np.float64]  # [2] finite
    constants: tuple[Any, ...]  # spaces and specifications
    generators: tuple[Any, ...]

    def shared(self, dice: np.random.Generator | None = None) -> dict[int, Any]:
        """For `copy.deepcopy`: copies share constants, and have `dice` for generators, or the very same ones."""
        memory = {id(part): part for part in (*self.constants, *self.generators)}
        if dice is not None:
            memory |= {id(part): _as_kind(part, dice) for part in self.generators}
        return memory


def content_of(value: Any, ignored: tuple[str, ...] = ()) -> Content:
    """The content of a value, but for attributes of some names; `InvalidInput` if a part of it cannot be read."""
    walk = _Walk(ignored)
    try:
        walk.visit(value)
    except Exception as error:  # whatever an object's own __reduce__ raises
        raise InvalidInput(
            f"cannot tell states of the environment apart ({type(error).__name__}: {error}): expected an environment "
            "with get_state and set_state, or one whose content can be pickled"
        ) from None
    words = np.frombuffer(walk.hasher.digest()[: 8 * DIGEST_NUMBERS], np.uint64)
    return Content((words >> np.uint64(11)).astype(np.float64), tuple(walk.constants), tuple(walk.generators))


def _as_kind(generator: Any, dice: np.random.Generator) -> Any:
    """The same dice in the class of the generator that they replace."""
    return np.random.RandomState(dice.bit_generator) if isinstance(generator, np.random.RandomState) else dice


class _Walk:
    """Feeds a hash with what it meets. What it meets again counts by its place, so that circles end."""

    def __init__(self, ignored: tuple[str, ...]) -> None:
        self.ignored = (*_DICE_ATTRIBUTES, *ignored)
        self.hasher = hashlib.sha256()
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # an id is only an object's own while it lives
        self.constants: list[Any] = []
        self.generators: list[Any] = []

    def tag(self, *words: str) -> None:
        self.hasher.update("\x1f".join(words).encode("utf-8", "surrogatepass") + b"\x1e")

    def visit(self, value: Any) -> None:
        if isinstance(value, (np.bool_, np.integer, np.floating)):
            value = value.item()  # a number is a number, whoever made it
        kind = type(value)
        if kind is float:
            self.tag("float", repr(value + 0.0))  # the two zeros are one number
        elif kind in _ATOMS:
            self.tag(kind.__name__, repr(value))
        elif isinstance(value, np.ndarray) and value.dtype != object:
            array = np.ascontiguousarray(value + 0.0 if value.dtype.kind == "f" else value)
            self.tag("array", array.dtype.str, repr(value.shape))
            self.hasher.update(array.tobytes())
        elif isinstance(value, _CODE):
            self.tag("code", getattr(value, "__module__", "") or "", getattr(value, "__qualname__", repr(kind)))
        elif id(value) in self.seen:
            self.tag("again", str(self.seen[id(value)]))
        elif kind is tuple:  # without a place: equal ones may or may not be the same
            self.visit_all("tuple", value)
        else:
            self.seen[id(value)] = len(self.seen)
            self.alive.append(value)
            self.visit_part(value, kind)

    def visit_part(self, value: Any, kind: type) -> None:
        if isinstance(value, (Space, EnvSpec)):
            self.constants.append(value)
        elif isinstance(value, (np.random.Generator, np.random.RandomState)):
            self.generators.append(value)
        elif kind is list:
            self.visit_all("list", value)
        elif kind is dict:
            self.visit_all("dict", [part for pair in value.items() for part in pair])
        elif kind in (set, frozenset):
            self.tag("set", *sorted(repr(content_of(part, self.ignored).digest.tolist()) for part in value))
        else:
            self.visit_object(value, kind)

    def visit_all(self, kind: str, parts: Any) -> None:
        self.tag(kind, str(len(parts)))
        for part in parts:
            self.visit(part)

    def visit_object(self, value: Any, kind: type) -> None:
        """By what it would be pickled as: how it is made, its attributes, its items."""
        self.tag("object", kind.__module__, kind.__qualname__)
        reduced = value.__reduce_ex__(4)
        if isinstance(reduced, str):
            self.tag("global", reduced)
            return
        self.alive.append(reduced)
        make, arguments, state, items, pairs = [*reduced, None, None, None][:5]
        self.visit(make)
        self.visit(arguments)
        for attributes in state if isinstance(state, tuple) else (state,):
            if isinstance(attributes, dict) and all(isinstance(name, str) for name in attributes):
                self.visit_attributes(attributes)
            else:
                self.visit(attributes)
        for parts in (items, pairs):
            self.visit_all("items", [] if parts is None else list(_kept(parts, self.alive)))

    def visit_attributes(self, attributes: dict[str, Any]) -> None:
        """In the order of their names: in which order they were set is not content."""
        for name in sorted(attributes):
            if name not in self.ignored:
                self.tag("attribute", name)
                self.visit(attributes[name])
            elif name == _DICE_ATTRIBUTES[0] and attributes[name] is not None:
                self.generators.append(attributes[name])


def _kept(parts: Iterable[Any], alive: list[Any]) -> Iterable[Any]:
    """The same parts, which live on: they may have been made just now."""
    for part in parts:
        alive.append(part)
        yield part
