"""A simulator's state as a few numbers: what a search keeps of a `gymnasium` environment to come back to it later.

A search knows states as rows of float64. Where an environment's state is made of numbers, the row *is* the state
(`Numbers`): nothing else is kept, and any process can go on from it. Where it is not (a whole environment that is
copied, or a state of other objects), the row is a digest of its content, and the content waits in a table
(`Copies`). Either way equal states have equal rows, so equal outcomes share a node of the tree. `content.py` says what
an environment's content is: neither its spaces nor its dice.

The table forgets what nobody holds any more. Searches and worlds tell it which rows they hold; of the others, the
latest are kept for a while.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import InvalidInput, ModelError
from cmcts.model.content import DIGEST_NUMBERS, Content, content_of

Row = NDArray[np.float64]
Environment = Any  # of Gymnasium

_EXACT = 2**53  # beyond it, not every integer is a float64


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

    def restore(self, env: Environment, row: Row, dice: np.random.Generator) -> Environment:
        """Put the environment into the state of a row, and return it; its generator is the caller's to set."""
        self.set_state(env.unwrapped, _rebuilt(self.template, iter(row.tolist())))
        return env

    save_own = save


class Copies:
    """States of any kind, in a table by the digest of their content. Without functions, all of the environment."""

    size = DIGEST_NUMBERS

    def __init__(
        self,
        get_state: Callable[[Environment], Any] | None,
        set_state: Callable[[Environment, Any], Any] | None,
        limit: int,
        ignored: tuple[str, ...] = (),
    ) -> None:
        self.get_state, self.set_state, self.limit, self.ignored = get_state, set_state, limit, ignored
        self.table: dict[bytes, tuple[Any, Content]] = {}  # oldest first
        self.holders: WeakSet[Any] = WeakSet()  # searches and worlds; each lists the rows it holds: held_states()

    def save(self, env: Environment, out: Row) -> None:
        """Keep the environment's state, and write its digest; what is known already is not copied again."""
        self._keep(env if self.get_state is None else self.get_state(env.unwrapped), out, own=False)

    def save_own(self, env: Environment, out: Row) -> None:
        """The same as `save` for an environment that nobody else will step, and that need not be copied."""
        if self.get_state is None:
            self._keep(env, out, own=True)
        else:
            self.save(env, out)

    def restore(self, env: Environment, row: Row, dice: np.random.Generator) -> Environment:
        """The environment, or a copy of the one that was kept, in that state again, and with these dice."""
        found = self.table.get(row.tobytes())
        if found is None:
            raise InvalidInput(
                "expected a state that this model's environment has been in lately, got one that is unknown or "
                "forgotten; an environment with get_state and set_state of numbers forgets nothing"
            )
        kept, content = found
        if self.set_state is None:
            return copy.deepcopy(kept, content.shared(dice))
        self.set_state(env.unwrapped, copy.deepcopy(kept, content.shared(dice)))
        return env

    def knows(self, row: Row) -> bool:
        """Whether the state that a row ends with is in the table."""
        return np.ascontiguousarray(row[-self.size :]).tobytes() in self.table

    def _keep(self, state: Any, out: Row, own: bool) -> None:
        content = content_of(state, self.ignored)
        out[:] = content.digest
        key = out.tobytes()
        if key in self.table:
            self.table[key] = self.table.pop(key)
            return
        self.table[key] = (state if own else copy.deepcopy(state, content.shared()), content)
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
    return np.ascontiguousarray(states[:, -DIGEST_NUMBERS:])


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
