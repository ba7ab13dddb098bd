"""The exact solver against problems solved by hand, the linear program written out, and simulation."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from cmcts.cli import main
from cmcts.compilation.content import python_function
from cmcts.envs.rocksample.model import rocksample_model
from cmcts.envs.safe_gridworld.model import safe_gridworld_model
from cmcts.errors import InvalidInput, ModelError
from cmcts.exact import solver as exact
from cmcts.exact.column_generation import InfeasibleBudget
from cmcts.exact.finite import FiniteCMDP, TooManyStates, enumerate_states
from cmcts.exact.random_problems import KINDS, random_problem
from cmcts.exact.solver import evaluate, least_cost_to_go, least_costs, penalized_values, policy_cost_to_go, solve
from cmcts.model.worlds import ModelWorld
from cmcts.random import stream
from cmcts.tasks.optimum import Optimum, optimum, solve_task
from cmcts.tasks.registry import make


def gamble(discount: float = 0.5) -> FiniteCMDP:
    """One state, for ever: action 0 earns 0 for nothing, action 1 earns 1 for a cost of 1."""
    return FiniteCMDP.from_tables(np.ones((1, 2, 1)), [[0.0, 1.0]], [[0.0, 1.0]], [1.0], discount)


def corridor() -> FiniteCMDP:
    """Three states in a row, gamma = 1/2: `walk` leads on for a cost of 1, `detour` does so for nothing or stays put.

    State 0: walk -> 1, detour stays. State 1: walk ends (reward 8), detour ends (reward 6). State 2 is never reached.
    """
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 0] = transition[2, 0, 2] = transition[2, 1, 2] = 1.0
    rewards = [[0.0, 0.0], [8.0, 6.0], [0.0, 0.0]]
    costs = [[1.0, 0.0], [1.0, 0.0], [3.0, 1.0]]
    return FiniteCMDP.from_tables(transition, rewards, costs, [1.0, 0.0, 0.0], 0.5)


def written_out(cmdp: FiniteCMDP, budget: np.ndarray) -> float:
    """The optimum by the occupation-measure program as the textbook has it, all of it at once."""
    flow = np.zeros((cmdp.state_count, cmdp.pair_count))
    flow[cmdp.pair_state, np.arange(cmdp.pair_count)] = 1.0
    flow -= cmdp.discount * cmdp.transition.toarray().T
    result = linprog(-cmdp.rewards, A_ub=cmdp.costs.T, b_ub=budget, A_eq=flow, b_eq=cmdp.start, method="highs")
    assert result.success
    return -result.fun


def test_a_gamble_is_mixed_to_meet_the_budget():
    # Always gambling earns and costs 1 / (1 - 1/2) = 2; a quarter of the budget buys a quarter of the gambling.
    solution = solve(gamble(), 0.5)
    assert solution.reward == pytest.approx(0.5, abs=1e-12)
    assert solution.costs == pytest.approx([0.5], abs=1e-12)
    assert solution.multipliers == pytest.approx([1.0], abs=1e-12)
    assert solution.probabilities([0.0]) == pytest.approx([0.75, 0.25], abs=1e-12)
    assert solution.occupation == pytest.approx([1.5, 0.5], abs=1e-12)
    assert solution.reward_values == pytest.approx([0.5], abs=1e-12)
    assert solution.cost_values[:, 0] == pytest.approx([0.5], abs=1e-12)
    assert solution.gap <= 1e-12


def test_a_budget_to_spare_has_no_price():
    solution = solve(gamble(), 2.5)
    assert solution.reward == pytest.approx(2.0) and solution.costs == pytest.approx([2.0])
    assert solution.multipliers == pytest.approx([0.0])
    assert solve(gamble(), np.inf).reward == pytest.approx(2.0)


def test_corridor_by_hand():
    # To get anywhere costs 1; then 6 for free or 8 for another 1, both halved by the discount: (3, 1) or (4, 1.5).
    # A budget of 1.25 pays for either half of the time: 3.5, and half a unit of cost buys 1, so lambda is 2.
    solution = solve(corridor(), 1.25)
    assert solution.reward == pytest.approx(3.5, abs=1e-9)
    assert solution.multipliers == pytest.approx([2.0], abs=1e-9)
    assert solution.probabilities([1.0]) == pytest.approx([0.5, 0.5], abs=1e-9)
    # With a budget of 0.5, half of the walks are given up; a unit of cost buys 3.
    assert solve(corridor(), 0.5).reward == pytest.approx(1.5, abs=1e-9)
    assert solve(corridor(), 0.5).multipliers == pytest.approx([3.0], abs=1e-9)
    assert solve(corridor(), 0.0).reward == pytest.approx(0.0, abs=1e-9)


def test_policies_are_evaluated_exactly():
    # Half walks, half detours everywhere: V(1) = (8 + 6) / 2 = 7; V(0) = (V(1) + V(0)) / 4 = 7 / 3.
    values = evaluate(corridor(), np.full((3, 2), 0.5))
    assert values.reward_values == pytest.approx([7 / 3, 7.0, 0.0], abs=1e-12)
    # Costs: C(1) = 0.5; C(0) = 0.5 + 0.25 C(1) + 0.25 C(0) = 0.625 / 0.75; C(2) = 2 / (1 - 1/2) = 4.
    assert values.cost_values[:, 0] == pytest.approx([0.625 / 0.75, 0.5, 4.0], abs=1e-12)
    assert values.reward == pytest.approx(7 / 3) and values.costs == pytest.approx([0.625 / 0.75])
    with pytest.raises(InvalidInput, match=r"expected action probabilities >= 0 with sum 1, got sum 0.75 in state \[1"):
        evaluate(corridor(), [[0.5, 0.5], [0.5, 0.25], [0.5, 0.5]])


def test_costs_to_go_by_hand():
    cmdp = corridor()
    walking = policy_cost_to_go(cmdp, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    # Q(0, walk) = 1 + 1/2 * 1, Q(0, detour) = 0 + 1/2 * 1.5; in state 2: 3 + 1/2 * 2 and 1 + 1/2 * 2.
    assert cmdp.table(walking[:, 0]) == pytest.approx(np.array([[1.5, 0.75], [1.0, 0.0], [4.0, 2.0]]), abs=1e-12)
    least = least_cost_to_go(cmdp)
    assert cmdp.table(least[:, 0]) == pytest.approx(np.array([[1.0, 0.0], [1.0, 0.0], [4.0, 2.0]]), abs=1e-12)


def test_penalized_values_by_hand():
    # lambda = 1: in state 1, 8 - 1 beats 6; walking from 0 is worth -1 + 1/2 * 7 = 2.5. lambda = 5: staying is best.
    values, action_values = penalized_values(corridor(), 1.0)
    assert values[:2] == pytest.approx([2.5, 7.0], abs=1e-12)
    assert corridor().table(action_values)[:2] == pytest.approx(np.array([[2.5, 1.25], [7.0, 6.0]]), abs=1e-12)
    assert penalized_values(corridor(), 5.0)[0][:2] == pytest.approx([0.0, 6.0], abs=1e-12)


def test_infeasible_budgets_say_what_is_needed():
    always = FiniteCMDP.from_tables(np.ones((1, 2, 1)), [[0.0, 1.0]], [[1.0, 3.0]], [1.0], 0.5)
    with pytest.raises(InfeasibleBudget, match=r"expected a budget of at least 2, got 1.5") as error:
        solve(always, 1.5)
    assert error.value.least == pytest.approx([2.0])
    assert solve(always, 2.0).reward == pytest.approx(0.0, abs=1e-9)


def test_budgets_that_can_only_be_kept_one_at_a_time():
    either = FiniteCMDP.from_tables(np.zeros((1, 2, 1)), [[1.0, 5.0]], [[[1.0, 0.0], [0.0, 1.0]]], [1.0], 0.5)
    with pytest.raises(InfeasibleBudget, match=r"kept together.*at least \[0.0, 0.0\]") as error:
        solve(either, [0.4, 0.4])
    assert error.value.least == pytest.approx([0.0, 0.0])
    solution = solve(either, [0.4, 0.7])
    assert solution.reward == pytest.approx(0.3 * 1.0 + 0.7 * 5.0, abs=1e-9)
    assert solution.multipliers == pytest.approx([0.0, 4.0], abs=1e-9)


def test_constraints_without_a_limit_do_not_matter():
    # Action 1 earns 5 and costs (0, 1), action 0 earns 1 and costs (1, 0): at most 0.3 of the second cost.
    either = FiniteCMDP.from_tables(np.zeros((1, 2, 1)), [[1.0, 5.0]], [[[1.0, 0.0], [0.0, 1.0]]], [1.0], 0.5)
    solution = solve(either, [np.inf, 0.3])
    assert solution.reward == pytest.approx(0.7 * 1.0 + 0.3 * 5.0, abs=1e-9) and solution.gap <= 1e-9
    assert solution.multipliers == pytest.approx([0.0, 4.0], abs=1e-9)
    assert solution.costs == pytest.approx([0.7, 0.3], abs=1e-9)


@settings(max_examples=200)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    states=st.integers(1, 12),
    actions=st.integers(1, 4),
    constraints=st.integers(1, 3),
    discount=st.floats(0.01, 0.97),  # HiGHS, asked directly, drops numbers below 1e-9
    share=st.floats(0.0, 1.0),
)
def test_duality_on_random_problems(seed, kind, states, actions, constraints, discount, share):
    start_states = 1 + int(share * (states - 1))
    problem = random_problem(seed, kind, states, actions, constraints, discount, start_states)
    cmdp, budget, solution = problem.cmdp, problem.budget, problem.solution
    assert (solution.costs <= budget + 1e-7).all() and (solution.multipliers >= 0).all()
    # Strong duality: the best penalised value plus the priced budget is the constrained optimum.
    values, _ = penalized_values(cmdp, solution.multipliers)
    assert cmdp.start @ values + solution.multipliers @ budget == pytest.approx(solution.reward, abs=1e-6)
    # Complementary slackness: what has a price is used up.
    assert np.abs(solution.multipliers * (budget - solution.costs)).max() <= 1e-6
    # It tosses coins in at most as many states as there are constraints.
    used = np.bincount(cmdp.pair_state[solution.occupation > 1e-9], minlength=states)
    assert (used > 1).sum() <= constraints
    # The stochastic policy earns and pays what the solution says, and no other could earn more.
    evaluated = evaluate(cmdp, solution.policy)
    assert evaluated.reward == pytest.approx(solution.reward, abs=1e-6)
    assert evaluated.costs == pytest.approx(solution.costs, abs=1e-6)
    # (A budget that is the only possible cost needs some room for rounding.)
    assert solution.reward == pytest.approx(written_out(cmdp, budget + 1e-9), abs=1e-6)


def test_what_cannot_be_avoided_by_hand():
    """Nobody need gamble, nor leave the corridor; a toll of 1 a step at the least is 2 in all."""
    assert least_costs(gamble()).tolist() == [0.0]
    assert least_costs(corridor()).tolist() == [0.0]
    toll = FiniteCMDP.from_tables(np.ones((1, 2, 1)), [[0.0, 1.0]], [[3.0, 1.0]], [1.0], 0.5)
    assert least_costs(toll) == pytest.approx([2.0])


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_reward_is_concave_in_the_budget(seed, kind):
    problem = random_problem(seed, kind, states=5)
    free = solve(problem.cmdp, np.inf).costs[0]
    floor = float(least_costs(problem.cmdp)[0])
    rewards = [solve(problem.cmdp, b).reward for b in np.linspace(floor + 1e-6, max(free, floor) + 1e-6, 5)]
    assert (np.diff(rewards) >= -1e-7).all() and (np.diff(rewards, 2) <= 1e-7).all()


@pytest.mark.parametrize("stall", [False, True])
def test_sparse_and_dense_linear_algebra_agree(monkeypatch, stall):
    problem = random_problem(3, "sparse", states=60, actions=4, constraints=2, discount=0.97)
    dense = solve(problem.cmdp, problem.budget)
    monkeypatch.setattr(exact, "_DENSE_STATES", 0)
    if stall:
        monkeypatch.setattr("scipy.sparse.linalg.bicgstab", lambda operator, b, **_: (np.full_like(b, np.nan), 1))
    sparse = solve(problem.cmdp, problem.budget)
    assert sparse.reward == pytest.approx(dense.reward, abs=1e-8)
    assert sparse.multipliers == pytest.approx(dense.multipliers, abs=1e-6)
    assert evaluate(problem.cmdp, sparse.policy).costs == pytest.approx(dense.costs, abs=1e-8)


@pytest.mark.parametrize(("budget", "reward"), [(0.0, 55.696), (0.1, 57.705), (np.inf, 70.817)])
def test_safe_gridworld_optimum(budget, reward):
    found = solve_task(make("safe-gridworld"), budget)
    assert found.exact and found.states == 63
    assert found.reward_lower == pytest.approx(reward, abs=5e-4)
    assert found.costs[0] <= budget + 1e-9
    # Without wind nothing pushes into the wall, and the same budget of 0 buys more.
    calm = solve(enumerate_states(safe_gridworld_model(0.0), 0.95), 0.0)
    assert calm.reward == pytest.approx(57.421, abs=5e-4)


def test_simulated_policy_earns_and_pays_what_the_solution_says():
    model = safe_gridworld_model(0.3)
    solution = solve(enumerate_states(model, 0.95), 0.1)
    assert solution.costs[0] == pytest.approx(0.1, abs=1e-9)
    world, dice = ModelWorld(model, max_steps=400), np.random.default_rng(0)
    returns = []
    for episode in range(1500):
        state, _ = world.reset(seed=episode)
        weight, reward_sum, cost_sum, done = 1.0, 0.0, 0.0, False
        while not done:
            action = dice.choice(9, p=solution.probabilities(state))
            state, reward, terminated, truncated, info = world.step(action)
            reward_sum, cost_sum = reward_sum + weight * reward, cost_sum + weight * info["cost"]
            weight, done = weight * 0.95, terminated or truncated
        returns.append((reward_sum, cost_sum))
    means = np.mean(returns, axis=0)
    errors = np.std(returns, axis=0, ddof=1) / np.sqrt(len(returns))
    assert abs(means[0] - solution.reward) <= 3 * errors[0] and errors[0] < 0.5
    assert abs(means[1] - solution.costs[0]) <= 3 * errors[1] and 0 < errors[1] < 0.02


@pytest.mark.parametrize("model", [safe_gridworld_model(0.3), rocksample_model(4, 3)], ids=lambda model: model.name)
def test_outcomes_are_what_step_does(model):
    step, expected_costs = python_function(model.step), python_function(model.expected_costs)
    rng, dice = stream(0), np.random.default_rng(0)
    state, next_state, costs = model.start_state(0), np.zeros(model.state_size), np.zeros(1)
    for _ in range(60):
        for action in model.legal(state):
            chances, states, rewards, all_costs, ends = model.outcomes(model.params, state, int(action))
            assert chances.sum() == pytest.approx(1.0) and (chances > 0).all()
            # A known rock stays known whatever a reading says: two outcomes, one state.
            same = (np.abs(states[:, None] - states) < 1e-12).all(axis=2)
            counts, chances = np.zeros(len(chances)), same @ chances * (np.argmax(same, axis=1) == np.arange(len(same)))
            with np.errstate(over="ignore"):
                for _ in range(60):
                    reward, end = step(model.params, state, int(action), rng, next_state, costs)
                    which = np.flatnonzero((np.abs(states - next_state) < 1e-12).all(axis=1))[0]
                    assert (reward, costs[0], end) == (rewards[which], all_costs[which, 0], ends[which])
                    counts[which] += 1
            # Five standard deviations of a binomial count.
            assert (np.abs(counts - 60 * chances) <= 5 * np.sqrt(60 * chances * (1 - chances)) + 1e-9).all()
            expected_costs(model.params, state, int(action), costs)
            assert costs[0] == pytest.approx(chances @ all_costs[:, 0])
        going = int(dice.choice(model.legal(state)))
        chances, states, _, _, ends = model.outcomes(model.params, state, going)
        state = model.start_state(0) if ends[0] else states[dice.choice(len(chances), p=chances)]


@pytest.mark.parametrize("name", ["safe-gridworld", "rocksample-5-7"])
def test_starts_are_what_start_draws(name):
    model = make(name).real_model
    chances, states = model.starts(model.params)
    drawn = [tuple(model.start_state(seed)) for seed in range(300)]
    frequency = np.array([drawn.count(tuple(state)) / 300 for state in states])
    assert frequency.sum() == pytest.approx(1.0)
    assert np.abs(frequency - chances).max() <= 0.08


def test_enumeration_matches_the_tables():
    problem = random_problem(11, "absorbing", states=9, constraints=2, start_states=9)
    listed = enumerate_states(problem.model, problem.discount)
    assert sorted(listed.states[:, 0]) == list(range(9))
    order = np.argsort(listed.states[:, 0])
    assert listed.table(listed.rewards)[order] == pytest.approx(problem.cmdp.table(problem.cmdp.rewards), abs=1e-12)
    assert listed.start[order] == pytest.approx(problem.cmdp.start, abs=1e-12)
    assert solve(listed, problem.budget).reward == pytest.approx(problem.solution.reward, abs=1e-9)


def test_the_state_limit_is_explained():
    with pytest.raises(TooManyStates, match=r"expected at most 500 reachable states of model 'rocksample', got more"):
        enumerate_states(rocksample_model(3, 2), 0.95, state_limit=500)


def test_models_without_outcomes_are_turned_away():
    model = replace(safe_gridworld_model(0.0), outcomes=None)
    with pytest.raises(InvalidInput, match="expected model 'safe-gridworld' to have the functions outcomes and starts"):
        enumerate_states(model, 0.95)


def test_wrong_outcomes_name_the_culprit():
    model = safe_gridworld_model(0.0)

    def half(params, state, action):
        chances, *rest = model.outcomes(params, state, action)
        return (chances / 2 if tuple(state) == (2.0, 1.0) and action == 4 else chances, *rest)

    with pytest.raises(ModelError, match=r"sum 1, got \[0.5\] for action south in state \[2.0, 1.0\]"):
        enumerate_states(replace(model, outcomes=half), 0.95)


def test_tables_without_a_legal_action_name_the_state():
    legal = [[True, True], [False, False]]
    with pytest.raises(ModelError, match=r"at least one legal action in every state, got none in state \[1.0\]"):
        FiniteCMDP.from_tables(np.full((2, 2, 2), 0.5), np.ones((2, 2)), np.ones((2, 2)), [1.0, 0.0], 0.5, legal)


def test_optimum_is_none_where_it_is_not_known():
    task = make("safe-gridworld")
    assert optimum(replace(task, real_model=None)) is None
    assert optimum(replace(task, real_model=replace(task.real_model, outcomes=None))) is None
    assert optimum(task, [0.0, 0.0]) is None
    known = optimum(task)
    assert known is not None and known.regret(50.0) == pytest.approx(5.696, abs=5e-4)
    with pytest.raises(InvalidInput, match="to have a real_model"):
        solve_task(replace(task, real_model=None))


def test_bounds_that_differ_are_not_called_exact():
    loose = Optimum(9.0, 10.0, (1.0,), (4.0,), 5, 0.1)
    assert not loose.exact and "reward" not in loose.to_dict()
    assert (loose.to_dict()["reward_lower"], loose.to_dict()["reward_upper"]) == (9.0, 10.0)


def test_command_prints_json(capsys):
    assert main(["solve", "safe-gridworld", "--budget", "0.1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["task"] == "safe-gridworld" and printed["budget"] == [0.1]
    assert printed["reward"] == pytest.approx(57.705, abs=5e-4)
    assert printed["cost"] == pytest.approx(0.1) and printed["states"] == 63 and printed["seconds"] >= 0
    assert printed["multipliers"] == pytest.approx([20.089], abs=1e-3)


def test_command_prints_text_and_errors(capsys):
    assert main(["solve", "safe-gridworld"]) == 0
    assert "reward        55.696271" in capsys.readouterr().out
    assert main(["solve", "safe-gridworld", "--budget", "1", "2"]) == 2
    assert "expected a budget of 1 numbers" in capsys.readouterr().err
