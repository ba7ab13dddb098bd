"""Every outcome of every action in a table, as a compiled model: `Model.from_tables` and `Model.tabulate`.

States and actions are numbers. What can happen after action a in state s is a few rows of flat arrays, each with a
probability, a successor, a reward, costs, and whether the episode ends. An action without outcomes is not legal. Where
`tabular.py` has a random successor and certain costs, here a cost may be a matter of chance, as a fall is.

    >>> from cmcts import Model
    >>> walk = [[[0.0, 1.0], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]]  # P[s, a, s']: two states, two actions
    >>> model = Model.from_tables(walk, R=[[0.0, 1.0], [2.0, 0.0]], C=[[0.0, 0.3], [0.0, 0.0]], terminal=[0, 1])
    >>> model.legal(model.start_state()).tolist()
    [0, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.compilation.content import kernel
from cmcts.errors import InvalidInput, expect
from cmcts.model.interface import Model, no_rollout_action
from cmcts.random import uniform

_SUM_TOLERANCE = 1e-9


class Tables(NamedTuple):
    """S states, A actions, M costs and N outcomes.

    Those of (s, a) go from first[s A + a] to before first[s A + a + 1]. State number S stands for the end.
    """

    first: NDArray[np.int64]  # [S A + 1]
    successors: NDArray[np.int64]  # [N] 0 ... S
    cumulative: NDArray[np.float64]  # [N] running sums of P(s' | s, a), to 1 for each pair
    rewards: NDArray[np.float64]  # [N]
    costs: NDArray[np.float64]  # [N, M]
    mean_costs: NDArray[np.float64]  # [S, A, M] C(s, a)
    features: NDArray[np.float32]  # [S + 1, F]
    guesses: NDArray[np.int64]  # [S, G] draws of a rollout policy; G = 0 if there is none
    starts: NDArray[np.int64]  # [B]
    start_cumulative: NDArray[np.float64]  # [B] running sums of mu, to 1


@kernel
def start(params, rng, state):
    """Write a start state, drawn from mu."""
    u = uniform(rng)
    k = 0
    while k < params.starts.shape[0] - 1 and u >= params.start_cumulative[k]:
        k += 1
    state[0] = float(params.starts[k])


@kernel
def legal_actions(params, state, out):
    """Write the actions that have outcomes."""
    actions = params.mean_costs.shape[1]
    pair = int(state[0]) * actions
    count = 0
    for action in range(actions):
        if params.first[pair + action] < params.first[pair + action + 1]:
            out[count] = action
            count += 1
    return count


@kernel
def step(params, state, action, rng, next_state, costs):
    """Draw an outcome, and write what it is."""
    pair = int(state[0]) * params.mean_costs.shape[1] + action
    k, last = params.first[pair], params.first[pair + 1] - 1
    if k < last:  # what is certain needs no dice
        u = uniform(rng)
        while k < last and u >= params.cumulative[k]:
            k += 1
    for m in range(costs.shape[0]):
        costs[m] = params.costs[k, m]
    next_state[0] = float(params.successors[k])
    return params.rewards[k], params.successors[k] == params.mean_costs.shape[0]


@kernel
def features(params, state, out):
    """Write the features of the state; all 0 after the end."""
    number = int(state[0])
    for k in range(out.shape[0]):
        out[k] = params.features[number, k]


@kernel
def rollout_action(params, state, rng):
    """One of the draws of the rollout policy."""
    count = params.guesses.shape[1]
    k = 0 if count == 1 else int(uniform(rng) * count)
    return params.guesses[int(state[0]), k]


@kernel
def expected_costs(params, state, action, out):
    """Write C(s, a)."""
    for m in range(out.shape[0]):
        out[m] = params.mean_costs[int(state[0]), action, m]


def outcomes(params: Tables, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """All that can happen, as arrays."""
    pair = int(state[0]) * params.mean_costs.shape[1] + action
    rows = slice(params.first[pair], params.first[pair + 1])
    successors = params.successors[rows]
    chances = np.diff(params.cumulative[rows], prepend=0.0)
    ends = successors == len(params.mean_costs)
    return chances, successors[:, None].astype(np.float64), params.rewards[rows], params.costs[rows], ends


def starts(params: Tables) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities and states of all starts."""
    return np.diff(params.start_cumulative, prepend=0.0), params.starts[:, None].astype(np.float64)


