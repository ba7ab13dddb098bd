"""The exact policy as a planner that looks up: what it earns, what it refuses, and its file."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import cmcts
from cmcts.cli import main
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import run_episodes
from cmcts.evaluation.statistics import standard_error
from cmcts.exact.finite import enumerate_states
from cmcts.exact.policy import TabularPolicy
from cmcts.exact.solver import evaluate
from cmcts.tasks.optimum import exact_policy, solve_task

TASK = cmcts.make("random-absorbing-3")


@pytest.fixture(scope="module")
def policy():
    return exact_policy(TASK)


def test_it_earns_the_optimum_and_keeps_the_budget(policy):
    best = solve_task(TASK)
    assert (policy.reward, policy.costs) == (pytest.approx(best.reward_lower), pytest.approx(best.costs))
    done, _ = run_episodes(policy, TASK.real_world, TASK.budget, episodes=3000, seed=4)
    assert abs(done.rewards.mean() - best.reward_lower) <= 4 * standard_error(done.rewards)
    assert abs(done.costs.mean() - best.costs[0]) <= 4 * standard_error(done.costs[:, 0])


def test_it_tosses_coins_where_the_optimum_does(policy):
    mixed = [
        state
        for state in range(8)
        if ((chances := policy.plan([state], TASK.budget).probabilities) > 0).sum() > 1 and chances.sum() == 1.0
    ]
    assert len(mixed) == 1, "one constraint that binds: one coin"
    chances = policy.plan(mixed, TASK.budget).probabilities
    drawn = [policy.plan(mixed, TASK.budget, rng=seed).action for seed in range(2000)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=len(chances)) / 2000, chances, atol=0.05)


def test_a_file_keeps_all_of_it(policy, tmp_path):
    policy.save(tmp_path / "best.policy")
    again = TabularPolicy.load(tmp_path / "best.policy", TASK.model)
    assert (again.budget, again.reward, again.costs) == (policy.budget, policy.reward, policy.costs)
    for state in range(8):
        one, other = (each.plan([state], TASK.budget, rng=7) for each in (policy, again))
        assert one.action == other.action
        np.testing.assert_array_equal(one.cost_values, other.cost_values)


def test_what_does_not_fit_is_refused_by_name(policy, tmp_path):
    file = tmp_path / "best.policy"
    policy.save(file)
    with pytest.raises(InvalidInput, match=r"solved for model .* differs"):
        TabularPolicy.load(file, cmcts.make("random-absorbing-4").model)
    with pytest.raises(InvalidInput, match="cannot read"):
        TabularPolicy.load(tmp_path / "none", TASK.model)
    chances = np.full((1, 3), 1 / 3)
    small = TabularPolicy(TASK.model, np.zeros((1, 1)), chances, np.zeros((1, 3)), np.zeros((1, 3, 1)), 0.9)
    with pytest.raises(InvalidInput, match=r"a state that the exact policy knows, got \[5.0\]"):
        small.plan([5.0], TASK.budget)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InvalidInput, match="it is damaged"):
        TabularPolicy.load(file, TASK.model)
    with pytest.raises(InvalidInput, match="to have a real_model that knows its outcomes and starts"):
        exact_policy(cmcts.make("rocksample-5-7-leak"))


@pytest.mark.parametrize("change", ["probabilities", "shape"])
def test_tables_that_cannot_be_are_refused(policy, change):
    states, chances, values = np.zeros((1, 1)), np.full((1, 3), 1 / 3), np.zeros((1, 3))
    costs = np.zeros((1, 3, 1))
    if change == "shape":
        costs = costs[:, :2]
    else:
        chances = chances * 2
    with pytest.raises(InvalidInput, match=r"cost_values of shape|probabilities >= 0 with sum 1"):
        TabularPolicy(TASK.model, states, chances, values, costs, 0.9)


def test_the_command_line_solves_and_plays_it(capsys, tmp_path):
    file = tmp_path / "best.policy"
    assert main(["solve", TASK.name, "--policy", str(file)]) == 0
    assert f"cmcts evaluate {TASK.name} --policy {file}" in capsys.readouterr().out
    assert main(["evaluate", TASK.name, "--policy", str(file), "--episodes", "50", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["planner"] == "exact" and said["keep"] == "mean" and said["budget"] == list(TASK.budget)
    assert main(["plan", TASK.name, "--policy", str(file), "--budget", "1"]) == 2
    assert "expected --policy alone" in capsys.readouterr().err
    assert main(["plan", TASK.name, "--planner", "exact"]) == 2
    assert f"which `cmcts solve {TASK.name} --policy FILE` writes" in capsys.readouterr().err
    assert main(["plan", TASK.name, "--planner", "cmcts", "--policy", str(file)]) == 2
    assert "expected --policy with planner exact alone" in capsys.readouterr().err


def test_costs_that_are_not_discounted_are_kept_over_time():
    """At most so much an episode of six steps: the best policy depends on how many are left."""
    search = dataclasses.replace(TASK.search, cost_discounts=1.0)
    task = cmcts.Task("timed", TASK.model, budget=0.6, search=search, episode_steps=6)
    policy = exact_policy(task)
    assert policy.costs[0] == pytest.approx(0.6)
    done, _ = run_episodes(policy, task.real_world, task.budget, episodes=2000, seed=4)
    np.testing.assert_allclose(done.costs, done.total_costs)
    assert abs(done.costs.mean() - 0.6) <= 4 * standard_error(done.costs[:, 0])
    assert abs(done.rewards.mean() - policy.reward) <= 4 * standard_error(done.rewards)


def test_any_policy_can_be_played_and_knows_its_exact_values():
    """By pairs and by a table: the coin that takes each action equally often."""
    cmdp = enumerate_states(TASK.model, TASK.discount)
    by_pairs = np.ones(cmdp.pair_count) / np.bincount(cmdp.pair_state)[cmdp.pair_state]
    values = evaluate(cmdp, by_pairs)
    for chances in (by_pairs, cmdp.table(by_pairs)):
        policy = TabularPolicy.playing(cmdp, chances, TASK.model)
        assert policy.reward == values.reward and policy.costs == policy.budget == tuple(values.costs)
        decision = policy.plan(cmdp.states[0], 0.0)
        assert decision.probabilities == pytest.approx(np.full(3, 1 / 3))
        assert decision.probabilities @ decision.reward_values == pytest.approx(values.reward_values[0])
        assert decision.probabilities @ decision.cost_values == pytest.approx(values.cost_values[0])
