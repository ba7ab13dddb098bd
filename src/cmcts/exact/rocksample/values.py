"""Values of RockSample's beliefs on every square, for the penalised reward R - lambda C.

Positions and beliefs are kept apart. Between two events (reading, sampling, leaving) only the position changes, so with
J(q) the value of the best event on square q and |p - q| the distance in steps,

    V(p) = max_q gamma^|p - q| J(q).

Two facts shrink the problem without changing its value: sampling a rock with P(good) <= 1/2 earns nothing and only
loses time, and so does reading a rock that is known.
"""

from __future__ import annotations

import numpy as np
from numba import njit

UNREAD, GOOD, GONE = 0, 1, 2  # belief numbers; GONE: collected, or known to be bad. From 3 on: anything in between


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
    digits = np.zeros(rocks, np.int64)
    for row in range(values.shape[0] - 1, -1, -1):
        rest = row
        for i in range(rocks):
            digits[i], rest = rest % 3, rest // 3
        for square in range(n * n):
            value, cost = 0.0, 0.0
            if square >= n * (n - 1):
                value = 10.0
            here = rock_at[square]
            if here >= 0 and digits[here] == GOOD:
                to = row + powers[here]
                sample = 10.0 + discount * values[to, square]
                if sample > value:
                    value, cost = sample, discount * costs[to, square]
            for i in range(rocks):
                if digits[i] == UNREAD and (not on_the_spot or here == i):
                    good, gone = row + powers[i], row + 2 * powers[i]
                    reading = -multiplier + 0.5 * discount * (values[good, square] + values[gone, square])
                    if reading > value:
                        value, cost = reading, 1.0 + 0.5 * discount * (costs[good, square] + costs[gone, square])
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