def state_fault(params: Tables, state: NDArray[np.float64]) -> str:
    """What makes a state impossible, or "" if it is possible."""
    count = len(params.mean_costs)
    if state[0] != int(state[0]) or not 0 <= state[0] < count:
        return f"expected a state number from 0 to {count - 1}, got {state[0]}"
    return ""


def table_model(params: Tables, name: str, **more: Any) -> Model:
    """Tables as a model; `more` are fields of `Model` that tables do not know: names and the like."""
    _, actions, constraints = params.mean_costs.shape
    return Model(
        name=name,
        params=params,
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        rollout_action=rollout_action if params.guesses.shape[1] else no_rollout_action,
        expected_costs=expected_costs,
        outcomes=outcomes,
        starts=starts,
        state_fault=state_fault,
        state_size=1,
        action_count=actions,
        feature_count=params.features.shape[1],
        cost_count=constraints,
        **more,
    )


def packed(
    pair: NDArray[np.int64],  # [N] s A + a of every outcome, ascending
    chances: NDArray[np.float64],  # [N] sum 1 over each pair
    successors: NDArray[np.int64],  # [N] 0 ... S
    rewards: NDArray[np.float64],  # [N]
    costs: NDArray[np.float64],  # [N, M]
    shape: tuple[int, int],  # S, A
    features: NDArray[np.float32],  # [S, F]
    start: NDArray[np.float64],  # [S] mu
    guesses: NDArray[np.int64] | None = None,  # [S, G]
) -> Tables:
    """Outcomes one by one, in the order of their pairs, as tables."""
    states, actions = shape
    first = np.searchsorted(pair, np.arange(states * actions + 1)).astype(np.int64)
    place = np.arange(len(pair)) - first[pair]  # of each outcome among those of its pair
    cumulative = np.array(chances, np.float64)
    for k in range(1, int(place.max()) + 1):
        later = np.flatnonzero(place == k)
        cumulative[later] += cumulative[later - 1]
    cumulative = np.minimum(cumulative, 1.0)
    used = first[1:] > first[:-1]
    cumulative[first[1:][used] - 1] = 1.0  # rounding must not leave a gap
    means = np.zeros((states * actions, costs.shape[1]))
    np.add.at(means, pair, chances[:, None] * costs)
    begin = np.flatnonzero(start).astype(np.int64)
    start_cumulative = np.cumsum(start[begin])
    start_cumulative[-1] = 1.0
    return Tables(
        first=first,
        successors=successors.astype(np.int64),
        cumulative=cumulative,
        rewards=np.asarray(rewards, np.float64),
        costs=np.ascontiguousarray(costs, np.float64),
        mean_costs=means.reshape(states, actions, -1),
        features=np.vstack([features, np.zeros((1, features.shape[1]))]).astype(np.float32),
        guesses=np.zeros((states, 0), np.int64) if guesses is None else guesses,
        starts=begin,
        start_cumulative=start_cumulative,
    )


