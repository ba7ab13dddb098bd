"""RockSample's constrained optimum from both sides: proven bounds, where its countless beliefs forbid an exact answer.

Both bounds solve a problem with finitely many beliefs, exactly, by columns (columns.py).

*Lower*: no more than N readings an episode; or any number, but of the rock that one stands on, which tell the truth.
Such policies are policies of RockSample, so what the best mixture of them earns within the budget can be earned.

*Upper*: after N readings the sensor becomes better than it is. A reading then tells the truth from any distance, for
the same cost, and the first of them also reveals every rock read before. A better sensor can be made worse at will, so
for every lambda the best R - lambda C is no smaller than RockSample's, and neither is the constrained optimum.

The two differ by at most U c_hat / (N + 1), where U is the most that can be earned from any state: t being the time of
reading N + 1, the N + 1 readings cost at least (N + 1) gamma^t, so that E[gamma^t] <= c_hat / (N + 1), and all that
happens after t is worth at most E[gamma^t] U. The difference found is far smaller.

With too many rocks for the tables, the nearest ones are kept. One may ignore the others, so the lower bound stays one.
To the upper bound each other rock adds what it could earn by itself: read once, for lambda gamma^t, and sampled half of
the time, for 10 gamma^(t + 1) at best, no earlier than its d steps from the start allow. That is at most
gamma^d max(0, 5 gamma - lambda).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.envs.rocksample.model import RockSampleParams
from cmcts.errors import expect
from cmcts.exact.column_generation import Column, Mixture, Pricing, mix_columns
from cmcts.exact.finite import Floats
from cmcts.exact.rocksample.beliefs import Beliefs, list_beliefs
from cmcts.exact.rocksample.values import solve_layer, solve_perfect

CLOSED = 1e-7  # bounds this close count as equal
TABLE_LIMIT = 60_000_000  # 3^rocks times squares, in the table of the perfect sensor


class RockSampleBounds(NamedTuple):
    """The constrained optimum lies between `reward_lower`, which a policy attains, and `reward_upper`."""

    reward_lower: float
    reward_upper: float
    cost: float  # of the policy that attains the lower bound
    multiplier: float  # of the upper bound
    readings: int  # N
    states: int  # beliefs times squares that were solved


def rocksample_bounds(
    params: RockSampleParams, budget: float = 1.0, discount: float = 0.95, readings: int = 4
) -> RockSampleBounds:
    """Bounds on the constrained optimum from up to `readings` exact readings an episode.

    N grows from 0 until the bounds meet, N is `readings`, or there are too many beliefs to list.
    """
    expect(isinstance(readings, int) and readings >= 0, "readings >= 0", readings)
    expect(budget >= 0, "a budget >= 0", budget)
    params, left_out = nearest_rocks(params)
    perfect_states = 3 ** len(params.rocks) * params.n**2
    limits = np.array([float(budget)])
    lower = _on_the_spot(params, discount, limits)
    ceiling, multiplier, states, done = np.inf, 0.0, perfect_states, 0
    for count in range(readings + 1):
        beliefs = list_beliefs(params, count)
        if beliefs is None or (count > 0 and len(left_out)):
            break  # more readings would not tell more about rocks that were left out
        done = count
        states = perfect_states + sum(len(layer.beliefs) for layer in beliefs.layers) * params.n**2
        attained = mix_columns(_pricing(params, beliefs, discount, optimistic=False), limits, 1)
        lower = attained if attained.reward > lower.reward else lower
        if ceiling - lower.reward > CLOSED:
            price = _pricing(params, beliefs, discount, optimistic=True, left_out=left_out)
            # The lower bound's own multiplier often proves it optimal: one look instead of a search for the best one.
            guess = price(1.0, lower.multipliers)
            dual = guess.reward + float(lower.multipliers @ (limits - guess.costs)) if np.isfinite(budget) else np.inf
            if dual < ceiling:
                ceiling, multiplier = dual, float(lower.multipliers[0])
        if ceiling - lower.reward > CLOSED:
            upper = mix_columns(price, limits, 1)
            if upper.reward + upper.gap < ceiling:
                ceiling, multiplier = upper.reward + upper.gap, float(upper.multipliers[0])
        if ceiling - lower.reward <= CLOSED:
            break
    return RockSampleBounds(lower.reward, ceiling, float(lower.costs[0]), multiplier, done, states)


def nearest_rocks(params: RockSampleParams) -> tuple[RockSampleParams, NDArray[np.int64]]:
    """The map with as many of the rocks nearest to the start as tables have room for, and the others' distances."""
    distance = params.rocks[:, 0] + np.abs(params.rocks[:, 1] - params.start_y)
    count = len(params.rocks)
    while count > 1 and 3**count * params.n**2 > TABLE_LIMIT:
        count -= 1
    kept = np.sort(np.argsort(distance, kind="stable")[:count])
    rock_at = np.full(params.n**2, -1, np.int64)
    rock_at[params.rocks[kept, 0] * params.n + params.rocks[kept, 1]] = np.arange(count)
    reduced = params._replace(
        rocks=params.rocks[kept], rock_at=rock_at, accuracy=np.ascontiguousarray(params.accuracy[:, kept])
    )
    return reduced, np.delete(distance, kept)


