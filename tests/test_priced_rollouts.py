"""Rollouts that know what a cost is worth: RockSample's by hand, and whose searches may use them."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import cmcts
from cmcts.critic.columns import ColumnSettings, Sample
from cmcts.critic.ensemble import immediate_costs_only
from cmcts.critic.identity import changed_code, code_digests
from cmcts.envs.rocksample.model import EAST, NORTH, SAMPLE, SENSE, SOUTH, WEST, rocksample_model
from cmcts.errors import InvalidInput
from cmcts.frontier import generation
from cmcts.frontier.candidates import Candidate, Candidates
from cmcts.model.timed import with_time
from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS
from cmcts.planning.threshold_uct import ThresholdUCT
from cmcts.random import stream
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from test_search import assert_search_is_naive

ROCKS = rocksample_model(5, 7)  # rock 2 is at (1, 2), rock 3 at (2, 2), rock 4 at (4, 2)
PRICED = SearchSettings(rollout="priced")


def choice(price, x, y, **rocks):
    """What the rollout at this price does at (x, y), where only the named rocks are left."""
    beliefs = [rocks.get(f"r{i}", -1.0) for i in range(7)]
    priced = ROCKS.rolling_out_at(np.array([price]), 0.95)
    return int(priced.uncompiled.rollout_action(priced.params, np.array([x, y, *beliefs], np.float64), stream(0)))


def test_a_rock_is_read_on_the_spot_where_that_is_worth_its_price():
    """Half of the time it is good, a step later: 0.95 x 10 x 0.5 = 4.75, and the exit is worth 0.5 less by then."""
    assert choice(4.2, 4, 2, r4=0.5) == SENSE + 4
    assert choice(4.3, 4, 2, r4=0.5) == EAST
    assert choice(1.0, 4, 2, r4=0.1) == EAST, "0.95 - 1 < 0"
    assert choice(0.0, 4, 2, r4=0.1) == SENSE + 4
    assert choice(3.0, 4, 2) == EAST


def test_a_rock_is_sampled_unread_where_a_reading_says_too_little():
    """Reading first is worth 9.5 p - lambda, sampling at once 20 p - 10: equal at p = (10 - lambda) / 10.5."""
    assert choice(3.0, 4, 2, r4=0.66) == SENSE + 4
    assert choice(3.0, 4, 2, r4=0.67) == SAMPLE
    assert choice(100.0, 4, 2, r4=1.0) == SAMPLE


def test_a_detour_must_be_worth_the_later_exit():
    assert choice(3.0, 3, 2, r4=0.5) == EAST, "on the way"
    assert choice(1.0, 4, 3, r4=0.5) == SOUTH, "3.75 x 0.95 = 3.56, and the exit two steps later: 9.03 instead of 10"
    assert choice(4.0, 4, 3, r4=0.5) == EAST, "0.71, and the same"
    assert choice(1.0, 4, 1, r4=0.5) == NORTH
    assert choice(1.0, 3, 2, r3=0.5) == WEST
    assert choice(4.0, 3, 2, r3=0.5) == EAST
    assert choice(1.0, 3, 2, r3=0.5, r4=0.5) == EAST, "rock 4 is as near, and on the way"


def test_the_price_is_the_planners_and_its_model_keeps_its_contract():
    planner = PenalizedMCTS(ROCKS, 3.0, PRICED)
    assert planner.model.params.price == 3.0
    assert ROCKS.rollout_action is not planner.model.rollout_action
    assert cmcts.check_model(planner.model) == []
    half = PenalizedMCTS(ROCKS, 3.0, dataclasses.replace(PRICED, discount=0.5))
    assert half.model.params.decay[:3].tolist() == [1.0, 0.5, 0.25]


def test_searches_that_roll_out_at_a_price_equal_the_naive_ones():
    model = rocksample_model(3, 2)
    short = dataclasses.replace(PRICED, horizon=12)
    guarded = CMCTS(model, immediate_costs_only(model), short, multiplier=2.0)
    for planner in (PenalizedMCTS(model, 2.0, short), guarded, PenalizedMCTS(with_time(model, 9), 2.0, short)):
        assert_search_is_naive(planner, planner.model.start_state(), 1.0, iterations=200)


def test_time_as_part_of_the_state_leaves_the_price_where_it_was():
    timed = with_time(ROCKS, 9).rolling_out_at(np.array([3.0]), 0.95)
    assert timed.params.steps == 9 and timed.params.model.price == 3.0
    state = np.array([4.0, 2.0, *[-1.0] * 4, 0.5, -1.0, -1.0, 9.0])
    assert timed.uncompiled.rollout_action(timed.params, state, stream(0)) == SENSE + 4


@pytest.mark.parametrize("planner", [CCMCP, ThresholdUCT])
def test_planners_whose_prices_move_refuse(planner):
    with pytest.raises(InvalidInput, match=rf'"uniform" for {planner.__name__}, whose multipliers move, got "priced"'):
        planner(ROCKS, PRICED)


def test_a_model_without_such_a_policy_refuses():
    with pytest.raises(InvalidInput, match="for model 'tabular', which has no function at_prices"):
        PenalizedMCTS(cmcts.make("random-absorbing-0").model, 1.0, PRICED)


def test_another_policy_at_prices_is_other_code():
    def others(model, prices, discount):
        return dataclasses.replace(model, at_prices=None)

    before = code_digests(ROCKS)
    assert changed_code(before, dataclasses.replace(ROCKS, at_prices=others)) == ["at_prices"]
    assert "at_prices" not in code_digests(dataclasses.replace(ROCKS, at_prices=None))


def astray(params, state, rng):
    return 4  # sampling, where there may be no rock


@pytest.mark.parametrize(
    ("at_prices", "fault"),
    [
        (lambda model, prices, discount: None, "at_prices: expected a Model, got None"),
        (lambda model, prices: model, "at_prices: raised TypeError: .*takes 2 positional arguments but 3 were given"),
        (lambda model, prices, discount: rocksample_model(5, 8), "at_prices: expected state_size 9 as before, got 10"),
        (
            lambda model, prices, discount: dataclasses.replace(model, rollout_action=astray),
            r"at_prices: rollout_action: expected one of the legal actions \[.*\], got 4 in state",
        ),
    ],
)
def test_a_check_tries_the_model_at_prices_too(at_prices, fault):
    (found,) = cmcts.check_model(dataclasses.replace(ROCKS, at_prices=at_prices))
    assert re.match(fault, found)


@pytest.mark.parametrize(("reward", "adopted"), [(1.5, True), (0.5, False)])
def test_a_frontier_asks_values_after_one_step_if_that_leaves_more(reward, adopted, monkeypatch):
    """At a price of 2, a search that reads values leaves 3 - 2 x 1 = 1; at the same cost, 3.5 leaves more, 2.5 less."""
    search = SearchSettings(iterations=100)
    course = generation._Course.__new__(generation._Course)
    course.search, course.reads_values, course.candidates = search, True, Candidates()
    sample = Sample(np.full(4, 3.0), np.full((4, 1), 1.0))
    course.candidates.tried += [Candidate(ColumnSettings((2.0,), search, values=values), sample) for values in (0, 1)]
    made = []

    def add(self, column):
        made.append(column)
        return Candidate(column, Sample(np.full(4, 2.0 + reward), np.full((4, 1), 1.0)))

    monkeypatch.setattr(generation._Course, "add", add)
    course.look_one_step_ahead()
    shallow = dataclasses.replace(search, horizon=1)
    assert made == [ColumnSettings((2.0,), shallow, values=True)], "what rolls out is no rival"
    assert course.search == (shallow if adopted else search)
    assert made[0].name == "lambda 2, 100 simulations one step ahead with values"


@pytest.mark.parametrize(("reward", "adopted"), [(1.5, True), (0.5, False)])
def test_a_frontier_rolls_out_at_the_price_from_there_on_if_that_leaves_more(reward, adopted, monkeypatch):
    """At a price of 2, an earlier column leaves 3 - 2 x 1 = 1; at the same cost, 3.5 leaves more and 2.5 less."""
    search = SearchSettings(iterations=100)
    course = generation._Course.__new__(generation._Course)
    course.search, course.reads_values, course.candidates = search, False, Candidates()
    earlier = Candidate(ColumnSettings((2.0,), search), Sample(np.full(4, 3.0), np.full((4, 1), 1.0)))
    guarded = ColumnSettings((2.0,), search, "immediate", (1.0,), PruningSettings())
    course.candidates.tried += [earlier, dataclasses.replace(earlier, settings=guarded)]
    made = []

    def add(self, column):
        made.append(column)
        return Candidate(column, Sample(np.full(4, 2.0 + reward), np.full((4, 1), 1.0)))

    monkeypatch.setattr(generation._Course, "add", add)
    course.roll_out_priced()
    longer = dataclasses.replace(search, rollout="priced", iterations=300, relative_exploration=0.5)
    assert made == [ColumnSettings((2.0,), longer)], "the guarded column is no rival"
    assert course.search == (longer if adopted else search)
    assert made[0].name == "lambda 2, 300 simulations with rollouts at that price, exploration 0.5"
