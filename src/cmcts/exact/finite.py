"""A constrained MDP as tables: every reachable state, every legal state-action pair, sparse transitions.

Pairs (s, a) are numbered p = 0, 1, ... in the order of their states. Row p of the transition matrix holds
P(s' | s, a); what is missing from a row's sum of 1 is the probability that the episode ends. Rewards and costs are
expectations over the outcomes, which is all that a discounted objective needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.errors import InvalidInput, ModelError, expect
from cmcts.model.interface import Model
from cmcts.model.tabular import TabularParams

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STATE_LIMIT = 200_000
_SUM_TOLERANCE = 1e-9


class TooManyStates(InvalidInput):
    """More reachable states than the limit that was set."""


@dataclass(frozen=True, eq=False)
class FiniteCMDP:
    """S states, P legal pairs, M constraints; the module's docstring says how they are numbered."""

    states: Floats  # [S, state_size] the model's own states, or their numbers
    pair_state: Integers  # [P] ascending
    pair_action: Integers  # [P]
    transition: Any  # scipy.sparse.csr_array [P, S] float64, rows sum to at most 1
    rewards: Floats  # [P] R(s, a)
    costs: Floats  # [P, M] C_m(s, a) >= 0
    start: Floats  # [S] mu
    discount: float
    action_count: int

    def __post_init__(self) -> None:
        expect(0.0 <= self.discount < 1.0, "a discount from 0 to below 1", self.discount)
        counts = np.bincount(self.pair_state, minlength=self.state_count)
        if (counts == 0).any():
            first = self.states[int(np.argmin(counts > 0))]
            raise ModelError(f"expected at least one legal action in every state, got none in state {first.tolist()}")
        expect(bool((np.diff(self.pair_state) >= 0).all()), "pairs in the order of their states", "another order")
        expect(abs(float(self.start.sum()) - 1.0) <= _SUM_TOLERANCE, "start probabilities with sum 1", self.start.sum())
        total = np.asarray(self.transition.sum(axis=1)).ravel()
        wrong = (total > 1.0 + _SUM_TOLERANCE) | ~np.isfinite(self.rewards) | ~np.isfinite(self.costs).all(axis=1)
        wrong |= (self.costs < 0).any(axis=1)
        if wrong.any():
            pair = int(np.argmax(wrong))
            raise ModelError(
                "expected probabilities with a sum of at most 1, a finite reward and finite costs >= 0, got sum "
                f"{total[pair]}, reward {self.rewards[pair]} and costs {self.costs[pair].tolist()} for action "
                f"{self.pair_action[pair]} in state {self.states[self.pair_state[pair]].tolist()}"
            )

    @property
    def state_count(self) -> int:
        """S, the number of states that can be reached."""
        return len(self.states)

    @property
    def pair_count(self) -> int:
        """P, the number of pairs of a state and an action that is legal in it."""
        return len(self.pair_state)

    @property
    def cost_count(self) -> int:
        """M, the number of constraints."""
        return int(self.costs.shape[1])

    @cached_property
    def first_pair(self) -> Integers:
        """[S] the first pair of every state."""
        return np.searchsorted(self.pair_state, np.arange(self.state_count)).astype(np.int64)

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {state.tobytes(): number for number, state in enumerate(self.states)}

    def number(self, state: ArrayLike) -> int:
        """The number of a state: its row in `states`. Raises `InvalidInput` if it cannot be reached."""
        key = (np.asarray(state, np.float64) + 0.0).tobytes()
        if key not in self._numbers:
            raise InvalidInput(f"expected a state that can be reached from the start, got {np.asarray(state).tolist()}")
        return self._numbers[key]

    def table(self, values: Floats, missing: float = 0.0) -> Floats:
        """One number a pair, [P], as a table [S, A]; `missing` where an action is not legal."""
        table = np.full((self.state_count, self.action_count), missing)
        table[self.pair_state, self.pair_action] = values
        return table

    def pairs(self, table: ArrayLike) -> Floats:
        """A table [S, A] as one number a pair, [P]."""
        array = np.asarray(table, np.float64)
        shape = (self.state_count, self.action_count)
        expect(array.shape == shape, f"a table of shape {shape}", array.shape)
        return np.asarray(array[self.pair_state, self.pair_action])

    def best(self, values: Floats) -> tuple[Floats, Integers]:
        """The largest of `values` [P] in every state, and the first pair that has it: [S], [S]."""
        top = np.maximum.reduceat(values, self.first_pair)
        candidates = np.flatnonzero(values == top[self.pair_state])
        owners = self.pair_state[candidates]
        return top, candidates[np.flatnonzero(np.diff(owners, prepend=-1))]

    @classmethod
    def from_tables(
        cls,
        transition: ArrayLike,
        rewards: ArrayLike,
        costs: ArrayLike,
        start: ArrayLike,
        discount: float,
        legal: ArrayLike | None = None,
    ) -> FiniteCMDP:
        """From dense tables: P(s' | s, a) [S, A, S], R [S, A], C [S, A, M], mu [S], and legal [S, A] if not all are."""
        from scipy.sparse import csr_array

        dense = np.asarray(transition, np.float64)
        states, actions = dense.shape[:2]
        allowed = np.ones((states, actions), np.bool_) if legal is None else np.asarray(legal, np.bool_)
        pair_state, pair_action = (index.astype(np.int64) for index in np.nonzero(allowed))
        return cls(
            states=np.arange(states, dtype=np.float64)[:, None],
            pair_state=pair_state,
            pair_action=pair_action,
            transition=csr_array(dense[pair_state, pair_action]),
            rewards=np.asarray(rewards, np.float64)[pair_state, pair_action],
            costs=np.asarray(costs, np.float64).reshape(states, actions, -1)[pair_state, pair_action],
            start=np.asarray(start, np.float64),
            discount=discount,
            action_count=actions,
        )


