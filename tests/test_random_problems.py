"""Random problems: the same from a seed, as their kind says, solvable, and what planners converge to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmcts.compilation.content import python_function
from cmcts.errors import InvalidInput
from cmcts.exact.finite import tabular_cmdp
from cmcts.exact.random_problems import KINDS, random_problem
from cmcts.exact.solver import penalized_values, solve
from cmcts.model.tabular import TabularParams, tabular_model
from cmcts.planning.planners import PenalizedMCTS
from cmcts.random import stream
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make
from conftest import compiled_only


def test_a_seed_names_one_problem():
    one, again, other = random_problem(5), random_problem(5), random_problem(6)
    assert (one.cmdp.rewards == again.cmdp.rewards).all() and (one.budget == again.budget).all()
    assert not (one.cmdp.rewards == other.cmdp.rewards).any()
    # Pinned, so that published figures keep their meaning.
    assert one.solution.reward == pytest.approx(6.84728270, abs=1e-6)
    assert one.budget[0] == pytest.approx(3.08047559, abs=1e-6)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), constraints=st.integers(1, 3))
def test_kinds_and_budgets(seed, kind, constraints):
    problem = random_problem(seed, kind, states=6, actions=3, constraints=constraints)
    going_on = np.asarray(problem.cmdp.transition.sum(axis=1)).ravel()
    successors = np.diff(problem.cmdp.transition.indptr)
    assert (successors == 6).all() if kind == "dense" else (successors <= 3).all()
    assert (going_on < 1).all() and (going_on >= 0.6).all() if kind == "absorbing" else going_on == pytest.approx(1.0)
    # The budget binds (some constraint has a price) whenever the unconstrained optimum would overspend.
    overspends = bool((solve(problem.cmdp, [np.inf] * constraints).costs > problem.budget + 1e-9).any())
    assert (problem.solution.multipliers > 0).any() == overspends


def test_the_budget_usually_binds():
    assert np.mean([random_problem(seed, "sparse").solution.multipliers[0] > 0 for seed in range(30)]) > 0.9


def coin() -> TabularParams:
    """State 0: stays (1/4), goes to 1 (1/2) or ends (1/4), earns 2 and costs (1, 3). State 1 goes to 0 for nothing."""
    return TabularParams(
        successors=np.array([[[0, 1]], [[0, 0]]]),
        cumulative=np.array([[[0.25, 0.75]], [[1.0, 1.0]]]),
        rewards=np.array([[2.0], [0.0]]),
        costs=np.array([[[1.0, 3.0]], [[0.0, 0.0]]]),
        start_cumulative=np.array([0.25, 1.0]),
    )


def test_tables_as_model_and_as_matrices_by_hand():
    cmdp = tabular_cmdp(coin(), 0.5)
    assert cmdp.transition.toarray() == pytest.approx(np.array([[0.25, 0.5], [1.0, 0.0]]))
    # V(0) = 2 + V(0) / 8 + V(1) / 4 and V(1) = V(0) / 2, so V(0) = 2 / (1 - 1/8 - 1/8) = 8 / 3.
    solution = solve(cmdp, [9.0, 9.0])
    assert solution.reward_values == pytest.approx([8 / 3, 4 / 3])
    assert solution.cost_values == pytest.approx(np.array([[4 / 3, 4.0], [2 / 3, 2.0]]))
    assert solution.reward == pytest.approx(0.25 * 8 / 3 + 0.75 * 4 / 3)
    model = tabular_model(coin())
    step, rng, next_state, costs = python_function(model.step), stream(0), np.zeros(1), np.zeros(2)
    seen = {}
    with np.errstate(over="ignore"):
        for _ in range(4000):
            reward, end = step(model.params, np.zeros(1), 0, rng, next_state, costs)
            assert reward == 2.0 and costs.tolist() == [1.0, 3.0]
            seen[next_state[0], end] = seen.get((next_state[0], end), 0) + 1 / 4000
    assert seen == {(0.0, False): pytest.approx(0.25, abs=0.03), (1.0, False): pytest.approx(0.5, abs=0.03),
                    (2.0, True): pytest.approx(0.25, abs=0.03)}  # fmt: skip
    starts = [model.start_state(seed)[0] for seed in range(1000)]
    assert np.mean(starts) == pytest.approx(0.75, abs=0.05)
    assert model.feature_vector([1.0]).tolist() == [0.0, 1.0] and model.feature_vector([2.0]).tolist() == [0.0, 0.0]


def test_impossible_states_and_kinds_are_turned_away():
    problem = random_problem(0)
    with pytest.raises(InvalidInput, match=r"expected a state number from 0 to 7, got 8\.0"):
        problem.model.validate_state([8.0])
    with pytest.raises(InvalidInput, match="expected kind to be one of"):
        random_problem(0, "circular")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="expected actions >= 1, got 0"):
        random_problem(0, actions=0)


def test_random_problems_are_tasks():
    task, problem = make("random-sparse-3"), random_problem(3, "sparse")
    assert task.budget == tuple(problem.budget) and task.discount == problem.discount
    assert (task.real_model.params.rewards == problem.model.params.rewards).all()
    world = task.real_world()
    observation, _ = world.reset(seed=0)
    _, reward, _, _, info = world.step(1)
    number = int(observation[0])
    assert (
        reward == problem.model.params.rewards[number, 1] and info["cost"] == problem.model.params.costs[number, 1, 0]
    )


@compiled_only
@pytest.mark.parametrize("kind", KINDS)
def test_penalized_search_converges_to_the_exact_value(kind):
    problem = random_problem(1, kind, states=5, actions=2, discount=0.7)
    multipliers = problem.solution.multipliers
    values, action_values = penalized_values(problem.cmdp, multipliers)
    table = problem.cmdp.table(action_values)
    planner = PenalizedMCTS(problem.model, multipliers, SearchSettings(discount=0.7, exploration=0.5))
    errors = []
    for iterations in (1 << 8, 1 << 12, 1 << 16):
        decisions = [planner.plan([s], problem.budget, iterations=iterations, rng=s) for s in range(5)]
        found = [d.reward_values[d.action] - d.cost_values[d.action] @ multipliers for d in decisions]
        errors.append(np.abs(found - values).max())
    assert [table[s, d.action] for s, d in enumerate(decisions)] == pytest.approx(values, abs=1e-9)
    assert errors[1] < 0.7 * errors[0] and errors[2] < 0.7 * errors[1]
    assert errors[2] < 0.08 and np.ptp(table) > 0.5  # against values that differ much more
