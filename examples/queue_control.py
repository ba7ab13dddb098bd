"""A queue with two service speeds and an energy budget.  cmcts train examples/queue_control.py:task

A customer arrives with probability 0.4 a step and pays 1 if there is room; each one that waits costs 0.05 a step. Slow
service finishes a customer with probability 0.3 and is free, fast service with 0.6 and takes a unit of energy. After 60
steps the day is over. How much is a discounted energy of 2, 5 or 8 worth? `cmcts solve` knows: 5.529, 6.130, 6.509.
"""

from typing import NamedTuple

import numpy as np

import cmcts
from cmcts.random import uniform

SLOW, FAST = 0, 1


class Params(NamedTuple):
    room: int
    steps: int
    arrival: float
    service: np.ndarray  # [2] chance that the slow and the fast service finish a customer
    waiting: float


def start(params, rng, state):
    state[0], state[1] = 0.0, params.steps


def legal_actions(params, state, out):
    out[0], out[1] = SLOW, FAST
    return 2


def step(params, state, action, rng, next_state, costs):
    length = state[0]
    reward = -params.waiting * length
    costs[0] = 1.0 if action == FAST else 0.0
    if uniform(rng) < params.service[action] and length > 0:
        length -= 1.0
    if uniform(rng) < params.arrival and length < params.room:
        length += 1.0
        reward += 1.0
    next_state[0], next_state[1] = length, state[1] - 1.0
    return reward, next_state[1] <= 0.0


def features(params, state, out):
    out[0] = state[0] / params.room
    out[1] = state[1] / params.steps


def expected_costs(params, state, action, out):
    out[0] = 1.0 if action == FAST else 0.0


def outcomes(params, state, action):
    """All that `step` can do, for exact solutions."""
    served, arrived = np.meshgrid([0, 1], [0, 1], indexing="ij")
    chances = np.where(served, params.service[action], 1 - params.service[action])
    chances = chances * np.where(arrived, params.arrival, 1 - params.arrival)
    length = np.maximum(0, state[0] - served)
    accepted = (arrived == 1) & (length < params.room)
    states = np.stack([length + accepted, np.full((2, 2), state[1] - 1)], axis=-1).reshape(4, 2)
    rewards = (accepted - params.waiting * state[0]).ravel()
    costs = np.full((4, 1), float(action == FAST))
    return chances.ravel(), states, rewards, costs, np.full(4, state[1] <= 1)


def starts(params):
    return np.ones(1), np.array([[0.0, params.steps]])


model = cmcts.Model(
    name="queue",
    params=Params(20, 60, 0.4, np.array([0.3, 0.6]), 0.05),
    step=step,
    legal_actions=legal_actions,
    features=features,
    start=start,
    expected_costs=expected_costs,
    outcomes=outcomes,
    starts=starts,
    state_size=2,
    action_count=2,
    feature_count=2,
    action_names=("slow", "fast"),
    cost_names=("energy",),
)
task = cmcts.Task("queue", model, budget=5.0)
