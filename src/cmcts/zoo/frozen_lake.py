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


def careful_moves(table: Any, size: int) -> list[int]:
    """For each square of a lake with this `P`, the move of the least risk at once, then of the shortest way on.

    A quick guess for rollouts: random ones never arrive.
    """

    def risk_and_way(square: int, action: int) -> tuple[float, float]:
        entries = table[square][action]
        risk = sum(p for p, _, reward, end in entries if end and reward == 0)
        return risk, sum(p * (2 * (size - 1) - there // size - there % size) for p, there, _, _ in entries)

    return [min(range(4), key=partial(risk_and_way, square)) for square in range(size * size)]


def frozen_lake_task() -> Task:
    """The goal, with a budget of falls."""
    make_lake = partial(gymnasium.make, "FrozenLake-v1", map_name="8x8", max_episode_steps=500)
    lake: Any = make_lake().unwrapped
    careful = careful_moves(lake.P, SIZE)
    model = Model.tabulate(
        make_lake,
        get_state=get_state,
        set_state=set_state,
        action_names=("left", "down", "right", "up"),
        costs=fell,
        features=features,
        rollout_action=lambda square, rng: careful[square],
    )
    return Task("frozen-lake", model, budget=(BUDGET,), search=SearchSettings(discount=DISCOUNT))
