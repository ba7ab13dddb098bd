"""RockSample's constrained optimum from both sides: proven bounds, where its countless beliefs forbid an exact answer.

Both bounds solve a problem with finitely many beliefs, exactly, by the same columns as `cmcts.exact`.

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

Positions and beliefs are kept apart. Between two events (reading, sampling, leaving) only the position changes, so with
J(q) the value of the best event on square q and |p - q| the distance in steps,

    V(p) = max_q gamma^|p - q| J(q).

Two facts shrink the problem without changing its value: sampling a rock with P(good) <= 1/2 earns nothing and only
loses time, and so does reading a rock that is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cmcts.envs.rocksample import RockSampleParams
from cmcts.errors import expect
from cmcts.exact import Column, Mixture, mix_columns
from cmcts.finite import Floats

UNREAD, GOOD, GONE = 0, 1, 2  # belief numbers; GONE: collected, or known to be bad. From 3 on: anything in between
STATE_LIMIT = 60_000_000  # beliefs times squares, in any table
CLOSED = 1e-7  # bounds this close count as equal


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
        attained = _bound(params, beliefs, discount, limits, optimistic=False)
        lower = attained if attained.reward > lower.reward else lower
        if ceiling - lower.reward > CLOSED:
            upper = _bound(params, beliefs, discount, limits, optimistic=True, left_out=left_out)
            if upper.reward + upper.gap < ceiling:
                ceiling, multiplier = upper.reward + upper.gap, float(upper.multipliers[0])
        if ceiling - lower.reward <= CLOSED:
            break
    return RockSampleBounds(lower.reward, ceiling, float(lower.costs[0]), multiplier, done, states)


def nearest_rocks(params: RockSampleParams) -> tuple[RockSampleParams, NDArray[np.int64]]:
    """The map with as many of the rocks nearest to the start as tables have room for, and the others' distances."""
    distance = params.rocks[:, 0] + np.abs(params.rocks[:, 1] - params.start_y)
    count = len(params.rocks)
    while count > 1 and 3**count * params.n**2 > STATE_LIMIT:
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


def _bound(
    params: RockSampleParams,
    beliefs: Beliefs,
    discount: float,
    budget: Floats,
    optimistic: bool,
    left_out: NDArray[np.int64] | None = None,
) -> Mixture:
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

    return mix_columns(price, budget, 1)


class Layer(NamedTuple):
    """All that may be believed after k readings: one row a belief about all m rocks."""

    beliefs: NDArray[np.int32]  # [B, m] belief number of every rock
    order: NDArray[np.int64]  # [B] rows with more rocks gone come first: sampling leads to an earlier one
    after_sample: NDArray[np.int32]  # [B, m] row once the rock is sampled, or -1 if that earns nothing
    after_reading: NDArray[np.int32]  # [B, m, D, 2] row of the next layer by accuracy and answer; empty in the last


@dataclass(frozen=True)
class Beliefs:
    """Belief numbers and the layers made of them."""

    probability: Floats  # [numbers] P(good); -1 for GONE
    accuracy_class: NDArray[np.int32]  # [n * n, m] which of the D accuracies a reading has
    layers: list[Layer]


