"""Exact solutions over (time, state): discounts that differ, and none at all."""

import dataclasses
import re
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import run_episodes
from cmcts.exact.finite import FiniteCMDP, enumerate_states
from cmcts.exact.solver import (
    evaluate,
    least_cost_to_go,
    occupation_measure,
    penalized_values,
    policy_cost_to_go,
    solve,
)
from cmcts.model.interface import Model
from cmcts.model.timed import with_time
from cmcts.planning.agent import Agent
from cmcts.planning.planners import PenalizedMCTS
from cmcts.search.settings import SearchSettings
from cmcts.tasks.optimum import optimum, solve_task
from cmcts.tasks.registry import make
from cmcts.tasks.task import Task
from trap_grid import trap_model

TINY = trap_model("sxg .g.", slide=0.2)
STEPS = 6
DISCOUNTS = [(1.0, 1.0), (0.9, 1.0), (1.0, 0.7), (0.8, 0.8)]


def best_by_hand(price, reward_discount, cost_discount, model=TINY, steps=STEPS):
    """The most that reward - price * cost can be: plain recursion over what the untimed model says can happen."""

    @cache
    def value(state, time):
        if time == steps:
            return 0.0
        best = -np.inf
        for action in model.legal(np.array(state)).tolist():
            total = 0.0
            for chance, row, reward, costs, end in zip(
                *model.outcomes(model.params, np.array(state), action), strict=True
            ):
                gain = reward_discount**time * reward - price * cost_discount**time * costs[0]
                total += chance * (gain + (0.0 if end else value(tuple(row.tolist()), time + 1)))
            best = max(best, total)
        return best

    return value(tuple(model.starts(model.params)[1][0].tolist()), 0)