def enumerate_states(model: Model, discount: float, state_limit: int = STATE_LIMIT) -> FiniteCMDP:
    """List what can be reached from the model's start distribution; needs its `starts` and `outcomes`.

    Breadth first. An outcome that ends the episode leads to no state. States are told apart bit by bit.
    """
    if model.outcomes is None or model.starts is None:
        raise InvalidInput(
            f"expected model {model.name!r} to have the functions outcomes and starts, which exact solutions need, "
            f"got outcomes {model.outcomes} and starts {model.starts}"
        )
    from scipy.sparse import csr_array

    outcomes, legal_actions = model.outcomes, model.uncompiled.legal_actions
    chances, first_states = (np.asarray(part, np.float64) for part in model.starts(model.params))
    expect(abs(float(chances.sum()) - 1.0) <= _SUM_TOLERANCE, "start probabilities with sum 1", chances.sum())
    found: dict[bytes, int] = {}
    states: list[Floats] = []

    def number(state: Floats) -> int:
        key = state.tobytes()
        known = found.get(key)
        if known is None:
            if len(states) >= state_limit:
                raise TooManyStates(
                    f"expected at most {state_limit} reachable states of model {model.name!r}, got more; "
                    "simplify the model, or raise state_limit (cmcts.optimum.solve_task, in Python)"
                )
            known = found[key] = len(states)
            states.append(state)
        return known

    first = np.array([number(state + 0.0) for state in first_states])
    legal = np.zeros(model.action_count, np.int64)
    pair_state: list[int] = []
    pair_action: list[int] = []
    sizes: list[int] = []
    parts: list[tuple[Any, ...]] = []
    to_states: list[int] = []
    current = 0
    while current < len(states):
        state = states[current]
        for action in legal[: legal_actions(model.params, state, legal)].tolist():
            chance, next_states, rewards, costs, ends = outcomes(model.params, state, action)
            pair_state.append(current)
            pair_action.append(action)
            sizes.append(len(chance))
            parts.append((chance, rewards, costs, ends))
            for next_state, probability, end in zip(next_states, chance, ends, strict=True):
                to_states.append(0 if end or probability == 0.0 else number(next_state + 0.0))
        current += 1
    probability, reward, cost, end = (np.concatenate([part[k] for part in parts]) for k in range(4))
    pairs, size = len(sizes), np.array(sizes)
    edges = np.concatenate([[0], np.cumsum(size)])
    total = np.add.reduceat(probability, edges[:-1])
    wrong = (np.abs(total - 1.0) > _SUM_TOLERANCE) | (np.minimum.reduceat(probability, edges[:-1]) < 0)
    if wrong.any():
        pair = int(np.argmax(wrong))
        raise ModelError(
            f"expected outcomes of model {model.name!r} with probabilities >= 0 and sum 1, got "
            f"{probability[edges[pair] : edges[pair + 1]].tolist()} for action {model.action_name(pair_action[pair])} "
            f"in state {states[pair_state[pair]].tolist()}"
        )
    transition = csr_array(
        (np.where(end, 0.0, probability), np.array(to_states, np.int64), edges.copy()), shape=(pairs, len(states))
    )
    transition.sum_duplicates()
    transition.eliminate_zeros()
    start = np.zeros(len(states))
    np.add.at(start, first, chances)
    return FiniteCMDP(
        states=np.stack(states),
        pair_state=np.array(pair_state, np.int64),
        pair_action=np.array(pair_action, np.int64),
        transition=transition,
        rewards=np.add.reduceat(probability * reward, edges[:-1]),
        costs=np.add.reduceat(probability[:, None] * cost.reshape(len(probability), -1), edges[:-1]),
        start=start,
        discount=discount,
        action_count=model.action_count,
    )


def tabular_cmdp(params: TabularParams, discount: float) -> FiniteCMDP:
    """The same tables for the exact solver, without listing states one by one."""
    from scipy.sparse import csr_array

    states, actions, successors = params.successors.shape
    pairs = states * actions
    probabilities = np.diff(params.cumulative, axis=2, prepend=0.0)
    rows = np.arange(0, pairs * successors + 1, successors)
    transition = csr_array((probabilities.ravel(), params.successors.ravel().copy(), rows), shape=(pairs, states))
    transition.sum_duplicates()
    return FiniteCMDP(
        states=np.arange(states, dtype=np.float64)[:, None],
        pair_state=np.repeat(np.arange(states), actions),
        pair_action=np.tile(np.arange(actions), states),
        transition=transition,
        rewards=params.rewards.ravel(),
        costs=params.costs.reshape(pairs, -1),
        start=np.diff(params.start_cumulative, prepend=0.0),
        discount=discount,
        action_count=actions,
    )
