"""A constrained MDP as tables: every reachable state, every legal state-action pair, sparse transitions.

Pairs (s, a) are numbered p = 0, 1, ... in the order of their states. Row p of the transition matrix holds
P(s' | s, a); what is missing from a row's sum of 1 is the probability that the episode ends. Rewards and costs are
expectations over the outcomes, which is all that a discounted objective needs.

Rewards and costs may have discounts of their own, and 1 is one where every policy's episodes end. If they differ, the
best policy depends on time, so each state must belong to one step of the episode: `with_time` makes such models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.errors import InvalidInput, ModelError, expect, shown
from cmcts.model.interface import Model
from cmcts.model.tabular import TabularParams
from cmcts.model.timed import without_time

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
    cost_discounts: tuple[float, ...] = ()  # [M]; none given: that of the reward

    def __post_init__(self) -> None:
        costs = self.cost_discounts or (self.discount,) * self.cost_count
        object.__setattr__(self, "cost_discounts", costs)
        expect(0.0 <= self.discount <= 1.0, "a discount from 0 to 1", self.discount)
        fits = len(costs) == self.cost_count and all(0.0 <= discount <= 1.0 for discount in costs)
        expect(fits, f"{self.cost_count} discounts of costs from 0 to 1", costs)
        counts = np.bincount(self.pair_state, minlength=self.state_count)
        if (counts == 0).any():
            first = self.states[int(np.argmin(counts > 0))]
            raise ModelError(f"expected at least one legal action in every state, got none in state {shown(first)}")
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
                f"{self.pair_action[pair]} in state {shown(self.states[self.pair_state[pair]])}"
            )
        if not self.same_discounts and (self.times is None or self.discount == 0.0):
            raise InvalidInput(
                "expected one discount for reward and costs, or time in the state (cmcts.with_time, "
                f"Task(episode_steps=...)), got {self.discount} for the reward and {costs} for the costs"
            )
        if self.discount == 1.0 and self.times is None:
            self._refuse_endless_episodes()

    def _refuse_endless_episodes(self) -> None:
        """Without discount, every policy must come to an end: no states among which some policy can stay for ever."""
        staying = np.asarray(self.transition.sum(axis=1)).ravel() >= 1.0 - _SUM_TOLERANCE  # [P]
        able = np.ones(self.state_count, np.bool_)
        while able.any():
            leaving = self.transition @ (~able).astype(np.float64)
            still = np.logical_or.reduceat(staying & (leaving <= 0.0), self.first_pair)
            if (still == able).all():
                state = shown(self.states[int(np.argmax(able))])
                raise InvalidInput(
                    "expected a discount below 1, or episodes that end whatever the policy, got 1 and state "
                    f"{state}, from where they can go on for ever"
                )
            able = still

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

    @property
    def same_discounts(self) -> bool:
        """Whether all costs have the discount of the reward."""
        return set(self.cost_discounts) <= {self.discount}

    @cached_property
    def times(self) -> Integers | None:
        """[S] the step of the episode that each state belongs to, in ascending order, or None if some have several."""
        times = np.full(self.state_count, -1)
        level, time = np.flatnonzero(self.start > 0.0), 0
        pairs_of = np.append(self.first_pair, self.pair_count)
        while len(level):
            if (times[level] >= 0).any():
                return None
            times[level] = time
            pairs = np.concatenate([np.arange(pairs_of[s], pairs_of[s + 1]) for s in level.tolist()])
            level, time = np.unique(self.transition[pairs].indices), time + 1
        return times if (times >= 0).all() and (np.diff(times) >= 0).all() else None

    @cached_property
    def cost_weights(self) -> Floats:
        """[P, M] gamma_m^t / gamma^t: what a cost counts beside a reward at the time of a pair."""
        if self.same_discounts:
            return np.ones((self.pair_count, self.cost_count))
        return self.powers(np.array(self.cost_discounts) / self.discount)

    def powers(self, factors: ArrayLike) -> Floats:
        """[P, K] factors [K] to the power of the time of each pair, where every state has one."""
        assert self.times is not None
        return np.asarray(np.asarray(factors, np.float64) ** self.times[self.pair_state][:, None])

    @cached_property
    def levels(self) -> list[tuple[slice, slice]] | None:
        """The states and the pairs of every step of the episode, in order; None if states have no time."""
        if self.times is None:
            return None
        states = np.append(np.flatnonzero(np.diff(self.times, prepend=-1)), self.state_count)
        pairs = np.append(self.first_pair, self.pair_count)[states]
        spans = zip(pairwise(states.tolist()), pairwise(pairs.tolist()), strict=True)
        return [(slice(*of_states), slice(*of_pairs)) for of_states, of_pairs in spans]

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
            raise InvalidInput(f"expected a state that can be reached from the start, got {shown(np.asarray(state))}")
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
        cost_discounts: tuple[float, ...] = (),
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
            cost_discounts=cost_discounts,
        )


def enumerate_states(
    model: Model,
    discount: float,
    state_limit: int = STATE_LIMIT,
    cost_discounts: tuple[float, ...] = (),
) -> FiniteCMDP:
    """List what can be reached from the model's start distribution; needs its `starts` and `outcomes`.

    Breadth first. An outcome that ends the episode leads to no state. States are told apart bit by bit.
    """
    if model.untimed is None:
        return _listed(model, discount, state_limit, cost_discounts)
    listed = _listed(without_time(model), 0.0, state_limit, (), model.params.steps)
    return _unrolled(listed, model, discount, state_limit, cost_discounts)


def _listed(
    model: Model,
    discount: float,
    state_limit: int,
    cost_discounts: tuple[float, ...],
    steps: float = math.inf,
) -> FiniteCMDP:
    """What can be reached within a number of steps; what comes after them counts as the end."""
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
    depths: list[int] = []  # after how many steps each state is first reached

    def number(state: Floats, depth: int) -> int:
        """The number of a state, or -1 if it is reached too late to matter."""
        key = state.tobytes()
        known = found.get(key)
        if known is None and depth >= steps:
            return -1
        if known is None:
            if len(states) >= state_limit:
                raise TooManyStates(
                    f"expected at most {state_limit} reachable states of model {model.name!r}, got more; "
                    "simplify the model, or raise state_limit (cmcts.optimum.solve_task, in Python)"
                )
            known = found[key] = len(states)
            states.append(state)
            depths.append(depth)
        return known

    first = np.array([number(state + 0.0, 0) for state in first_states])
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
            parts.append((chance, rewards, costs))
            for next_state, probability, end in zip(next_states, chance, ends, strict=True):
                ended = end or probability == 0.0
                to_states.append(-1 if ended else number(next_state + 0.0, depths[current] + 1))
        current += 1
    probability, reward, cost = (np.concatenate([part[k] for part in parts]) for k in range(3))
    pairs, size = len(sizes), np.array(sizes)
    edges = np.concatenate([[0], np.cumsum(size)])
    total = np.add.reduceat(probability, edges[:-1])
    wrong = (np.abs(total - 1.0) > _SUM_TOLERANCE) | (np.minimum.reduceat(probability, edges[:-1]) < 0)
    if wrong.any():
        pair = int(np.argmax(wrong))
        raise ModelError(
            f"expected outcomes of model {model.name!r} with probabilities >= 0 and sum 1, got "
            f"{probability[edges[pair] : edges[pair + 1]].tolist()} for action {model.action_name(pair_action[pair])} "
            f"in state {shown(states[pair_state[pair]])}"
        )
    to = np.array(to_states, np.int64)
    transition = csr_array(
        (np.where(to < 0, 0.0, probability), np.maximum(to, 0), edges.copy()), shape=(pairs, len(states))
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
        cost_discounts=cost_discounts,
    )


def _unrolled(
    listed: FiniteCMDP, model: Model, discount: float, state_limit: int, cost_discounts: tuple[float, ...]
) -> FiniteCMDP:
    """Time added to the tables of a model without it: what can be reached at each step, step after step."""
    from scipy.sparse import csr_array

    steps = int(model.params.steps)
    states: list[Floats] = []
    pairs_at: list[Integers] = []
    pair_state: list[Integers] = []
    lengths: list[Integers] = []
    columns: list[Integers] = []
    chances: list[Floats] = []
    here, offset = np.flatnonzero(listed.start > 0.0), 0
    first = here
    for left in range(steps, 0, -1):
        if offset + len(here) > state_limit:
            raise TooManyStates(
                f"expected at most {state_limit} reachable states of model {model.name!r}, got more; "
                "simplify the model, shorten its episodes, or raise state_limit (cmcts.optimum.solve_task, in Python)"
            )
        states.append(np.column_stack([listed.states[here], np.full(len(here), float(left))]))
        pairs = np.flatnonzero(np.isin(listed.pair_state, here))
        pairs_at.append(pairs)
        pair_state.append(offset + np.searchsorted(here, listed.pair_state[pairs]))
        offset += len(here)
        rows = listed.transition[pairs]
        if left > 1:
            here = np.unique(rows.indices)
            lengths.append(np.diff(rows.indptr))
            columns.append(offset + np.searchsorted(here, rows.indices))
            chances.append(rows.data)
        else:
            lengths.append(np.zeros(len(pairs), np.int64))
        if not len(here):  # all episodes have ended before their time
            break
    order = np.concatenate(pairs_at)
    edges = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    indices, data = (np.concatenate(part) if part else np.zeros(0) for part in (columns, chances))
    start = np.zeros(offset)
    start[: len(first)] = listed.start[first]
    return FiniteCMDP(
        states=np.concatenate(states),
        pair_state=np.concatenate(pair_state).astype(np.int64),
        pair_action=listed.pair_action[order],
        transition=csr_array((data, indices.astype(np.int64), edges), shape=(len(order), offset)),
        rewards=listed.rewards[order],
        costs=listed.costs[order],
        start=start,
        discount=discount,
        action_count=listed.action_count,
        cost_discounts=cost_discounts,
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