@pytest.mark.parametrize(("reward_discount", "cost_discount"), DISCOUNTS)
def test_the_optimum_is_that_of_backward_induction(reward_discount, cost_discount):
    cmdp = enumerate_states(with_time(TINY, STEPS), reward_discount, cost_discounts=(cost_discount,))
    free = solve(cmdp, np.inf)
    assert free.reward == pytest.approx(best_by_hand(0.0, reward_discount, cost_discount), abs=1e-12)
    budget = 0.5 * free.costs[0]
    solution = solve(cmdp, budget)
    # Strong duality: the optimum is the least of best(lambda) + lambda * budget over all prices.
    dual = minimize_scalar(
        lambda price: best_by_hand(price, reward_discount, cost_discount) + price * budget,
        bounds=(0.0, 60.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert solution.reward == pytest.approx(dual.fun, abs=1e-6) and solution.reward < free.reward
    assert solution.costs[0] == pytest.approx(budget) and solution.gap <= 1e-9
    price = float(solution.multipliers[0])
    values, _ = penalized_values(cmdp, price)
    assert values[0] == pytest.approx(best_by_hand(price, reward_discount, cost_discount), abs=1e-9)


@pytest.mark.parametrize(("reward_discount", "cost_discount"), DISCOUNTS)
def test_the_optimal_policy_earns_and_pays_what_the_solution_says(reward_discount, cost_discount):
    cmdp = enumerate_states(with_time(TINY, STEPS), reward_discount, cost_discounts=(cost_discount,))
    solution = solve(cmdp, 0.05)
    values = evaluate(cmdp, solution.policy)
    assert values.reward == pytest.approx(solution.reward, abs=1e-9)
    assert (values.costs <= solution.costs + 1e-9).all(), "of equally good policies, a vertex may pay less"
    split = (solution.policy > 1e-9) & (solution.policy < 1.0 - 1e-9) & (solution.occupation > 1e-12)
    assert len(np.unique(cmdp.pair_state[split])) <= 1, "one coin is enough for one constraint"
    times = STEPS - cmdp.states[cmdp.pair_state, -1]
    counted = solution.occupation * (1.0 if reward_discount == cost_discount else reward_discount**times)
    assert counted @ cmdp.rewards == pytest.approx(solution.reward, abs=1e-9)


def test_values_of_a_policy_count_each_cost_by_its_own_discount():
    """Three steps of the only action: reward 1 and costs (1, 1) each."""
    tables = np.zeros((3, 1, 3))
    tables[0, 0, 1] = tables[1, 0, 2] = 1.0
    cmdp = FiniteCMDP.from_tables(
        tables, np.ones((3, 1)), np.ones((3, 1, 2)), [1.0, 0.0, 0.0], 0.5, cost_discounts=(1.0, 0.1)
    )
    values = evaluate(cmdp, np.ones(3))
    assert (values.reward, *values.costs) == pytest.approx((1.75, 3.0, 1.11))
    assert values.cost_values[1] == pytest.approx([2.0, 1.1]), "as seen from the second step"
    assert policy_cost_to_go(cmdp, np.ones(3)) == pytest.approx(values.cost_values)
    assert least_cost_to_go(cmdp) == pytest.approx(values.cost_values)
    assert occupation_measure(cmdp, np.arange(3)).tolist() == [1.0, 1.0, 1.0]


def test_time_unrolled_is_time_listed():
    model = with_time(TINY, STEPS)
    unrolled = enumerate_states(model, 0.9, cost_discounts=(1.0,))
    listed = enumerate_states(dataclasses.replace(model, untimed=None), 0.9, cost_discounts=(1.0,))
    assert unrolled.state_count == listed.state_count and unrolled.pair_count == listed.pair_count
    numbers = [listed.number(state) for state in unrolled.states]
    assert sorted(numbers) == list(range(listed.state_count))
    assert solve(unrolled, 0.03).reward == pytest.approx(solve(listed, 0.03).reward, abs=1e-10)
    assert unrolled.times.tolist() == (STEPS - unrolled.states[:, -1]).tolist()


def count_up(params, state, action):
    return np.ones(1), state[None] + 1.0, np.array([float(action)]), np.array([[float(action)]]), np.zeros(1, np.bool_)


def test_a_model_with_endless_states_is_finite_in_finite_time():
    nothing = TINY
    model = Model(
        "counting",
        None,
        nothing.step,
        lambda params, state, out: (out.__setitem__(slice(0, 2), (0, 1)), 2)[1],
        nothing.features,
        nothing.start,
        1,
        2,
        1,
        outcomes=count_up,
        starts=lambda params: (np.ones(1), np.zeros((1, 1))),
    )
    solution = solve(enumerate_states(with_time(model, 50), 1.0), 7.5)
    assert solution.cmdp.state_count == 50 and solution.reward == pytest.approx(7.5)


def test_what_ends_by_chance_needs_no_time_in_the_state():
    """One state, gone on with a chance of 3/4: four steps on average, at reward 1 and cost 1, or neither."""
    cmdp = FiniteCMDP.from_tables([[[0.75], [0.75]]], [[0.0, 1.0]], [[0.0, 1.0]], [1.0], 1.0)
    assert solve(cmdp, np.inf).reward == pytest.approx(4.0)
    solution = solve(cmdp, 1.0)
    assert solution.reward == pytest.approx(1.0) and solution.probabilities([0.0]) == pytest.approx([0.75, 0.25])


def test_endless_episodes_without_discount_are_refused_by_name():
    stay = [[[0.0, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.5, 0.0]]]
    message = "from where they can go on for ever"
    with pytest.raises(InvalidInput, match=message):
        FiniteCMDP.from_tables(stay, np.ones((2, 2)), np.ones((2, 2)), [1.0, 0.0], 1.0)


def test_unequal_discounts_without_time_are_refused_by_name():
    grid = make("safe-gridworld")
    search = dataclasses.replace(grid.search, cost_discounts=0.9)
    task = dataclasses.replace(grid, search=search)
    with pytest.raises(
        InvalidInput, match=re.escape("expected one discount for reward and costs, or time in the state")
    ):
        solve_task(task)
    assert optimum(task) is None
    rocks = make("rocksample-4-2")
    changed = dataclasses.replace(rocks, search=dataclasses.replace(rocks.search, cost_discounts=0.9))
    with pytest.raises(InvalidInput):  # what is known about RockSample is known for one discount
        solve_task(changed)


def test_prices_grow_as_rewards_fade():
    model = with_time(dataclasses.replace(TINY, compilable=False), STEPS)  # thirty simulations
    planner = PenalizedMCTS(model, 3.0, SearchSettings(discount=0.5, cost_discounts=1.0, horizon=STEPS))
    agent = Agent(planner, 1.0, iterations=10)
    for time in range(3):
        assert agent.act([0.0, 0.0, 3.0, STEPS - time]).multipliers.tolist() == [3.0 * 2.0**time]
        agent.observe(0.0)


@pytest.mark.parametrize(("reward_discount", "cost_discount"), [(1.0, 1.0), (0.8, 1.0)])
def test_an_agent_at_a_price_is_as_good_as_backward_induction(reward_discount, cost_discount):
    """At the price of the optimum, reward - price * deaths must come out as the exact solution has it."""
    search = SearchSettings(
        discount=reward_discount, cost_discounts=cost_discount, horizon=STEPS, exploration=1.0, rollout="uniform"
    )
    task = Task("tiny", TINY, 0.05, episode_steps=STEPS, search=search)
    price = solve_task(task).multipliers[0]
    planner = PenalizedMCTS(task.model, price, task.search)
    done, steps = run_episodes(planner, task.real_world, task.budget, episodes=400, seed=3, iterations=600)
    deaths = np.add.reduceat(steps.costs[:, 0], np.concatenate([[0], np.cumsum(done.steps)[:-1]]))
    assert done.costs[:, 0].tolist() == deaths.tolist(), "undiscounted: 0 or 1 an episode"
    penalised = done.rewards - price * done.costs[:, 0]
    exact = best_by_hand(price, reward_discount, cost_discount)
    error = penalised.std() / np.sqrt(len(penalised))
    assert exact - 4 * error - 0.05 <= penalised.mean() <= exact + 4 * error


def test_at_most_so_many_deaths_an_episode():
    """A map of six by six, a hundred steps, five pieces of gold: 82,571 states of time and place, solved exactly."""
    traps = trap_model("s..x.g ..x... .#gx.. ...#.g x...x. g..x.g")
    search = SearchSettings(discount=1.0, horizon=100, exploration=1.0)
    task = Task("traps", traps, 0.15, episode_steps=100, search=search)
    best = solve_task(task)
    assert best.exact and best.states == 82_571
    assert best.reward_lower == pytest.approx(3.635665, abs=1e-6) and best.costs[0] == pytest.approx(0.15)
