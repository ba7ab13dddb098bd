"""Gymnasium's Taxi in a town with flooded squares, in tables, so that it is planned in at compiled speed.

State         a number; behind it the taxi's square, where the passenger is, and where to
Actions       south, north, east, west, pick up, drop off; legal as the environment says
Reward        Taxi's own: -1 a step, 20 for a passenger who arrives, -10 for one who is handled wrongly
Cost          1 for a flooded square that is driven into
End           the passenger has arrived
Start         any square, passenger and destination
Discount      0.95
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cmcts.model.interface import Model
from cmcts.tasks.task import Task

FLOODED = ((1, 1), (2, 3), (3, 3))  # row, column
BUDGET = 0.5


def place(state: int) -> tuple[int, int, int, int]:
    """Row, column, passenger (4: in the taxi) and destination of one of Taxi's 500 states."""
    return state // 100, state // 20 % 5, state // 4 % 5, state % 4


def drove_through_water(before: int, action: int, after: int, *rest: Any) -> float:
    """The cost."""
    return float(place(after)[:2] in FLOODED)


def features(state: int) -> NDArray[np.float64]:
    """Row and column as shares, then all four as so many numbers of which one is 1."""
    row, column, passenger, destination = place(state)
    marks = [np.eye(5)[row], np.eye(5)[column], np.eye(5)[passenger], np.eye(4)[destination]]
    return np.concatenate([[row / 4, column / 4], *marks])


def get_state(env: Any) -> int:
    """The number of the state that Taxi is in."""
    return int(env.s)


def set_state(env: Any, state: int) -> None:
    """Put it there."""
    env.s = state


def taxi_task() -> Task:
    """Passengers, with a budget of flooded squares."""
    model = Model.tabulate(
        partial(gymnasium.make, "Taxi-v4"),
        get_state=get_state,
        set_state=set_state,
        action_names=("south", "north", "east", "west", "pick up", "drop off"),
        costs=drove_through_water,
        features=features,
    )
    return Task("taxi", model, budget=(BUDGET,))
