"""A simulator's state as a few numbers: what a search keeps of a `gymnasium` environment to come back to it later.

A search knows states as rows of float64. Where an environment's state is made of numbers, the row *is* the state
(`Numbers`): nothing else is kept, and any process can go on from it. Where it is not (a whole environment that is
copied, or a state of other objects), the row is a digest of its content, and the content waits in a table
(`Copies`). Either way equal states have equal rows, so equal outcomes share a node of the tree.

The table forgets what nobody holds any more. Searches and worlds tell it which rows they hold; of the others, the
latest are kept for a while.
"""

from __future__ import annotations

import copy
import hashlib
import io
import pickle
import types
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import InvalidInput, ModelError

Row = NDArray[np.float64]
Environment = Any  # of Gymnasium; planning alone does not import it

_EXACT = 2**53  # beyond it, not every integer is a float64
_DIGEST_NUMBERS = 2
_SHARED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type)


class Numbers:
    """States made of numbers: a number, an array, or tuples, lists and dictionaries of these, always of one shape."""

    def __init__(
        self,
        get_state: Callable[[Environment], Any],
        set_state: Callable[[Environment, Any], Any],
        template: Any,
    ) -> None:
        self.get_state, self.set_state, self.template = get_state, set_state, template
        self.size = len(_numbers(template))

    def save(self, env: Environment, out: Row) -> None:
        """Write the environment's state into a row."""
        numbers = _numbers(self.get_state(env.unwrapped))
        if len(numbers) != self.size:
            raise ModelError(
                f"expected get_state to give {self.size} numbers, as it did first, got {len(numbers)}; a state whose "
                "size varies can be given as one bytes or str object"
            )
        out[:] = numbers

    def restore(self, env: Environment, row: Row) -> Environment:
        """Put the environment into the state of a row, and return it."""
        self.set_state(env.unwrapped, _rebuilt(self.template, iter(row.tolist())))
        return env

    save_own = save


class Copies:
    """States of any kind, in a table by the digest of their content. Without functions, all of the environment."""

    size = _DIGEST_NUMBERS

    def __init__(
        self,
        get_state: Callable[[Environment], Any] | None,
        set_state: Callable[[Environment, Any], Any] | None,
        limit: int,
    ) -> None:
        self.get_state, self.set_state, self.limit = get_state, set_state, limit
        self.table: dict[bytes, Any] = {}  # oldest first
        self.holders: WeakSet[Any] = WeakSet()  # searches and worlds; each lists the rows it holds: held_states()

    def save(self, env: Environment, out: Row) -> None:
        """Keep the environment's state, and write its digest."""
        if self.get_state is None:
            self._keep(_without_dice(copy.deepcopy(env, _constants(env))), out)
        else:
            self._keep(copy.deepcopy(self.get_state(env.unwrapped)), out)

    def save_own(self, env: Environment, out: Row) -> None:
        """The same as `save` for an environment that nobody else will step, and that need not be copied."""
        if self.get_state is None:
            self._keep(_without_dice(env), out)
        else:
            self.save(env, out)

    def restore(self, env: Environment, row: Row) -> Environment:
        """The environment, or a copy of the one that was kept, in that state again."""
        kept = self.table.get(row.tobytes())
        if kept is None:
            raise InvalidInput(
                "expected a state that this model's environment has been in lately, got one that is unknown or "
                "forgotten; an environment with get_state and set_state of numbers forgets nothing"
            )
        if self.set_state is None:
            return copy.deepcopy(kept, _constants(kept))
        self.set_state(env.unwrapped, copy.deepcopy(kept))
        return env

    def _keep(self, content: Any, out: Row) -> None:
        out[:] = _digest(content)
        key = out.tobytes()
        self.table[key] = self.table.pop(key, content)
        if len(self.table) > self.limit:
            self._forget()

    def _forget(self) -> None:
        """Drop the older half of what nobody holds."""
        held = {row.tobytes() for holder in list(self.holders) for row in _last_columns(holder.held_states())}
        free = [key for key in self.table if key not in held]
        for key in free[: len(free) // 2]:
            del self.table[key]
        self.limit = max(self.limit, 2 * len(held))


def _last_columns(states: Row) -> Iterable[Row]:
    return np.ascontiguousarray(states[:, -_DIGEST_NUMBERS:])


def is_numbers(state: Any) -> bool:
    """Whether a state can be written as numbers and read back."""
    if isinstance(state, (tuple, list)):
        return all(is_numbers(part) for part in state)
    if isinstance(state, dict):
        return all(is_numbers(part) for part in state.values())
    if isinstance(state, np.ndarray):
        return state.dtype.kind in "biuf"
    return isinstance(state, (bool, int, float, np.bool_, np.integer, np.floating))


def _numbers(state: Any) -> list[float]:
    if isinstance(state, (tuple, list)):
        return [number for part in state for number in _numbers(part)]
    if isinstance(state, dict):
        return [number for key in sorted(state, key=repr) for number in _numbers(state[key])]
    if isinstance(state, np.ndarray):
        state = state.ravel().tolist()
        return _numbers(state) if state and isinstance(state[0], int) else state
    if isinstance(state, (int, np.integer)) and abs(int(state)) > _EXACT:
        raise ModelError(f"expected integers of at most 2^53 from get_state, got {state}")
    return [float(state)]


def _rebuilt(template: Any, numbers: Any) -> Any:
    """The numbers in the shape and the types of the template."""
    if isinstance(template, tuple) and hasattr(template, "_fields"):
        return type(template)(*(_rebuilt(part, numbers) for part in template))
    if isinstance(template, (tuple, list)):
        return type(template)(_rebuilt(part, numbers) for part in template)
    if isinstance(template, dict):
        parts = {key: _rebuilt(template[key], numbers) for key in sorted(template, key=repr)}
        return {key: parts[key] for key in template}
    if isinstance(template, np.ndarray):
        flat = [next(numbers) for _ in range(template.size)]
        return np.array(flat).astype(template.dtype).reshape(template.shape)
    return type(template)(next(numbers))


def _without_dice(env: Environment) -> Environment:
    """The environment without its random generator, which is no part of its state: it is set before every step."""
    env.unwrapped._np_random = None
    env.unwrapped._np_random_seed = None
    return env


def _constants(env: Environment) -> dict[int, Any]:
    """What copies may share, as the memory that `deepcopy` starts with."""
    inner = env.unwrapped
    parts = (inner.observation_space, inner.action_space, inner.spec)
    return {id(part): part for part in parts if part is not None}


class _ContentPickler(pickle.Pickler):
    """Code goes by its name, so that environments with local classes and functions have a content as well."""

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, _SHARED):
            return (getattr(value, "__module__", ""), getattr(value, "__qualname__", repr(type(value))))
        return None


def _digest(content: Any) -> Row:
    """Two finite numbers that tell contents apart."""
    buffer = io.BytesIO()
    try:
        _ContentPickler(buffer, protocol=5).dump(content)
    except Exception as error:  # whatever an object's own __reduce__ raises
        raise InvalidInput(
            f"cannot tell states of the environment apart ({type(error).__name__}: {error}): expected an environment "
            "with get_state and set_state, or one whose content can be pickled"
        ) from None
    words = np.frombuffer(hashlib.sha256(buffer.getvalue()).digest()[: 8 * _DIGEST_NUMBERS], np.uint64)
    return (words >> np.uint64(11)).astype(np.float64)
