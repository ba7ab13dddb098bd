"""Environments and models in tables: the same problem, found by stepping, whole or in two goes."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import cmcts
from cmcts.compilation.content import uncompiled
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import run_episodes
from cmcts.exact import tabulate as tabulation
from cmcts.exact.expansion import Expander
from cmcts.exact.finite import FiniteCMDP, enumerate_states
from cmcts.exact.solver import solve
from cmcts.model.worlds import EnvWorld, world_of
from cmcts.random import next_uint64
from cmcts.tasks.optimum import exact_policy
from test_from_env import Dice, Numbered, by_square, hole, lake

EXAMPLES = Path(__file__).parent.parent / "examples"


def optimum(model, budget, discount=0.95):
    return solve(enumerate_states(model, discount), budget).reward


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one.params, other.params, strict=True))


@pytest.mark.parametrize("options", [by_square, {"ignored": ("lastaction",)}], ids=["numbers", "copies"])
def test_the_lake_is_read_from_its_own_table(options):
    small = partial(lake, desc=["SFHF", "FHFG"])
    tables = cmcts.Model.tabulate(small, costs=hole, **options)
    assert len(tables.params.mean_costs) == 3  # the start, a square between two holes, and one below the start
    assert "3 states, 12 actions in them, legal without a mask (12 from the environment's P), 1 starts" in tables.origin
    own = small().unwrapped.P
    here = np.argmax(tables.params.features[:-1], axis=1)  # which square each state is
    for state, square in enumerate(here):
        for action in range(4):
            expected = {}
            for p, to, reward, end in own[square][action]:
                key = (-1 if end else to, reward, float(end and reward == 0), end)
                expected[key] = expected.get(key, 0.0) + p
            chances, states, rewards, costs, ends = tables.outcomes(tables.params, np.array([float(state)]), action)
            found = {
                (-1 if end else here[int(to)], reward, cost, end): p
                for p, to, reward, cost, end in zip(chances, states[:, 0], rewards, costs[:, 0], ends, strict=True)
            }
            assert found == pytest.approx(expected)


def test_the_examples_have_the_same_optimum_in_tables():
    """Exactly: where an environment says what it does, nothing is estimated."""
    for name in ("frozen_lake", "cliff_walking"):
        task = cmcts.make(f"{EXAMPLES}/{name}.py:task")
        tables = cmcts.Model.tabulate(task.model)
        assert "from the model's outcomes" in tables.origin
        stepped = cmcts.Model.tabulate(silent(task.model))
        for made in (tables, stepped):
            assert optimum(made, task.budget) == pytest.approx(optimum(task.model, task.budget), abs=1e-12)


def silent(model):
    """The same model, which does not say what can happen."""
    return dataclasses.replace(model, outcomes=None, starts=None)


def test_a_model_of_functions_can_be_tabulated_too():
    task = cmcts.make("safe-gridworld")
    tables = cmcts.Model.tabulate(task.real_model)
    assert optimum(tables, 0.0) == pytest.approx(optimum(task.real_model, 0.0))
    assert tables.feature_vector([3.0]).shape == (task.real_model.feature_count,)
    sampled = cmcts.Model.tabulate(silent(task.real_model), samples=20)
    assert "certain, by one step each" in sampled.origin and "by 20 steps each" in sampled.origin


def test_chances_are_counted_where_nobody_states_them():
    tables = cmcts.Model.tabulate(Numbered, samples=200)
    chances, _, rewards, costs, ends = tables.outcomes(tables.params, np.array([0.0]), 0)
    assert len(chances) == 6 and not ends.any() and not rewards.any()
    assert np.abs(chances - 1 / 6).max() < 0.11  # 200 throws: 4 standard deviations
    assert costs[:, 0].sum() == 1.0  # one of them, the one, costs
    assert tables.legal([0.0]).tolist() == [0]
    assert "by 200 steps each: probabilities to ±0.069 (95 %), and what happens less than once in 66" in tables.origin
    assert "certain" in tables.origin  # to stop throws no dice


@pytest.mark.parametrize("factory", [Numbered, Dice], ids=["numbers", "copies"])
def test_processes_change_nothing(factory, monkeypatch):
    monkeypatch.setattr(tabulation, "_WORTH_FORKING", 0.0)
    model = cmcts.Model.from_env(factory, snapshots=40)
    made = [tabulation.tabulate(model, limit=1000, samples=20, processes=processes) for processes in (1, 3)]
    assert same(*made) and len(made[0].params.mean_costs) > 100


@pytest.mark.parametrize("factory", [Numbered, Dice], ids=["numbers", "copies"])
def test_an_interrupted_listing_goes_on(factory, monkeypatch, tmp_path):
    whole = tabulation.tabulate(cmcts.Model.from_env(factory), limit=1000, samples=20)
    file, expand, calls = tmp_path / "dice.tables", Expander.expand, []

    def interrupted(self, number, row):
        calls.append(number)
        if number == 30 and calls.count(30) == 1:
            raise KeyboardInterrupt
        return expand(self, number, row)

    monkeypatch.setattr(Expander, "expand", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cmcts.Model.tabulate(factory, samples=20, cache=file, processes=1)
    saved = len(calls)
    assert saved > 20 and file.is_file()
    resumed = cmcts.Model.tabulate(factory, samples=20, cache=file, processes=1)
    assert same(resumed, whole)
    assert 0 not in calls[saved:]  # what was done was not done again, but for a block of a second
    done = len(calls)
    assert same(cmcts.Model.tabulate(factory, samples=20, cache=file, processes=1), whole)
    assert len(calls) == done  # and the third time nothing was


def test_a_cache_of_something_else_is_made_anew(tmp_path):
    file = tmp_path / "lake.tables"
    first = cmcts.Model.tabulate(lake, costs=hole, cache=file, **by_square)
    for changes in ({"costs": lambda *arguments: 2.0}, {"costs": hole, "features": lambda square: [square]}):
        other = cmcts.Model.tabulate(lake, cache=file, **by_square, **changes)
        assert not same(first, other)
    slippery = cmcts.Model.tabulate(partial(lake, success_rate=0.9), costs=hole, cache=file, **by_square)
    assert not same(first, slippery)
    whole = bytearray(file.read_bytes())
    whole[-3] ^= 1
    file.write_bytes(whole)
    with pytest.raises(InvalidInput, match=r"expected .*lake.tables as it was written, got a damaged file: remove it"):
        cmcts.Model.tabulate(partial(lake, success_rate=0.9), costs=hole, cache=file, **by_square)
    file.write_bytes(b"nonsense")
    with pytest.raises(InvalidInput, match=r"expected .*lake.tables to hold tables, got something else"):
        cmcts.Model.tabulate(lake, costs=hole, cache=file, **by_square)


def test_too_many_states_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"expected at most 50 reachable states of model 'Numbered', got more; "):
        cmcts.Model.tabulate(Numbered, limit=50, samples=10)
    file = tmp_path / "dice.tables"
    with pytest.raises(InvalidInput, match="expected at most 50 reachable states"):
        cmcts.Model.tabulate(Numbered, limit=50, samples=10, cache=file)
    resumed = cmcts.Model.tabulate(Numbered, samples=10, cache=file)  # what was found is kept, and kept whole
    assert same(resumed, cmcts.Model.tabulate(Numbered, samples=10))
    with pytest.raises(InvalidInput, match="expected a model without time in its state"):
        cmcts.Model.tabulate(cmcts.with_time(cmcts.make("safe-gridworld").model, 5))
    with pytest.raises(InvalidInput, match=r"expected options with an environment alone, .*, got \['costs'\]"):
        cmcts.Model.tabulate(cmcts.make("safe-gridworld").model, costs=hole)


def test_its_world_is_the_environment_in_numbers():
    model = cmcts.Model.from_env(lake, costs=hole, **by_square)
    tables = cmcts.Model.tabulate(model)
    world, original = world_of(tables), EnvWorld(model)
    state, _ = world.reset(seed=3)
    row, _ = original.reset(seed=3)
    for action in (1, 2, 1, 2, 1, 2, 1):
        assert tables.feature_vector(state).tolist() == row[:16].tolist()
        state, *ours = world.step(action)
        row, *theirs = original.step(action)
        assert ours == theirs
        if theirs[1]:
            break
    assert theirs[1] and state[0] == 11
    world.reset(seed=0)
    world.numbers = {}
    with pytest.raises(InvalidInput, match=r"expected one of the 0 states that were tabulated, got \[17 numbers; "):
        world.step(0)


def test_planners_keep_the_budget_in_the_environment():
    """By the optimal policy of the tables, in the world itself: what was solved is what happens."""
    tables = cmcts.Model.tabulate(partial(lake, success_rate=0.9), costs=hole, **by_square)
    task = cmcts.Task("lake", tables, budget=0.2)
    policy = exact_policy(task)
    episodes, _ = run_episodes(policy, task.real_world, task.budget, episodes=150, seed=1)
    summary = episodes.summary()
    low, high = summary.reward_interval
    assert low <= policy.reward <= high
    assert summary.cost_intervals[0].low <= policy.costs[0] <= 0.2 + 1e-9


def test_rollout_policies_are_tabulated():
    def coin(square, rng):
        return int(uncompiled(next_uint64)(rng) >> np.uint64(63))

    certain = cmcts.Model.tabulate(lake, costs=hole, rollout_action=lambda square, rng: square % 4, **by_square)
    squares = np.argmax(certain.params.features[:-1], axis=1)
    assert certain.params.guesses.tolist() == [[square % 4] for square in squares]
    tossed = cmcts.Model.tabulate(lake, costs=hole, rollout_action=coin, **by_square)
    assert tossed.params.guesses.shape == (11, 16)
    assert set(tossed.params.guesses.ravel()) == {0, 1}
    rng = cmcts.stream(0)
    with np.errstate(over="ignore"):
        drawn = {tossed.uncompiled.rollout_action(tossed.params, np.array([2.0]), rng) for _ in range(40)}
    assert drawn == {0, 1}


def test_the_taxi_has_the_optimum_of_its_own_table():
    """A table of 500 states read without a step, against the 400 that stepping finds."""
    task = cmcts.make(f"{EXAMPLES}/taxi.py:task")
    env = gymnasium.make("Taxi-v4").unwrapped
    transition, rewards, costs = np.zeros((500, 6, 500)), np.zeros((500, 6)), np.zeros((500, 6, 1))
    legal = np.array([env.action_mask(state) for state in range(500)], bool)
    for state in range(500):
        for action in range(6):
            ((_, to, reward, end),) = env.P[state][action]
            rewards[state, action], transition[state, action, to] = reward, not end
            costs[state, action] = (to // 100, to // 20 % 5) in ((1, 1), (2, 3), (3, 3))
    own = FiniteCMDP.from_tables(transition, rewards, costs, env.initial_state_distrib, task.discount, legal)
    for budget in (0.0, 0.5):
        assert optimum(task.model, budget) == pytest.approx(solve(own, budget).reward, abs=1e-9)
    assert "400 states, 1,116 actions in them, legal by info" in task.model.origin


class Moody(Numbered):
    """Whether stopping pays is decided by dice of its own."""

    def __init__(self):
        super().__init__()
        self.own_dice = np.random.default_rng(0).random

    def step(self, action):
        observation, _, ended, truncated, info = super().step(action)
        return observation, float(self.own_dice()), ended, truncated, info


def test_dice_that_nobody_saw_are_refused():
    with pytest.raises(InvalidInput, match="throws none of its dice to do the same twice, got two results for"):
        cmcts.Model.tabulate(Moody, samples=5)
