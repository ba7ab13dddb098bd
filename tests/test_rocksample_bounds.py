"""RockSample's bounds against maps solved by hand and a linear program over listed beliefs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cmcts.compilation.content import python_function
from cmcts.envs.rocksample.model import SENSE, RockSampleParams, rocksample_model, rocksample_params, sensor_accuracy
from cmcts.exact.column_generation import Mixture
from cmcts.exact.finite import enumerate_states
from cmcts.exact.rocksample.beliefs import list_beliefs
from cmcts.exact.rocksample.bounds import nearest_rocks, rocksample_bounds
from cmcts.exact.rocksample.one_reading import best_with_one_reading
from cmcts.exact.solver import solve
from conftest import compiled_only


def rock_at_the_start() -> RockSampleParams:
    """2 x 2, start (0, 1), and one rock right there."""
    distance = np.hypot([0, 0, 1, 1], [1, 0, 1, 0])[:, None]
    rock_at = np.array([-1, 0, -1, -1])
    return RockSampleParams(2, np.array([[0, 1]]), rock_at, sensor_accuracy(distance, 20.0), 1)


def counting(model, readings):
    """The model with at most so many readings an episode: the count joins the state, and then senses are illegal."""
    legal, outcomes = python_function(model.legal_actions), model.outcomes

    def legal_actions(params, state, out):
        legal_count = legal(params, state[:-1], out)
        kept = [a for a in out[:legal_count] if a < SENSE or state[-1] < readings]
        out[: len(kept)] = kept
        return len(kept)

    def counted(params, state, action):
        chances, states, rewards, costs, ends = outcomes(params, state[:-1], action)
        # Beliefs that differ only by rounding are the same belief.
        counts = np.full((len(chances), 1), state[-1] + (action >= SENSE))
        return chances, np.hstack([np.round(states, 9), counts]), rewards, costs, ends

    def starts(params):
        chances, states = model.starts(params)
        return chances, np.hstack([states, np.zeros((len(states), 1))])

    return replace(model, legal_actions=legal_actions, outcomes=counted, starts=starts, state_size=model.state_size + 1)


@pytest.mark.parametrize(("n", "m"), [(2, 1), (3, 2), (4, 3)])
def test_one_reading_an_episode_against_listed_beliefs(n, m):
    model = rocksample_model(n, m)
    exact = solve(enumerate_states(counting(model, 1), 0.95), np.inf).reward
    assert best_with_one_reading(model.params, 0.95) == pytest.approx(exact, abs=1e-6)


def test_one_reading_by_hand():
    """The rock underfoot, as below; and where the only rock is far behind, nobody reads."""
    assert best_with_one_reading(rock_at_the_start(), 0.95) == pytest.approx(13.549375)
    far = rocksample_params(2, 1)._replace(rocks=np.array([[-60, 0]]))
    assert best_with_one_reading(far, 0.95) == pytest.approx(9.5)


@pytest.mark.parametrize(
    ("budget", "reward", "multiplier"), [(1.0, 13.549375, None), (0.5, 11.5246875, 4.049375), (0.0, 9.5, None)]
)
def test_one_rock_by_hand(budget, reward, multiplier):
    # Out at once: move, leave: 10 * 0.95 = 9.5. Reading the rock underfoot costs 1 and is never wrong; then, half of
    # the time each, sample and leave, 10 * 0.95 + 10 * 0.95^3, or leave, 10 * 0.95^2: 13.549375 on average.
    bounds = rocksample_bounds(rock_at_the_start(), budget)
    assert bounds.reward_lower == pytest.approx(reward, abs=1e-9)
    assert bounds.reward_upper == pytest.approx(reward, abs=1e-9)
    if multiplier:
        assert bounds.multiplier == pytest.approx(multiplier, abs=1e-9)


@pytest.mark.parametrize(("readings", "budget"), [(1, 1.0), (2, 1.0), (2, 0.7), (2, 3.0)])
def test_lower_bound_is_the_optimum_of_so_many_readings(readings, budget, monkeypatch):
    listed = solve(enumerate_states(counting(rocksample_model(3, 2), readings), 0.95), budget)
    # Without its alternative (readings on the spot), the lower bound is that of the limited number of readings.
    nothing = Mixture(-np.inf, np.zeros(1), np.zeros(1), 0.0, np.ones(1), [])
    monkeypatch.setattr("cmcts.exact.rocksample.bounds._on_the_spot", lambda *_: nothing)
    monkeypatch.setattr("cmcts.exact.rocksample.bounds.CLOSED", -1.0)
    bounds = rocksample_bounds(rocksample_params(3, 2), budget, readings=readings)
    assert bounds.readings == readings
    assert bounds.reward_lower == pytest.approx(listed.reward, abs=1e-7)
    assert bounds.cost == pytest.approx(listed.costs[0], abs=1e-7)
    assert bounds.reward_upper >= listed.reward - 1e-9


@pytest.mark.parametrize("budget", [0.4, 1.0, 2.0])
def test_first_upper_bound_is_the_optimum_with_a_perfect_sensor(budget):
    params = rocksample_params(3, 2)
    model = replace(rocksample_model(3, 2), params=params._replace(accuracy=np.ones_like(params.accuracy)))
    listed = solve(enumerate_states(model, 0.95), budget)
    bounds = rocksample_bounds(params, budget, readings=0)
    assert bounds.reward_upper == pytest.approx(listed.reward, abs=1e-7)
    assert bounds.multiplier == pytest.approx(listed.multipliers[0], abs=1e-6)


@pytest.mark.parametrize("budget", [0.4, 1.0, 2.0])
def test_first_lower_bound_is_the_optimum_of_readings_on_the_spot(budget):
    model = rocksample_model(3, 2)
    legal = python_function(model.legal_actions)

    def on_the_spot(params, state, out):
        here = params.rock_at[int(state[0]) * params.n + int(state[1])]
        kept = [action for action in out[: legal(params, state, out)] if action < SENSE or action == SENSE + here]
        out[: len(kept)] = kept
        return len(kept)

    listed = solve(enumerate_states(replace(model, legal_actions=on_the_spot), 0.95), budget)
    bounds = rocksample_bounds(rocksample_params(3, 2), budget, readings=0)
    assert bounds.reward_lower == pytest.approx(listed.reward, abs=1e-7)
    assert bounds.cost == pytest.approx(listed.costs[0], abs=1e-7)


def test_bounds_tighten_with_readings_and_meet():
    found = [rocksample_bounds(rocksample_params(3, 2), readings=n) for n in range(3)]
    lower, upper = [b.reward_lower for b in found], [b.reward_upper for b in found]
    assert (np.diff(lower) >= -1e-9).all() and (np.diff(upper) <= 1e-9).all()
    assert upper[0] > lower[0] + 1e-3
    assert lower[2] == pytest.approx(13.0462154605, abs=1e-8) and upper[2] == pytest.approx(13.0462154605, abs=1e-8)


@pytest.mark.parametrize("d0", [20.0, 0.1])
def test_a_reading_from_afar_by_hand(d0):
    # 2 x 2, start (0, 1), rock (0, 0). Read it from the start, right with probability e, and go there only if it looks
    # good: read 0, move 1, sample 2, move 3, leave 4, or move 1, leave 2. Or go first: move 0, read 1 for sure, and
    # sample 2, move 3, leave 4, or move 2, leave 3, at a cost of 0.95. Both fit a budget of 1.
    e = (1 + 2 ** (-1 / d0)) / 2
    afar = (0.95**2 * 10 * (2 * e - 1) + 10 * 0.95**4 + 10 * 0.95**2) / 2
    on_the_spot = (10 * 0.95**2 + 10 * 0.95**4 + 10 * 0.95**3) / 2
    distance = np.hypot([0, 0, 1, 1], [0, 1, 0, 1])[:, None]
    params = RockSampleParams(2, np.array([[0, 0]]), np.array([0, -1, -1, -1]), sensor_accuracy(distance, d0), 1)
    bounds = rocksample_bounds(params)
    assert (afar > on_the_spot) == (d0 == 20.0)
    assert bounds.reward_lower == pytest.approx(max(afar, on_the_spot), abs=1e-9)
    assert bounds.reward_upper == pytest.approx(bounds.reward_lower, abs=1e-7)


@compiled_only
@pytest.mark.parametrize(("n", "m", "reward"), [(4, 3, 12.339899), (5, 7, 12.261084), (7, 8, 11.311780)])
def test_known_optima(n, m, reward):
    bounds = rocksample_bounds(rocksample_params(n, m))
    assert bounds.reward_upper - bounds.reward_lower <= 1e-6
    assert bounds.reward_lower == pytest.approx(reward, abs=1e-5)
    assert bounds.cost <= 1.0 + 1e-9


@compiled_only
@pytest.mark.slow
def test_known_optimum_of_the_largest_map():
    bounds = rocksample_bounds(rocksample_params(11, 11))
    assert bounds.reward_lower == pytest.approx(9.993445, abs=1e-5)
    assert bounds.reward_upper == pytest.approx(9.993445, abs=1e-5)


def test_beliefs_are_told_apart_by_evidence():
    # Readings of one rock from the corners of a 2 x 2 map: certain, or of two accuracies. Two readings give sums of
    # +-a, +-b: 0, a, -a, b, -b, 2a, -2a, 2b, -2b, a+b, a-b, b-a, -a-b; 0 is the unread rock.
    beliefs = list_beliefs(rock_at_the_start(), 2)
    a, b = (np.log(e / (1 - e)) for e in np.unique(rock_at_the_start().accuracy)[:2])
    sums = {x + y for x in (0, a, -a, b, -b) for y in (0, a, -a, b, -b)} - {0}
    odds = beliefs.probability[3:] / (1 - beliefs.probability[3:])
    assert sorted(np.log(odds)) == pytest.approx(sorted({round(value, 9) for value in sums} - {0.0}), abs=1e-8)


@compiled_only
@pytest.mark.parametrize("rocks", [1, 3, 5])
def test_rocks_that_do_not_fit_are_bounded(rocks, monkeypatch):
    # The optimum, 12.261084, is known from all seven rocks.
    monkeypatch.setattr("cmcts.exact.rocksample.bounds.TABLE_LIMIT", 3**rocks * 25)
    reduced, left_out = nearest_rocks(rocksample_params(5, 7))
    assert len(reduced.rocks) == rocks and len(left_out) == 7 - rocks
    bounds = rocksample_bounds(rocksample_params(5, 7))
    assert bounds.reward_lower <= 12.261085 and bounds.reward_upper >= 12.261083
    # No reading earns more than 5 gamma, so no budget buys more than this on top of driving out.
    assert bounds.reward_upper <= 10 * 0.95**4 + 4.75 + 1e-9
    assert bounds.reward_lower >= 10 * 0.95**4


def test_the_nearest_rocks_are_kept(monkeypatch):
    # From (0, 2) the rocks of (5,7) are 3, 3, 1, 2, 4, 1 and 5 steps away.
    monkeypatch.setattr("cmcts.exact.rocksample.bounds.TABLE_LIMIT", 27 * 25)
    whole = rocksample_params(5, 7)
    reduced, left_out = nearest_rocks(whole)
    assert reduced.rocks.tolist() == [[1, 2], [2, 2], [0, 3]] and sorted(left_out) == [3, 3, 4, 5]
    assert (reduced.accuracy == whole.accuracy[:, [2, 3, 5]]).all()
    assert [int(reduced.rock_at[x * 5 + y]) for x, y in ((1, 2), (2, 2), (0, 3), (1, 0))] == [0, 1, 2, -1]


@compiled_only
@pytest.mark.slow
def test_fifteen_rocks_are_enclosed():
    bounds = rocksample_bounds(rocksample_params(15, 15))
    assert bounds.reward_lower == pytest.approx(9.267089, abs=1e-5)
    assert bounds.reward_upper == pytest.approx(10 * 0.95**14 + 4.75, abs=1e-5)
