"""Gymnasium's FrozenLake with its default slip: to the goal, and seldom into a hole.

On this ice one move in three goes where it was meant to, the others to either side. The map is the environment's own of
8 x 8 squares. Crossing it takes a hundred steps and more, so that episodes are cut after 500 and not after 100.

State         a number; behind it row and column
Actions       left, down, right, up
Reward        1 at the goal
Cost          1 in a hole
End           at the goal, or in a hole
Discount      0.99
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cmcts.model.interface import Model
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import Task
from cmcts.zoo.taxi import get_state, set_state

SIZE = 8
BUDGET = 0.01
DISCOUNT = 0.99


def fell(before: int, action: int, after: int, reward: float, terminated: bool, info: Any) -> float:
    """The cost: an end without a reward is a hole."""
    return float(terminated and reward == 0)


def features(square: int) -> NDArray[np.float64]:
    """Row and column, each as so many numbers of which one is 1."""
    return np.concatenate([np.eye(SIZE)[square // SIZE], np.eye(SIZE)[square % SIZE]])


def frozen_lake_task() -> Task:
    """The goal, with a budget of falls."""
    model = Model.tabulate(
        partial(gymnasium.make, "FrozenLake-v1", map_name="8x8", max_episode_steps=500),
        get_state=get_state,
        set_state=set_state,
        action_names=("left", "down", "right", "up"),
        costs=fell,
        features=features,
    )
    return Task("frozen-lake", model, budget=(BUDGET,), search=SearchSettings(discount=DISCOUNT))