def tables_from_matrices(
    P: Any,
    R: ArrayLike,
    C: ArrayLike,
    start: ArrayLike,
    terminal: ArrayLike | None,
    legal: ArrayLike | None,
    features: ArrayLike | None,
) -> Tables:
    """What `Model.from_tables` is given, checked, as tables."""
    pairs, successors, chances, states, actions = _transitions(P)
    ends = np.zeros(states, np.bool_) if terminal is None else _marked(terminal, states)
    allowed = np.ones((states, actions), np.bool_) if legal is None else np.asarray(legal, np.bool_)
    expect(allowed.shape == (states, actions), f"legal of shape {(states, actions)}", allowed.shape)
    rewards = _by_outcome("R", R, pairs, successors, states, actions)
    costs = _by_outcome("C", C, pairs, successors, states, actions, vectors=True)
    expect(bool(np.isfinite(rewards).all()), "finite rewards in R", "NaN or infinity")
    expect(bool((np.isfinite(costs) & (costs >= 0)).all()), "finite costs >= 0 in C", "others")
    idle = ~ends & ~allowed.any(axis=1)
    expect(not idle.any(), "a legal action in every state that is not terminal", f"none in state {np.argmax(idle)}")
    kept = allowed.ravel()[pairs] & ~ends[pairs // actions]  # nothing is decided after the end
    seen = np.where(ends[np.minimum(successors, states - 1)], states, successors)
    described = np.eye(states, dtype=np.float32) if features is None else np.asarray(features, np.float32)
    expect(described.ndim == 2 and len(described) == states, f"features of shape ({states}, F)", described.shape)
    return packed(
        pairs[kept],
        chances[kept],
        seen[kept],
        rewards[kept],
        costs[kept],
        (states, actions),
        described,
        _start_chances(start, states, ends),
    )


def _transitions(P: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], int, int]:
    """Pairs, successors and probabilities of all transitions in order, and S and A; S is the end's number."""
    from scipy.sparse import csr_array, issparse

    if isinstance(P, Sequence) and P and all(issparse(matrix) for matrix in P):
        actions, states = len(P), P[0].shape[0]
        for matrix in P:
            expect(matrix.shape == (states, states), f"matrices of shape {(states, states)} in P", matrix.shape)
        by_action = [csr_array(matrix) for matrix in P]
    else:
        try:
            dense = np.asarray(P, np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("expected P as an array [S, A, S], or A sparse matrices [S, S], got neither") from None
        fits = dense.ndim == 3 and dense.shape[0] == dense.shape[2] and dense.size > 0
        expect(fits, "P of shape [S, A, S], or A sparse matrices [S, S]", dense.shape)
        states, actions = dense.shape[:2]
        by_action = [csr_array(dense[:, action]) for action in range(actions)]
    parts: list[tuple[NDArray[Any], ...]] = []
    for action, matrix in enumerate(by_action):
        rows = np.repeat(np.arange(states), np.diff(matrix.indptr))
        total = np.asarray(matrix.sum(axis=1)).ravel()
        wrong = ~np.isfinite(total) | (total > 1.0 + _SUM_TOLERANCE)
        wrong[rows[~(matrix.data >= 0)]] = True
        if wrong.any():
            state = int(np.argmax(wrong))
            raise InvalidInput(
                "expected probabilities >= 0 with a sum of at most 1 in P (what is missing ends the episode), got sum "
                f"{total[state]:g} for action {action} in state {state}"
            )
        ending = np.flatnonzero(total < 1.0 - _SUM_TOLERANCE)
        parts.append((rows * actions + action, matrix.indices, matrix.data))
        parts.append((ending * actions + action, np.full(len(ending), states), 1.0 - total[ending]))
    pairs, successors, chances = (np.concatenate([part[k] for part in parts]) for k in range(3))
    order = np.argsort(pairs, kind="stable")
    used = order[chances[order] > 0.0]
    return pairs[used].astype(np.int64), successors[used].astype(np.int64), chances[used], states, actions


def _by_outcome(
    name: str,
    values: ArrayLike,
    pairs: NDArray[np.int64],
    successors: NDArray[np.int64],
    states: int,
    actions: int,
    vectors: bool = False,
) -> NDArray[np.float64]:
    """[N] or [N, M]: a table by pair, or by pair and successor, read off for every outcome."""
    array = np.asarray(values, np.float64)
    pair_shape, full_shape = (states, actions), (states, actions, states)
    state, action = pairs // actions, pairs % actions
    if array.ndim == 3 + vectors and array.shape[:3] == full_shape:
        ended = np.minimum(successors, states - 1)
        found = array[state, action, ended]
        found[successors == states] = 0.0  # the end that P leaves open has no column of its own
    elif array.ndim in ((2, 3) if vectors else (2,)) and array.shape[:2] == pair_shape:
        found = array[state, action]
    else:
        shapes = "[S, A], [S, A, M] or [S, A, S, M]" if vectors else "[S, A] or [S, A, S]"
        raise InvalidInput(f"expected {name} of shape {shapes} with S = {states} and A = {actions}, got {array.shape}")
    return found.reshape(len(pairs), -1) if vectors else found


def _marked(terminal: ArrayLike, states: int) -> NDArray[np.bool_]:
    marks = np.asarray(terminal)
    expect(marks.shape == (states,), f"terminal with one mark for each of {states} states", marks.shape)
    return marks.astype(np.bool_)


def _start_chances(start: ArrayLike, states: int, ends: NDArray[np.bool_]) -> NDArray[np.float64]:
    """[S] mu, from a state's number or from probabilities."""
    given = np.asarray(start)
    if given.ndim == 0:
        expect(given.dtype.kind in "iu" and bool(0 <= given < states), f"a start state from 0 to {states - 1}", start)
        given = np.eye(states)[int(given)]
    expect(given.shape == (states,), f"start with one probability for each of {states} states", given.shape)
    proper = bool((given >= 0).all()) and abs(float(given.sum()) - 1.0) <= _SUM_TOLERANCE
    expect(proper, "start probabilities >= 0 with sum 1", float(given.sum()))
    expect(not bool(ends[given > 0].any()), "a start that is not terminal", "one that is")
    return np.asarray(given, np.float64)
