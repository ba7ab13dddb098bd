"""Hulls, sums, splits and bounds of curves, against looking at every combination of their vertices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmcts.compilation.content import uncompiled
from cmcts.search import curves

upper_hull, minkowski_sum, split, append_vertex, around, write_curve = (
    uncompiled(kernel)
    for kernel in (
        curves.upper_hull,
        curves.minkowski_sum,
        curves.split,
        curves.append_vertex,
        curves.around,
        curves.write_curve,
    )
)


@st.composite
def concave_curves(draw, most=6):
    """[(cost, reward), ...]: costs and rewards rise, slopes fall."""
    slopes = sorted(draw(st.lists(st.integers(1, 300), min_size=0, max_size=most - 1, unique=True)), reverse=True)
    widths = [draw(st.integers(1, 50)) / 16 for _ in slopes]
    points = [(draw(st.integers(0, 40)) / 8, draw(st.integers(-80, 80)) / 8)]
    for slope, width in zip(slopes, widths, strict=True):
        cost, reward = points[-1]
        points.append((cost + width, reward + width * slope / 32))
    return points


def table(several, vertices=curves.VERTICES):
    made = curves.curves(len(several), vertices)
    for row, points in enumerate(several):
        made.sizes[row] = len(points)
        made.costs[row, : len(points)], made.rewards[row, : len(points)] = np.array(points).T
    return made


def points_of(chain, size):
    return list(zip(chain.costs[:size].tolist(), chain.rewards[:size].tolist(), strict=True))


def hull_of(several, left=None, up=None, vertices=400):
    n = len(several)
    chain = curves.chain(vertices)
    left, up = (np.zeros(n) if shift is None else np.array(shift, float) for shift in (left, up))
    size = upper_hull(table(several), np.arange(n), n, left, up, np.zeros(n, np.int32), chain)
    return points_of(chain, size), chain.labels[:size].tolist()


def sum_of(several, weights, cost_factor, reward_factor, vertices=400):
    n = len(several)
    chain, scratch = curves.chain(vertices), (np.zeros(n, np.int32), np.zeros(n))
    cost = sum(weight * cost_factor * points[0][0] for weight, points in zip(weights, several, strict=True))
    reward = sum(weight * reward_factor * points[0][1] for weight, points in zip(weights, several, strict=True))
    size = minkowski_sum(
        table(several), np.arange(n), np.array(weights), n, cost, reward, cost_factor, reward_factor, *scratch, chain
    )
    return points_of(chain, size)


def at(points, cost):
    """The reward that a curve has at a cost: its last one beyond its end."""
    return np.interp(cost, *np.array(points).T)


def best_mixture(points, cost):
    """The most that mixtures of two points earn for at most a cost, by trying all pairs."""
    cheap = [point for point in points if point[0] <= cost]
    dear = [point for point in points if point[0] > cost]
    mixed = [
        a[1] + (cost - a[0]) / (b[0] - a[0]) * (b[1] - a[1]) for a, b in itertools.product(cheap, dear) if b[1] > a[1]
    ]
    return max([reward for _, reward in cheap] + mixed)


def assert_is_curve(points):
    """Rising, and bent one way."""
    costs, rewards = np.array(points).T
    slopes = np.diff(rewards) / np.diff(costs)
    assert (np.diff(costs) > 0).all() and (slopes > 0).all() and (np.diff(slopes) < 0).all()


def assert_same_curve(made, points):
    """A curve is the best mixture of some points, at all their costs and between them."""
    assert_is_curve(made)
    costs = sorted({cost for cost, _ in points})
    assert made[0][0] == pytest.approx(costs[0], abs=1e-9)
    between = [(a + b) / 2 for a, b in itertools.pairwise(costs)]
    for cost in [*costs, *between, costs[-1] + 1.0]:
        assert at(made, cost) == pytest.approx(best_mixture(points, cost), rel=1e-6, abs=1e-6)


@given(several=st.lists(concave_curves(), min_size=1, max_size=4))
def test_a_hull_is_the_best_mixture_of_all_vertices(several):
    made, labels = hull_of(several)
    assert_same_curve(made, [point for points in several for point in points])
    for (cost, reward), label in zip(made, labels, strict=True):
        assert (cost, reward) in several[label]


@given(
    several=st.lists(concave_curves(), min_size=2, max_size=3),
    left=st.lists(st.integers(0, 30), min_size=3, max_size=3),
    up=st.lists(st.integers(0, 30), min_size=3, max_size=3),
)
def test_a_hull_of_moved_curves(several, left, up):
    made, _ = hull_of(several, left, up)
    moved = [(max(0.0, cost - left[n]), reward + up[n]) for n, points in enumerate(several) for cost, reward in points]
    assert_same_curve(made, moved)


@given(
    several=st.lists(concave_curves(4), min_size=1, max_size=3),
    weights=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    factors=st.sampled_from([(1.0, 1.0), (0.9, 0.9), (1.0, 0.5), (0.25, 0.75)]),
)
def test_a_sum_is_the_best_mixture_of_all_combinations(several, weights, factors):
    shares = [weight / sum(weights[: len(several)]) for weight in weights[: len(several)]]
    combined = [
        tuple(
            factor * sum(share * point[k] for share, point in zip(shares, chosen, strict=True))
            for k, factor in enumerate(factors)
        )
        for chosen in itertools.product(*several)
    ]
    made = sum_of(several, shares, *factors)
    assert_same_curve(made, combined)
    assert made[-1] == pytest.approx(max(combined), abs=1e-9)


@given(
    several=st.lists(concave_curves(), min_size=1, max_size=4),
    weights=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    factor=st.sampled_from([1.0, 0.9, 0.25]),
    share=st.floats(-0.5, 1.5),
)
def test_a_split_costs_the_limit_and_earns_what_the_sum_promises(several, weights, factor, share):
    n = len(several)
    weights = [weight / sum(weights[:n]) for weight in weights[:n]]
    made = sum_of(several, weights, factor, 1.0)
    least, most = made[0][0], made[-1][0]
    limit = least + share * (most - least + 1.0)
    shares = np.zeros(n)
    over = split(
        table(several), np.arange(n), np.array(weights), n, limit - least, factor, np.zeros(n, int), np.zeros(n), shares
    )
    assert factor * (np.array(weights) @ shares) + over == pytest.approx(limit, abs=1e-9)
    assert over == pytest.approx(limit - np.clip(limit, least, most), abs=1e-9)
    earned = sum(weight * at(points, part) for weight, points, part in zip(weights, several, shares, strict=True))
    assert earned == pytest.approx(at(made, limit), rel=1e-6, abs=1e-6)


@given(
    several=st.lists(concave_curves(12), min_size=2, max_size=4),
    weights=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    vertices=st.integers(2, 7),
)
def test_a_bounded_curve_never_promises_more(several, weights, vertices):
    n = len(several)
    for whole, bounded in (
        (sum_of(several, weights[:n], 0.9, 0.9), sum_of(several, weights[:n], 0.9, 0.9, vertices)),
        (hull_of(several)[0], hull_of(several, vertices=vertices)[0]),
    ):
        assert len(bounded) == min(len(whole), vertices)
        assert_is_curve(bounded)
        assert (bounded[0], bounded[-1]) == (whole[0], whole[-1])
        assert all(at(bounded, cost) <= at(whole, cost) + 1e-9 for cost, _ in whole + bounded)


def test_the_vertex_that_is_left_out_is_the_one_that_matters_least():
    chain, size = curves.chain(3), 0
    for cost, reward in [(0.0, 0.0), (1.0, 4.0), (2.0, 6.0), (3.0, 7.0)]:
        size = append_vertex(chain, size, cost, reward, 0)
    assert points_of(chain, size) == [(0.0, 0.0), (1.0, 4.0), (3.0, 7.0)]


def test_what_earns_nothing_more_is_no_vertex():
    """Nor is what earns more by rounding alone, or lies on the line between its neighbours."""
    assert hull_of([[(0.0, 0.3)], [(1.0, 0.1 + 0.2)], [(2.0, 0.2)]]) == ([(0.0, 0.3)], [0])
    assert sum_of([[(0.0, 0.0), (0.1, 0.3)], [(0.0, 0.0), (0.7, 2.1)]], [0.5, 0.5], 1.0, 1.0) == [
        (0.0, 0.0),
        (pytest.approx(0.4), pytest.approx(1.2)),
    ]


def test_the_vertices_around_a_threshold():
    costs = np.array([1.0, 2.0, 4.0])
    assert around(costs, 3, 0.5) == (0, 0, 0.0)
    assert around(costs, 3, 1.0) == (0, 1, 0.0)
    assert around(costs, 3, 2.5) == (1, 2, 0.25)
    assert around(costs, 3, 4.0) == (2, 2, 0.0)
    assert around(costs, 1, 4.0) == (0, 0, 0.0)
