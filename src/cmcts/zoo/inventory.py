"""Inventory control: as little stock and as few orders as possible, while few sales are lost.

The textbook's periodic review with lost sales. An order arrives at once; then customers come, a Poisson number with
mean 3 a week, and those who find nothing go elsewhere. 60 customers come in all, discounted, so that a budget of 3 lost
sales is a fill rate of 95 %.

State         items in stock, 0 to 20
Actions       how many to order, 0 to 6; what does not fit is not legal
Reward        -0.5 for an order, -0.2 for each item that is left at the end of the week
Costs         1 for each lost sale; in the second task also 1 for an order
End           never
Start         10 items
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

MOST_ORDERED = 6
LOST_BUDGET = 3.0
ORDER_BUDGET = 9.0
_MOST_DEMANDED = 15  # a week with more customers comes once in 10 million


class InventoryParams(NamedTuple):
    """Sizes, prices and demand of one shop."""

    room: int
    start: int
    order: float  # what an order costs, whatever its size
    holding: float  # what an item costs that is left at the end of the week
    demand: NDArray[np.float64]  # [D] the chance of 0, 1, ... customers; sum 1


def poisson(mean: float, most: int = _MOST_DEMANDED) -> NDArray[np.float64]:
    """[most + 1] chances of a Poisson number, where what is beyond the last counts as the last."""
    chances = np.ones(most + 1)
    chances[1:] = np.cumprod(mean / np.arange(1, most + 1))
    chances *= np.exp(-mean)
    chances[-1] += 1.0 - chances.sum()
    return chances


@kernel
def start(params, rng, state):
    """Write the first stock."""
    state[0] = params.start


@kernel
def legal_actions(params, state, out):
    """Write the orders that there is room for."""
    count = int(min(MOST_ORDERED, params.room - state[0])) + 1
    for order in range(count):
        out[order] = order
    return count


@kernel
def step(params, state, action, rng, next_state, costs):
    """Receive the order, then sell."""
    u, demand = uniform(rng), 0
    while demand < params.demand.shape[0] - 1 and u >= params.demand[demand]:
        u -= params.demand[demand]
        demand += 1
    left = max(0.0, state[0] + action - demand)
    costs[0] = max(0.0, demand - state[0] - action)
    if costs.shape[0] > 1:
        costs[1] = 1.0 if action > 0 else 0.0
    next_state[0] = left
    return -params.holding * left - (params.order if action > 0 else 0.0), False


@kernel
def features(params, state, out):
    """Write the stock as a share, and how low it is."""
    out[0] = state[0] / params.room
    for k in range(1, out.shape[0]):
        out[k] = 1.0 if state[0] < k else 0.0


@kernel
def expected_costs(params, state, action, out):
    """Write the mean of the lost sales, and whether there is an order."""
    out[0] = 0.0
    for demand in range(params.demand.shape[0]):
        out[0] += params.demand[demand] * max(0.0, demand - state[0] - action)
    if out.shape[0] > 1:
        out[1] = 1.0 if action > 0 else 0.0


def outcomes(params: InventoryParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """All that `step` can do, for exact solutions."""
    demand = np.arange(len(params.demand))
    left = np.maximum(0.0, state[0] + action - demand)
    lost = np.maximum(0.0, demand - state[0] - action)
    rewards = -params.holding * left - (params.order if action > 0 else 0.0)
    costs = np.stack([lost, np.full(len(demand), float(action > 0))], axis=-1)
    return params.demand, left[:, None], rewards, costs, np.zeros(len(demand), np.bool_)


def lost_outcomes(params: InventoryParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """The same without the number of orders."""
    chances, states, rewards, costs, ends = outcomes(params, state, action)
    return chances, states, rewards, costs[:, :1], ends


def starts(params: InventoryParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The one start."""
    return np.ones(1), np.array([[float(params.start)]])


def lost_sales_task() -> Task:
    """Cheap shelves with a budget of lost sales."""
    return Task("inventory", _model("inventory", ("lost sales",)), budget=(LOST_BUDGET,))


def orders_task() -> Task:
    """The same with a budget of orders."""
    return Task("inventory-two", _model("inventory-two", ("lost sales", "orders")), budget=(LOST_BUDGET, ORDER_BUDGET))


def _model(name: str, costs: tuple[str, ...]) -> Model:
    return Model(
        name=name,
        params=InventoryParams(room=20, start=10, order=0.5, holding=0.2, demand=poisson(3.0)),
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        expected_costs=expected_costs,
        outcomes=outcomes if len(costs) == 2 else lost_outcomes,
        starts=starts,
        state_size=1,
        action_count=MOST_ORDERED + 1,
        feature_count=11,
        cost_count=len(costs),
        action_names=tuple(f"order {count}" for count in range(MOST_ORDERED + 1)),
        cost_names=costs,
    )