def _on_the_spot(params: RockSampleParams, discount: float, budget: Floats) -> Mixture:
    """The constrained optimum among policies that read a rock only when on it, where the sensor is perfect."""
    rocks = len(params.rocks)
    values, costs = np.zeros((2, 3**rocks, params.n**2))

    def price(reward_weight: float, weights: Floats) -> Column:
        if reward_weight == 0.0:
            return _straight_out(params, discount)
        solve_perfect(params.n, params.rock_at, rocks, True, discount, float(weights[0]), values, costs)
        cost = float(costs[0, params.start_y])
        return Column(float(values[0, params.start_y]) + float(weights[0]) * cost, np.array([cost]))

    return mix_columns(price, budget, 1)


def _straight_out(params: RockSampleParams, discount: float) -> Column:
    """The cheapest policy: east, without a reading."""
    return Column(10.0 * discount ** (params.n - 1), np.zeros(1))


def _pricing(
    params: RockSampleParams,
    beliefs: Beliefs,
    discount: float,
    optimistic: bool,
    left_out: NDArray[np.int64] | None = None,
) -> Pricing:
    """The best policy of the upper bound's problem (`optimistic`) or of the lower bound's, for any lambda."""
    # A rock that was left out pays for itself while lambda < 5 gamma, and can be had no earlier than it can be reached.
    visits = 0.0 if left_out is None else float((discount**left_out).sum())
    rocks, squares = len(params.rocks), params.n**2
    shape = (3**rocks if optimistic else 1, squares)
    perfect_values, perfect_costs = np.zeros(shape), np.zeros(shape)
    tables = [np.zeros((2, len(layer.beliefs), squares)) for layer in beliefs.layers]
    start = params.start_y  # x = 0

    def price(reward_weight: float, weights: Floats) -> Column:
        if reward_weight == 0.0:
            return _straight_out(params, discount)
        multiplier = float(weights[0])
        if optimistic:
            solve_perfect(params.n, params.rock_at, rocks, False, discount, multiplier, perfect_values, perfect_costs)
        for k in reversed(range(len(tables))):
            layer, last = beliefs.layers[k], k + 1 == len(tables)
            following = tables[k] if last else tables[k + 1]
            solve_layer(
                params.n,
                params.rock_at,
                params.accuracy,
                beliefs.accuracy_class,
                beliefs.probability,
                layer.beliefs,
                layer.order,
                layer.after_sample,
                layer.after_reading,
                last and optimistic,
                discount,
                multiplier,
                perfect_values,
                perfect_costs,
                following[0],
                following[1],
                tables[k][0],
                tables[k][1],
            )
        value, cost = float(tables[0][0][0, start]), float(tables[0][1][0, start])
        extra = visits if multiplier < 5.0 * discount else 0.0
        return Column(value + multiplier * cost + 5.0 * discount * extra, np.array([cost + extra]))

    return price
