"""RockSample with energy: two constraints, from the rules to the exact optimum."""

from __future__ import annotations

import numpy as np
import pytest

from cmcts.compilation.content import python_function
from cmcts.critic.ensemble import immediate_costs_only
from cmcts.envs.rocksample.energy import energy_model
from cmcts.evaluation.episodes import run_episodes
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import solve
from cmcts.model.check import check_model
from cmcts.planning.planners import CMCTS
from cmcts.random import stream
from cmcts.tasks.registry import make
from conftest import compiled_only

TASK = make("rocksample-4-2-energy")
NORTH, EAST, SAMPLE, SENSE_0 = 0, 1, 4, 5


def test_what_steps_cost():
    """Rocks of (4, 2) are at (0, 3) and (2, 1); the start is (0, 2). A move takes a quarter."""
    model, costs, after = energy_model(4, 2), np.zeros(2), np.zeros(4)
    start = model.start_state()
    for action, paid in ((NORTH, [0.0, 0.25]), (EAST, [0.0, 0.25]), (SENSE_0, [1.0, 0.0])):
        python_function(model.step)(model.params, start, action, stream(0), after, costs)
        assert costs.tolist() == paid
        python_function(model.expected_costs)(model.params, start, action, costs)
        assert costs.tolist() == paid
    on_rock = np.array([0.0, 3.0, 0.5, 0.5])
    python_function(model.step)(model.params, on_rock, SAMPLE, stream(0), after, costs)
    assert costs.tolist() == [0.0, 0.0] and after.tolist() == [0.0, 3.0, -1.0, 0.5]


def test_a_rock_answers_once():
    model = energy_model(4, 2)
    asked = np.array([0.0, 2.0, 0.8, 0.5])
    assert sorted(model.legal(asked)) == [0, 1, 2, 6], "no second question to rock 0"
    after, costs = np.zeros(4), np.zeros(2)
    python_function(model.step)(model.params, asked, SENSE_0, stream(0), after, costs)
    assert after.tolist() == asked.tolist() and costs.tolist() == [1.0, 0.0]
    world = TASK.real_world()
    world.reset(seed=3)
    first, *_, info = world.step(SENSE_0)
    second, *_, again = world.step(SENSE_0)
    assert first[2] != 0.5 and second.tolist() == first.tolist()
    assert info["cost"].tolist() == again["cost"].tolist() == [1.0, 0.0]
    *_, info = world.step(EAST)
    assert info["cost"].tolist() == [0.0, 0.25]


def test_the_model_keeps_its_contract():
    assert check_model(TASK.model) == []


@pytest.fixture(scope="module")
def cmdp():
    return enumerate_states(TASK.model, TASK.discount)


def test_both_constraints_bind(cmdp):
    """Less of either budget earns less; without the second, the rover would drive further than it may."""
    best = solve(cmdp, TASK.budget)
    assert best.reward == pytest.approx(12.154, abs=1e-3)
    assert best.costs == pytest.approx([1.0, 1.0])
    assert best.multipliers == pytest.approx([3.366, 1.084], abs=1e-3)
    assert best.gap < 1e-6
    assert solve(cmdp, (1.0, np.inf)).costs[1] > 1.0
    # The straight way out: four moves, and nothing can be earned on the way.
    straight = 0.25 * (1 - 0.95**4) / 0.05
    assert solve(cmdp, (0.0, straight)).reward == pytest.approx(10 * 0.95**3)


@compiled_only
def test_what_is_left_of_both_budgets_is_kept():
    """With a critic that knows immediate costs alone, measurements are kept within their budget in every episode."""
    planner = CMCTS(TASK.model, immediate_costs_only(TASK.model), TASK.search, TASK.pruning)
    episodes, steps = run_episodes(planner, TASK.real_world, TASK.budget, episodes=40, seed=0, iterations=64)
    summary = episodes.summary()
    assert steps.costs.shape[1] == 2
    assert summary.cost_violations[0] == 0 and summary.cost_means[0] <= 1.0
    assert summary.cost_means == pytest.approx(episodes.costs.mean(axis=0).tolist())
    moves = (steps.actions < SAMPLE).sum()
    assert episodes.total_costs[:, 1].sum() == pytest.approx(0.25 * moves)


def test_a_decision_names_what_is_short():
    """On the west edge with half of the energy left the way out is too far, and there is no measurement to pay."""
    planner = CMCTS(TASK.model, immediate_costs_only(TASK.model), TASK.search, TASK.pruning)
    decision = planner.plan(TASK.model.start_state(), (0.5, 0.2), iterations=16)
    assert decision.pruned_by[EAST].tolist() == [False, True]
    assert decision.reason(EAST) == "energy: immediate cost exceeds the 0.2 left"
    assert decision.reason(SENSE_0) == "measurements: immediate cost exceeds the 0.5 left"
    assert decision.nothing_safe
    assert decision.to_dict()["cost_names"] == ["measurements", "energy"]
