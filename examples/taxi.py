"""Gymnasium's Taxi in a town with flooded squares: all of it in tables, so that it is planned in at compiled speed.

cmcts check    examples/taxi.py:task
cmcts solve    examples/taxi.py:task --budget 0
cmcts train    examples/taxi.py:task --out runs/taxi
cmcts evaluate examples/taxi.py:task --critic runs/taxi --regret
"""

from functools import partial

import gymnasium
import numpy as np

import cmcts

FLOODED = ((1, 1), (2, 3), (3, 3))  # row, column


def place(state):
    """Row, column, passenger (4: in the taxi) and destination of one of Taxi's 500 states."""
    return state // 100, state // 20 % 5, state // 4 % 5, state % 4


def drove_through_water(before, action, after, reward, terminated, info):
    return float(place(after)[:2] in FLOODED)


def features(state):
    row, column, passenger, destination = place(state)
    return np.concatenate([[row / 4, column / 4], np.eye(5)[row], np.eye(5)[column], np.eye(5)[passenger],
                           np.eye(4)[destination]])  # fmt: skip


model = cmcts.Model.tabulate(
    partial(gymnasium.make, "Taxi-v4"),
    get_state=lambda env: int(env.s),
    set_state=lambda env, s: setattr(env, "s", s),
    action_names=("south", "north", "east", "west", "pick up", "drop off"),
    costs=drove_through_water,
    features=features,
)

task = cmcts.Task("taxi", model, budget=0.5, description="Taxi with flooded squares, each of which costs 1 to enter")
