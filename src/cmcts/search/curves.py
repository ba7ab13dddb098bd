"""Concave curves of (cost, reward): how much can be earned for how much expected cost.

A curve is a row of vertices from the cheapest to the dearest. Cost and reward rise from one to the next, each segment
less steeply than the one before, and what lies on a segment is had by tossing a coin between its ends. Two operations
make curves of curves. Where one may choose, the *upper hull* of several is their best. Where chance chooses, the
weighted *Minkowski sum* of several spends on each in turn where the next unit of cost earns most.

Curves are bounded: of one vertex too many, that one is left out whose loss takes the least area. What is left lies on
or below the curve and has the same ends, so that it promises less than it could, and never more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import inner_kernel as kernel

VERTICES = 32  # of a curve, at most
ROUNDING = 1e-9  # relative: a smaller rise of the reward is none, and a smaller bend no corner


class Curves(NamedTuple):
    """R curves of at most K vertices."""

    sizes: NDArray[np.int32]  # [R]
    costs: NDArray[np.float64]  # [R, K] rising
    rewards: NDArray[np.float64]  # [R, K] rising


class Chain(NamedTuple):
    """A curve in the making, from left to right, with room for one vertex too many."""

    costs: NDArray[np.float64]  # [K + 1]
    rewards: NDArray[np.float64]  # [K + 1]
    labels: NDArray[np.int32]  # [K + 1] the number of the curve that a vertex was taken from


def curves(rows: int, vertices: int = VERTICES) -> Curves:
    """Memory for so many curves, which is touched only as they are written."""
    return Curves(np.empty(rows, np.int32), np.empty((rows, vertices)), np.empty((rows, vertices)))


def chain(vertices: int = VERTICES) -> Chain:
    """Memory to make one curve in."""
    return Chain(np.zeros(vertices + 1), np.zeros(vertices + 1), np.zeros(vertices + 1, np.int32))


@kernel
def write_point(table, row, cost, reward):
    """A curve of one vertex."""
    table.sizes[row] = 1
    table.costs[row, 0] = cost
    table.rewards[row, 0] = reward


@kernel
def write_curve(table, row, made, size):
    """Copy a chain of `size` vertices."""
    table.sizes[row] = size
    for k in range(size):
        table.costs[row, k] = made.costs[k]
        table.rewards[row, k] = made.rewards[k]


@kernel
def copy_curve(source, row, target, target_row):
    """Copy a curve from one table to another."""
    target.sizes[target_row] = source.sizes[row]
    for k in range(source.sizes[row]):
        target.costs[target_row, k] = source.costs[row, k]
        target.rewards[target_row, k] = source.rewards[row, k]


@kernel
def rises(before, after):
    """Whether a reward is really larger than another."""
    return after - before > ROUNDING * max(abs(before), abs(after))


@kernel
def append_vertex(made, size, cost, reward, label):
    """Add a vertex at the right end of a chain; returns the new size.

    What earns no more than the last vertex is left out. So is the last vertex if the new one lies straight on, and one
    inner vertex if there are too many.
    """
    if size > 0 and not rises(made.rewards[size - 1], reward):
        return size
    if size > 0 and cost <= made.costs[size - 1]:
        size -= 1  # more for no more
    if size > 1:
        last = size - 1
        before = (made.rewards[last] - made.rewards[last - 1]) / (made.costs[last] - made.costs[last - 1])
        after = (reward - made.rewards[last]) / (cost - made.costs[last])
        if before <= after * (1.0 + ROUNDING):
            size -= 1
    made.costs[size] = cost
    made.rewards[size] = reward
    made.labels[size] = label
    size += 1
    return drop_vertex(made, size) if size == made.costs.shape[0] else size


@kernel
def drop_vertex(made, size):
    """Leave out the inner vertex that takes the least area with it; returns the new size."""
    least, smallest = 1, np.inf
    for k in range(1, size - 1):
        width, height = made.costs[k + 1] - made.costs[k - 1], made.rewards[k + 1] - made.rewards[k - 1]
        area = (made.rewards[k] - made.rewards[k - 1]) * width - (made.costs[k] - made.costs[k - 1]) * height
        if area < smallest:
            least, smallest = k, area
    for k in range(least, size - 1):
        made.costs[k] = made.costs[k + 1]
        made.rewards[k] = made.rewards[k + 1]
        made.labels[k] = made.labels[k + 1]
    return size - 1


@kernel
def moved_cost(table, row, k, shift):
    """The cost of vertex k of a curve that is moved to the left; no cost is below 0."""
    return max(0.0, table.costs[row, k] - shift)


@kernel
def upper_hull(table, rows, count, cost_shifts, reward_shifts, cursors, made):
    """The least concave curve above `count` others, rows of `table` that are moved left and up by their shifts.

    Gift wrapping: it begins at the least cost, and always goes on to the vertex that is reached most steeply. Labels
    are numbers among `rows`. Returns its size.
    """
    cost, reward, first = np.inf, -np.inf, 0
    for n in range(count):
        row, k = rows[n], 0
        while k + 1 < table.sizes[row] and moved_cost(table, row, k + 1, cost_shifts[n]) == 0.0:
            k += 1
        cursors[n] = k
        there, earned = moved_cost(table, row, k, cost_shifts[n]), table.rewards[row, k] + reward_shifts[n]
        if there < cost or (there == cost and earned > reward):
            cost, reward, first = there, earned, n
    size = append_vertex(made, 0, cost, reward, first) if count > 0 else 0
    found = first
    while count > 0 and found >= 0:
        found, steepest, best_cost, best_reward = -1, 0.0, cost, reward
        for n in range(count):
            row, k = rows[n], cursors[n]
            # What is not above the hull so far never will be.
            while k < table.sizes[row] and (
                moved_cost(table, row, k, cost_shifts[n]) <= cost
                or not rises(reward, table.rewards[row, k] + reward_shifts[n])
            ):
                k += 1
            cursors[n] = k
            slope = 0.0
            while k < table.sizes[row]:
                there, earned = moved_cost(table, row, k, cost_shifts[n]), table.rewards[row, k] + reward_shifts[n]
                steepness = (earned - reward) / (there - cost)
                if steepness <= slope:
                    break
                slope = steepness
                if slope > steepest:
                    found, steepest, best_cost, best_reward = n, slope, there, earned
                k += 1
        if found >= 0:
            cost, reward = best_cost, best_reward
            size = append_vertex(made, size, cost, reward, found)
    return size


@kernel
def slope_after(table, row, k):
    """How steep a curve is after vertex k; 0 after the last."""
    if k + 1 >= table.sizes[row]:
        return 0.0
    return (table.rewards[row, k + 1] - table.rewards[row, k]) / (table.costs[row, k + 1] - table.costs[row, k])


@kernel
def steepest_curve(slopes, count):
    """The number of the curve that goes on most steeply, or -1 if all are at their ends."""
    found, steepest = -1, 0.0
    for n in range(count):
        if slopes[n] > steepest:
            found, steepest = n, slopes[n]
    return found


@kernel
def minkowski_sum(table, rows, weights, count, cost, reward, cost_factor, reward_factor, cursors, slopes, made):
    """The weighted sum of `count` curves, rows of `table`, from the sum (cost, reward) of their first vertices on.

    Costs and rewards are multiplied by their factors, then by a curve's weight. Returns its size.
    """
    for n in range(count):
        cursors[n] = 0
        slopes[n] = slope_after(table, rows[n], 0)
    size = append_vertex(made, 0, cost, reward, 0)
    n = steepest_curve(slopes, count)
    while n >= 0:
        row, k = rows[n], cursors[n]
        cost += weights[n] * cost_factor * (table.costs[row, k + 1] - table.costs[row, k])
        reward += weights[n] * reward_factor * (table.rewards[row, k + 1] - table.rewards[row, k])
        size = append_vertex(made, size, cost, reward, 0)
        cursors[n] = k + 1
        slopes[n] = slope_after(table, row, k + 1)
        n = steepest_curve(slopes, count)
    return size


@kernel
def split(table, rows, weights, count, spare, cost_factor, cursors, slopes, shares):
    """Divide what is to `spare` beyond the first vertices of a sum: `shares` [count] are costs on the curves summed.

    Returns what no curve can use. What is lacking, a `spare` below 0, comes back as it is.
    """
    for n in range(count):
        cursors[n] = 0
        slopes[n] = slope_after(table, rows[n], 0)
        shares[n] = table.costs[rows[n], 0]
    n = steepest_curve(slopes, count)
    while spare > 0.0 and n >= 0:
        row, k = rows[n], cursors[n]
        step = table.costs[row, k + 1] - table.costs[row, k]
        price = weights[n] * cost_factor * step
        if price > spare:
            shares[n] += step * (spare / price)
            return 0.0
        shares[n] = table.costs[row, k + 1]
        spare -= price
        cursors[n] = k + 1
        slopes[n] = slope_after(table, row, k + 1)
        n = steepest_curve(slopes, count)
    return spare


@kernel
def around(costs, size, threshold):
    """The vertices on either side of a threshold, and the chance of the dearer one that costs the threshold on average.

    Beyond the ends of the curve both are the same vertex.
    """
    high = 0
    while high < size and costs[high] <= threshold:
        high += 1
    if high == 0:
        return 0, 0, 0.0
    if high == size:
        return size - 1, size - 1, 0.0
    return high - 1, high, (threshold - costs[high - 1]) / (costs[high] - costs[high - 1])
