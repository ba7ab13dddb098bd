"""Tables as a model: states, actions and successors by number."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import kernel
from cmcts.model.interface import Model
from cmcts.random import uniform


class TabularParams(NamedTuple):
    """S states, A actions, K successors of every pair; a row of `cumulative` that ends below 1 may end the episode."""

    successors: NDArray[np.int64]  # [S, A, K]
    cumulative: NDArray[np.float64]  # [S, A, K] running sums of P(s' | s, a)
    rewards: NDArray[np.float64]  # [S, A]
    costs: NDArray[np.float64]  # [S, A, M]
    start_cumulative: NDArray[np.float64]  # [S] running sums of mu


@kernel
def start(params, rng, state):
    """Write a start state, drawn from mu."""
    u = uniform(rng)
    last = params.start_cumulative.shape[0] - 1
    number = 0
    while number < last and u >= params.start_cumulative[number]:
        number += 1
    state[0] = float(number)


@kernel
def legal_actions(params, state, out):
    """Write all actions: each is legal everywhere."""
    for action in range(params.rewards.shape[1]):
        out[action] = action
    return params.rewards.shape[1]


@kernel
def step(params, state, action, rng, next_state, costs):
    """Pay, earn, and draw a successor; what probability they leave ends the episode, in state number S."""
    number = int(state[0])
    for m in range(costs.shape[0]):
        costs[m] = params.costs[number, action, m]
    next_state[0] = float(params.rewards.shape[0])
    u = uniform(rng)
    for k in range(params.successors.shape[2]):
        if u < params.cumulative[number, action, k]:
            next_state[0] = float(params.successors[number, action, k])
            return params.rewards[number, action], False
    return params.rewards[number, action], True


@kernel
def features(params, state, out):
    """Write which state it is: S numbers, all 0 but one, or all 0 after the end."""
    for number in range(out.shape[0]):
        out[number] = 1.0 if number == state[0] else 0.0


@kernel
def expected_costs(params, state, action, out):
    """Write C(s, a); the costs of a table are certain."""
    for m in range(out.shape[0]):
        out[m] = params.costs[int(state[0]), action, m]


def outcomes(params: TabularParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """The successors of a pair, and the end if it is possible, as arrays."""
    number = int(state[0])
    cumulative = params.cumulative[number, action]
    count = len(cumulative) + 1
    probabilities, next_states = np.empty(count), np.empty((count, 1))
    probabilities[0], probabilities[-1] = cumulative[0], 1.0 - cumulative[-1]
    probabilities[1:-1] = cumulative[1:] - cumulative[:-1]
    next_states[:-1, 0], next_states[-1, 0] = params.successors[number, action], len(params.rewards)
    ends = np.zeros(count, np.bool_)
    ends[-1] = True
    costs = np.broadcast_to(params.costs[number, action], (count, params.costs.shape[2]))
    return probabilities, next_states, np.full(count, params.rewards[number, action]), costs, ends


def starts(params: TabularParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities and states of all starts: those that have a probability in mu."""
    chances = np.diff(params.start_cumulative, prepend=0.0)
    states = np.flatnonzero(chances)
    return chances[states], states[:, None].astype(np.float64)


def state_fault(params: TabularParams, state: NDArray[np.float64]) -> str:
    """What makes a state impossible, or "" if it is possible."""
    count = len(params.rewards)
    if state[0] != int(state[0]) or not 0 <= state[0] < count:
        return f"expected a state number from 0 to {count - 1}, got {state[0]}"
    return ""


def tabular_model(params: TabularParams, name: str = "tabular") -> Model:
    """Tables as a model that planners can simulate; the state is its number."""
    states, actions = params.rewards.shape
    return Model(
        name=name,
        params=params,
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        expected_costs=expected_costs,
        outcomes=outcomes,
        starts=starts,
        state_fault=state_fault,
        state_size=1,
        action_count=actions,
        feature_count=states,
        cost_count=params.costs.shape[2],
        feature_description="one number for each state: 1 for the current one, else 0",
    )
