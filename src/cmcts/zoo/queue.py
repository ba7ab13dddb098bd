"""A queue with two service speeds and an energy budget.

A customer arrives with probability 0.4 a step and pays 1 if there is room; each one that waits costs 0.05 a step. Slow
service finishes a customer with probability 0.3 and is free, fast service with 0.6 and takes a unit of energy. After 60
steps the day is over.

State         customers waiting, 0 to 20, and steps left
Actions       slow, fast
Reward        1 for a customer who comes in, -0.05 for each who waits
Costs         1 for a step of fast service; in the second task 1 more for one of the first 20,
              when energy is scarce
End           after 60 steps
Start         an empty queue
Discount      0.95
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import kernel
from cmcts.model.interface import Model
from cmcts.random import uniform
from cmcts.tasks.task import Task

SLOW, FAST = 0, 1
ENERGY_BUDGET = 5.0
PEAK_BUDGET = 1.0


class QueueParams(NamedTuple):
    """Sizes and chances of one queue."""

    room: int
    steps: int
    arrival: float
    service: NDArray[np.float64]  # [2] chance that the slow and the fast service finish a customer
    waiting: float
    peak: int  # energy is scarce in so many steps of the morning


@kernel
def start(params, rng, state):
    """Write an empty queue in the morning."""
    state[0], state[1] = 0.0, params.steps


@kernel
def legal_actions(params, state, out):
    """Write both speeds."""
    out[0], out[1] = SLOW, FAST
    return 2


@kernel
def expected_costs(params, state, action, out):
    """Write the energy, and that of the morning."""
    out[0] = 1.0 if action == FAST else 0.0
    if out.shape[0] > 1:
        out[1] = out[0] if params.steps - state[1] < params.peak else 0.0


@kernel
def step(params, state, action, rng, next_state, costs):
    """Serve, then let a customer in."""
    length = state[0]
    reward = -params.waiting * length
    costs[0] = 1.0 if action == FAST else 0.0
    if costs.shape[0] > 1:
        costs[1] = costs[0] if params.steps - state[1] < params.peak else 0.0
    if uniform(rng) < params.service[action] and length > 0:
        length -= 1.0
    if uniform(rng) < params.arrival and length < params.room:
        length += 1.0
        reward += 1.0
    next_state[0], next_state[1] = length, state[1] - 1.0
    return reward, next_state[1] <= 0.0


@kernel
def features(params, state, out):
    """Write both numbers as shares."""
    out[0] = state[0] / params.room
    out[1] = state[1] / params.steps


def outcomes(params: QueueParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """All that `step` can do, for exact solutions."""
    served, arrived = np.meshgrid([0, 1], [0, 1], indexing="ij")
    chances = np.where(served, params.service[action], 1 - params.service[action])
    chances = chances * np.where(arrived, params.arrival, 1 - params.arrival)
    length = np.maximum(0, state[0] - served)
    accepted = (arrived == 1) & (length < params.room)
    states = np.stack([length + accepted, np.full((2, 2), state[1] - 1)], axis=-1).reshape(4, 2)
    rewards = (accepted - params.waiting * state[0]).ravel()
    energy = float(action == FAST)
    costs = np.tile([energy, energy * (params.steps - state[1] < params.peak)], (4, 1))
    return chances.ravel(), states, rewards, costs, np.full(4, state[1] <= 1)


def energy_outcomes(params: QueueParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """The same without the morning's."""
    chances, states, rewards, costs, ends = outcomes(params, state, action)
    return chances, states, rewards, costs[:, :1], ends


def starts(params: QueueParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The one start."""
    return np.ones(1), np.array([[0.0, params.steps]])


def queue_task() -> Task:
    """Customers with a budget of energy."""
    return Task("queue", _model("queue", ("energy",)), budget=(ENERGY_BUDGET,))


def peak_task() -> Task:
    """The same with a budget for the morning as well."""
    return Task("queue-two", _model("queue-two", ("energy", "peak energy")), budget=(ENERGY_BUDGET, PEAK_BUDGET))


def _model(name: str, costs: tuple[str, ...]) -> Model:
    return Model(
        name=name,
        params=QueueParams(room=20, steps=60, arrival=0.4, service=np.array([0.3, 0.6]), waiting=0.05, peak=20),
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        expected_costs=expected_costs,
        outcomes=outcomes if len(costs) == 2 else energy_outcomes,
        starts=starts,
        state_size=2,
        action_count=2,
        feature_count=2,
        cost_count=len(costs),
        action_names=("slow", "fast"),
        cost_names=costs,
    )