def list_beliefs(params: RockSampleParams, readings: int) -> Beliefs | None:
    """Every belief that up to `readings` readings and any sampling can lead to; None if there are too many.

    A reading of accuracy e moves the log-odds by +-log(e / (1 - e)); beliefs are told apart by the sum of these steps.
    """
    rocks = len(params.rocks)
    accuracies, classes = np.unique(np.round(params.accuracy, 12), return_inverse=True)
    classes = classes.reshape(params.accuracy.shape)
    possible = [np.unique(classes[:, i]).tolist() for i in range(rocks)]
    certain = accuracies >= 1.0
    steps = np.log(accuracies) - np.log1p(-np.where(certain, 0.5, accuracies))
    log_odds = [0.0, np.inf, -np.inf]
    numbers = {0.0: UNREAD}
    moved: dict[tuple[int, int, int], int] = {}

    def read(number: int, which: int, says_good: int) -> int:
        key = (number, which, says_good)
        if key not in moved:
            if certain[which]:
                moved[key] = GOOD if says_good else GONE
            else:
                total = round(log_odds[number] + (steps[which] if says_good else -steps[which]), 9) + 0.0
                if total not in numbers:
                    numbers[total] = len(log_odds)
                    log_odds.append(total)
                moved[key] = numbers[total]
        return moved[key]

    rows: dict[tuple[int, ...], int] = {(UNREAD,) * rocks: 0}
    layers: list[Layer] = []
    for k in range(readings + 1):
        after_sample = _close_under_sampling(rows, log_odds)
        following: dict[tuple[int, ...], int] = {}
        shape = (len(rows) if k < readings else 0, rocks, len(accuracies), 2)
        after_reading = np.full(shape, -1, np.int32)
        for row, number in rows.items() if k < readings else ():
            for i in range(rocks):
                if row[i] in (GOOD, GONE):
                    continue
                for which in possible[i]:
                    for says_good in (0, 1):
                        to = (*row[:i], read(row[i], which, says_good), *row[i + 1 :])
                        after_reading[number, i, which, says_good] = following.setdefault(to, len(following))
            if len(following) * params.n**2 > STATE_LIMIT:
                return None
        table = np.array(list(rows), np.int32)
        order = np.argsort(-(table == GONE).sum(axis=1), kind="stable").astype(np.int64)
        layers.append(Layer(table, order, after_sample, after_reading))
        rows = following
    odds = np.exp(np.array(log_odds[3:]))
    probability = np.concatenate([[0.5, 1.0, -1.0], odds / (1.0 + odds)])
    return Beliefs(probability, classes.astype(np.int32), layers)


def _close_under_sampling(rows: dict[tuple[int, ...], int], log_odds: list[float]) -> NDArray[np.int32]:
    """Add to `rows` what sampling promising rocks leads to; the row it leads to for every row and rock, or -1."""
    waiting = list(rows)
    links: list[tuple[int, int, int]] = []
    for row in waiting:
        for i, number in enumerate(row):
            if number != GONE and log_odds[number] > 0.0:
                to = (*row[:i], GONE, *row[i + 1 :])
                if to not in rows:
                    rows[to] = len(rows)
                    waiting.append(to)
                links.append((rows[row], i, rows[to]))
    after = np.full((len(rows), len(waiting[0])), -1, np.int32)
    for row_number, i, to_number in links:
        after[row_number, i] = to_number
    return after


@njit(cache=True)
def spread(n, discount, values, costs):
    """V(p) = max_q gamma^|p - q| J(q) in two passes, in place; costs follow the same moves. Squares are x * n + y."""
    for x in range(n):
        for y in range(n):
            square = x * n + y
            if x > 0 and discount * values[square - n] > values[square]:
                values[square], costs[square] = discount * values[square - n], discount * costs[square - n]
            if y > 0 and discount * values[square - 1] > values[square]:
                values[square], costs[square] = discount * values[square - 1], discount * costs[square - 1]
    for x in range(n - 1, -1, -1):
        for y in range(n - 1, -1, -1):
            square = x * n + y
            if x < n - 1 and discount * values[square + n] > values[square]:
                values[square], costs[square] = discount * values[square + n], discount * costs[square + n]
            if y < n - 1 and discount * values[square + 1] > values[square]:
                values[square], costs[square] = discount * values[square + 1], discount * costs[square + 1]


