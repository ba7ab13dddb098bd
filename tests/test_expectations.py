"""What the search promises, against exact numbers: no translation of the kernel stands between.

Problems, tolerances, accountings and rewards of both signs are drawn at random. Expectations are taken over all
outcomes, critics are exact costs-to-go, and values are sums by hand, so a mistake that the compiled search and the
naive one share shows here.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmcts.critic.ensemble import immediate_costs_only
from cmcts.exact.random_problems import random_problem
from cmcts.exact.solver import least_cost_to_go
from cmcts.planning.agent import Agent
from cmcts.planning.monitor import SafetyMonitor
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from models import TableParams, linear_critic, lookup_critic, table_model

DEPTH = 5  # steps over which expectations are taken


def exact_costs(problem):
    """Q_C, the least cost-to-go, as a table [S, A]."""
    return problem.cmdp.table(least_cost_to_go(problem.cmdp)[:, 0])


def dearest_spending(planner, problem, least, budget, act):
    """E[cost] of the dearest admitted action at every step, over all outcomes, and whether an alarm was raised.

    After DEPTH steps the rest costs its least. `act(agent, state)` lets an agent take the dearest action it may take.
    """
    outcomes = problem.model.outcomes
    alarm = False

    def spending(agent, state, depth):
        nonlocal alarm
        if depth == DEPTH:
            return float(least[int(state[0])].min())
        action, nothing_safe = act(agent, state)
        alarm |= nothing_safe
        chances, states, _, costs, ends = outcomes(problem.model.params, state, action)
        total = 0.0
        for chance, there, cost, over in zip(chances, states, costs, ends, strict=True):
            if chance <= 0.0:
                continue
            heir = Agent(planner, budget, rng=0, iterations=1)
            heir.budget, heir.decision = agent.budget.copy(), agent.decision
            heir.observe(cost)
            ahead = 0.0 if over else spending(heir, there, depth + 1)
            total += chance * (cost[0] + problem.discount * ahead)
        return total

    start = problem.model.start_state()
    return spending(Agent(planner, budget, rng=0, iterations=1), start, 0), alarm


def dearest(least):
    """What an adversary of the budget does: of all that the planner keeps, take what costs most in the end."""

    def act(agent, state):
        decision = agent.act(state)
        kept = decision.legal & ~decision.pruned
        worst = int(np.argmax(np.where(kept, least[int(state[0])], -1.0))) if kept.any() else decision.action
        agent.override(worst)
        return worst, decision.nothing_safe

    return act


@given(st.integers(0, 30), st.sampled_from(["absorbing", "sparse"]), st.sampled_from([0.0, 0.01, 0.05, 0.2]))
def test_expected_accounting_grants_its_tolerance_once(seed, kind, tolerance):
    """With an exact critic nothing is ever unsafe altogether, and the mean cost is at most budget + tolerance."""
    problem = random_problem(seed, kind, states=4, actions=2)
    least = exact_costs(problem)
    pruning = PruningSettings(tolerance=tolerance, accounting="expected")
    critic = lookup_critic(problem.model, least, np.zeros_like(least))
    planner = CMCTS(problem.model, critic, SearchSettings(discount=problem.discount, horizon=3), pruning)
    budget = float(problem.budget[0])
    spent, alarm = dearest_spending(planner, problem, least, budget, dearest(least))
    assert not alarm
    assert spent <= budget + tolerance + 1e-5  # critics are float32


@given(st.integers(0, 10), st.sampled_from([0.0, 0.05, 0.2]))
def test_a_monitor_grants_its_tolerance_once(seed, tolerance):
    problem = random_problem(seed, "absorbing", states=4, actions=2)
    least = exact_costs(problem)
    pruning = PruningSettings(tolerance=tolerance, accounting="expected")
    critic = lookup_critic(problem.model, least, np.zeros_like(least))
    planner = CMCTS(problem.model, critic, SearchSettings(discount=problem.discount, horizon=3), pruning)
    budget = float(problem.budget[0])

    def watched(agent, state):
        monitor = SafetyMonitor(planner, lambda state: int(np.argmax(least[int(state[0])])), budget, iterations=1)
        monitor._agent = agent
        action = monitor.act(state)
        return action, bool(agent.decision.nothing_safe)

    spent, alarm = dearest_spending(planner, problem, least, budget, watched)
    assert not alarm
    assert spent <= budget + tolerance + 1e-5


def test_a_step_that_was_admitted_raises_no_alarm_later():
    """The same by hand, over many steps: walking costs 0.1 a step for ever, Q = 0.1 / (1 - 0.9) = 1, and so does V."""
    ones = np.ones((1, 1, 1))
    params = TableParams(
        np.zeros((1, 1, 1), np.int64), ones, ones, 0.1 * ones[..., None], ones[..., 0] > 0, ones[0, 0] < 0
    )
    model = table_model(params)
    pruning = PruningSettings(tolerance=0.05, accounting="expected")
    search = SearchSettings(discount=0.9, horizon=2)
    planner = CMCTS(model, lookup_critic(model, [[1.0]], [[0.0]]), search, pruning)
    agent = Agent(planner, budget=0.97, iterations=1)  # less than 1, and within the tolerance
    for _ in range(40):
        assert not agent.act([0.0, 0.0]).nothing_safe
        agent.observe(0.1)
    assert agent.budget == pytest.approx([(0.97 - 0.95) / 0.9**40], rel=1e-3), (
        "what was not needed grows, as money does"
    )


def chain(rewards, costs):
    """States in a row that one action leads along; the last one leads to itself."""
    length = len(rewards)
    return table_model(
        TableParams(
            next_states=np.minimum(np.arange(1, length + 1), length - 1)[:, None, None],
            cumulative=np.ones((length, 1, 1)),
            rewards=np.asarray(rewards, np.float64)[:, None, None],
            costs=np.asarray(costs, np.float64)[:, None, None, None],
            legal=np.ones((length, 1), np.bool_),
            terminal=np.zeros(length, np.bool_),
        )
    )


numbers = st.floats(-3.0, 3.0).map(lambda number: round(number, 3))


@given(
    st.lists(st.tuples(numbers, st.sampled_from([0.0, 0.3, 1.0])), min_size=9, max_size=9),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([{}, {"thrifty_rollouts": True}, {"guarded_rollouts": True}]),
    st.sampled_from(["paid", "expected"]),
    st.sampled_from([0.0, 0.1]),
)
def test_a_state_is_worth_what_follows_whatever_may_be_spent(steps, budget, rollouts, accounting, tolerance):
    """There is one way to go on, affordable or not: its value is the sum of its rewards, its cost that of its costs."""
    rewards, costs = zip(*steps, strict=True)
    model = chain(rewards, costs)
    search = SearchSettings(discount=0.9, horizon=7, rollout="uniform", **rollouts)
    pruning = PruningSettings(tolerance=tolerance, accounting=accounting)
    planner = CMCTS(model, lookup_critic(model, np.zeros((9, 1)), np.zeros((9, 1))), search, pruning)
    decision = planner.plan([0.0, 0.0], budget, iterations=5)
    weights = 0.9 ** np.arange(7)
    assert decision.reward_values[0] == pytest.approx(float(weights @ np.array(rewards[:7])))
    assert decision.cost_values[0, 0] == pytest.approx(float(weights @ np.array(costs[:7])))


def trap_or_corridor():
    """At a fork (0) one action leads into a corridor of six steps that end, the other into a trap.

    A step earns -1. In the trap four steps are free, and from then on every step costs 1 and nothing ends.
    """
    corridor, trap, end = list(range(1, 6)), list(range(6, 11)), 11
    next_states = np.full((12, 2, 1), end)
    next_states[0, :, 0] = corridor[0], trap[0]
    for path in (corridor, trap):
        for here, there in itertools.pairwise(path):
            next_states[here] = there
    next_states[trap[-1]] = trap[-1]
    costs = np.zeros((12, 2, 1, 1))
    costs[trap[-1]] = 1.0
    return table_model(
        TableParams(
            next_states=next_states,
            cumulative=np.ones((12, 2, 1)),
            rewards=-np.ones((12, 2, 1)),
            costs=costs,
            legal=np.ones((12, 2), np.bool_),
            terminal=np.arange(12) == end,
        )
    )


@pytest.mark.parametrize("guarded", [False, True])
def test_a_dead_end_is_worth_what_staying_there_is_worth(guarded):
    """With -1 a step and a budget of 0, the trap is worth -17.4 and not the -4.5 of the steps that are free."""
    model = trap_or_corridor()
    search = SearchSettings(
        discount=0.95, horizon=40, exploration=5.0, thrifty_rollouts=not guarded, guarded_rollouts=guarded
    )
    untrained = immediate_costs_only(model)
    planner = CMCTS(model, untrained, search) if guarded else PenalizedMCTS(model, 0.0, search)
    decision = planner.plan([0.0, 0.0], 0.0, iterations=50)
    assert decision.reward_values == pytest.approx([-(1 - 0.95**6) / 0.05, -(1 - 0.95**40) / 0.05])
    assert decision.action == 0


@given(st.integers(0, 40), st.booleans())
def test_the_choice_is_that_of_all_paths_within_the_budget(seed, signed):
    """Without chance, and with an exact critic, the best path within the budget can be found by listing all."""
    rng = np.random.default_rng(seed)
    states, depth, discount = 6, 4, 0.9
    next_states = rng.integers(0, states, (states, 2, 1))
    rewards = rng.normal(-1.0 if signed else 0.0, 1.0, (states, 2, 1)).round(2)
    costs = (rng.random((states, 2, 1, 1)) * (rng.random((states, 2, 1, 1)) < 0.7)).round(2)
    model = table_model(
        TableParams(
            next_states,
            np.ones((states, 2, 1)),
            rewards,
            costs,
            np.ones((states, 2), np.bool_),
            np.zeros(states, np.bool_),
        )
    )
    least = np.zeros((states, 2))  # of paths of any length: value iteration
    for _ in range(400):
        least = costs[:, :, 0, 0] + discount * least.min(axis=1)[next_states[:, :, 0]]
    budget = float(least[0].min() + 0.5 * np.ptp(least[0]) + 0.1)
    pruning = PruningSettings(tolerance=0.0)
    search = SearchSettings(discount=discount, horizon=depth, exploration=2.0, rollout="uniform", thrifty_rollouts=True)
    planner = CMCTS(model, lookup_critic(model, least, np.zeros((states, 2))), search, pruning)
    decision = planner.plan([0.0, 0.0], budget, iterations=3000, rng=seed)
    best = np.full(2, -np.inf)
    for path in itertools.product(range(2), repeat=depth):
        state, reward, cost, allowed = 0, 0.0, 0.0, True
        for t, action in enumerate(path):
            # Judged as at an expansion: what was paid, and the least that is still to come.
            allowed &= cost + discount**t * least[state, action] <= budget + 1e-6
            reward += discount**t * rewards[state, action, 0]
            cost += discount**t * costs[state, action, 0, 0]
            state = int(next_states[state, action, 0])
        if allowed:
            best[path[0]] = max(best[path[0]], reward)
    assert (decision.pruned == ~np.isfinite(best)).all(), (
        "an action is refused if no path that begins with it is allowed"
    )
    assert best[decision.action] >= best.max() - 0.1


@given(st.integers(0, 20), st.sampled_from(["paid", "expected"]), st.sampled_from([0.0, 0.05, 0.1]))
def test_a_problem_in_other_units_is_the_same_problem(seed, accounting, tolerance):
    """Costs and budget times 1024, which is exact in floats: the same decisions, one after the other."""
    problem = random_problem(seed, "absorbing")
    least = exact_costs(problem).astype(np.float32)
    noise = np.random.default_rng(seed).random(least.shape).astype(np.float32)
    decisions = []
    for unit in (1.0, 1024.0):
        params = problem.model.params
        model = problem.model.with_params(costs=params.costs * unit)
        critic = linear_critic(model, (least * unit)[:, :, None], (noise * unit)[:, :, None])
        critic = dataclasses.replace(critic, cost_scale=(unit,))
        search = SearchSettings(discount=problem.discount, horizon=12, exploration=1.0, guarded_rollouts=True)
        pruning = PruningSettings(tolerance=tolerance, accounting=accounting)
        agent = Agent(CMCTS(model, critic, search, pruning, 0.3 / unit), problem.budget * unit, rng=seed, iterations=60)
        state, dice = model.start_state(), np.random.default_rng(seed)
        for _ in range(6):
            decision = agent.act(state)
            decisions.append(
                (unit, decision.action, decision.visits.tolist(), decision.pruned.tolist(), agent.budget / unit)
            )
            chances, states, _, costs, ends = model.outcomes(model.params, state, decision.action)
            outcome = int(dice.choice(len(chances), p=chances / chances.sum()))
            if ends[outcome]:
                break
            agent.observe(costs[outcome])
            state = states[outcome]
    half = len(decisions) // 2
    for (_, *ours), (_, *theirs) in zip(decisions[:half], decisions[half:], strict=True):
        assert ours == theirs
