"""A compiled model from functions, as short as it gets.  cmcts train examples/compiled_model.py:task"""

from typing import NamedTuple

import cmcts
from cmcts.random import uniform


class Params(NamedTuple):
    length: float
    risk: float


def start(params, rng, state):
    state[0] = 0.0


def legal_actions(params, state, out):
    out[0], out[1] = 0, 1
    return 2


def step(params, state, action, rng, next_state, costs):
    next_state[0] = state[0] + 1.0 + action
    costs[0] = 1.0 if action == 1 and uniform(rng) < params.risk else 0.0
    home = next_state[0] >= params.length
    return (10.0 if home else -1.0), home


def features(params, state, out):
    out[0] = state[0] / params.length


model = cmcts.Model("walk", Params(6.0, 0.5), step, legal_actions, features, start, 1, 2, 1)
task = cmcts.Task("walk", model, budget=0.1)