@njit(cache=True)
def solve_perfect(n, rock_at, rocks, on_the_spot, discount, multiplier, values, costs):
    """The best of R - lambda C with a perfect sensor, from anywhere or only on the rock: values and costs [3^m, n * n].

    Digit i of a row's number in base 3 says of rock i: UNREAD, GOOD or GONE. Every event raises the number.
    """
    powers = np.ones(rocks + 1, np.int64)
    for i in range(rocks):
        powers[i + 1] = 3 * powers[i]
    for row in range(values.shape[0] - 1, -1, -1):
        for square in range(n * n):
            value, cost = 0.0, 0.0
            if square >= n * (n - 1):
                value = 10.0
            for i in range(rocks):
                digit = (row // powers[i]) % 3
                if digit == UNREAD and (not on_the_spot or rock_at[square] == i):
                    good, gone = row + powers[i], row + 2 * powers[i]
                    reading = -multiplier + 0.5 * discount * (values[good, square] + values[gone, square])
                    if reading > value:
                        value, cost = reading, 1.0 + 0.5 * discount * (costs[good, square] + costs[gone, square])
                elif digit == GOOD and rock_at[square] == i:
                    sample = 10.0 + discount * values[row + powers[i], square]
                    if sample > value:
                        value, cost = sample, discount * costs[row + powers[i], square]
            values[row, square], costs[row, square] = value, cost
        spread(n, discount, values[row], costs[row])


@njit(cache=True)
def solve_layer(
    n,
    rock_at,
    accuracy,
    accuracy_class,
    probability,
    beliefs,
    order,
    after_sample,
    after_reading,
    perfect_readings,
    discount,
    multiplier,
    perfect_values,
    perfect_costs,
    next_values,
    next_costs,
    values,
    costs,
):
    """The best of R - lambda C for all beliefs after k readings: values and costs [B, n * n].

    `after_reading` is empty in the last layer: a reading is then perfect if `perfect_readings`, else forbidden.
    """
    rocks = beliefs.shape[1]
    readable = after_reading.shape[0] > 0
    truths = np.zeros(1 << rocks, np.int64)
    chances = np.zeros(1 << rocks)
    for row in order:
        count = 1
        if perfect_readings:
            count = list_truths(beliefs[row], probability, truths, chances)
        for square in range(n * n):
            value, cost = 0.0, 0.0
            if square >= n * (n - 1):
                value = 10.0
            rock = rock_at[square]
            if rock >= 0 and after_sample[row, rock] >= 0:
                to = after_sample[row, rock]
                sample = 10.0 * (2.0 * probability[beliefs[row, rock]] - 1.0) + discount * values[to, square]
                if sample > value:
                    value, cost = sample, discount * costs[to, square]
            power = 1
            for i in range(rocks):
                number = beliefs[row, i]
                if number != GOOD and number != GONE and (readable or perfect_readings):
                    ahead, spent = 0.0, 0.0
                    if readable:
                        p, e = probability[number], accuracy[square, i]
                        says_good = p * e + (1.0 - p) * (1.0 - e)
                        which = accuracy_class[square, i]
                        good, bad = after_reading[row, i, which, 1], after_reading[row, i, which, 0]
                        ahead = says_good * next_values[good, square] + (1.0 - says_good) * next_values[bad, square]
                        spent = says_good * next_costs[good, square] + (1.0 - says_good) * next_costs[bad, square]
                    else:
                        for k in range(count):
                            at = truths[k]
                            if number == UNREAD:
                                good, bad = at + power, at + 2 * power
                                ahead += 0.5 * chances[k] * (perfect_values[good, square] + perfect_values[bad, square])
                                spent += 0.5 * chances[k] * (perfect_costs[good, square] + perfect_costs[bad, square])
                            else:
                                ahead += chances[k] * perfect_values[at, square]
                                spent += chances[k] * perfect_costs[at, square]
                    if -multiplier + discount * ahead > value:
                        value, cost = -multiplier + discount * ahead, 1.0 + discount * spent
                power *= 3
            values[row, square], costs[row, square] = value, cost
        spread(n, discount, values[row], costs[row])


@njit(cache=True)
def list_truths(row, probability, truths, chances):
    """What the rocks read so far may be: rows of the perfect sensor's table, and their probabilities; how many."""
    truths[0], chances[0] = 0, 1.0
    count, power = 1, 1
    for number in row:
        if number in (GOOD, GONE):
            for k in range(count):
                truths[k] += power * number
        elif number != UNREAD:
            p = probability[number]
            for k in range(count):
                truths[count + k], chances[count + k] = truths[k] + GONE * power, chances[k] * (1.0 - p)
                truths[k], chances[k] = truths[k] + GOOD * power, chances[k] * p
            count *= 2
        power *= 3
    return count
