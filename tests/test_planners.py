"""What planners promise: the same decisions for the same seed, good ones with enough time, and errors that help."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from cmcts.critic.ensemble import immediate_costs_only
from cmcts.envs.rocksample.model import rocksample_model
from cmcts.envs.safe_gridworld.model import safe_gridworld_model
from cmcts.errors import InvalidInput, ModelError
from cmcts.model.tabular import TabularParams, tabular_model
from cmcts.planning.agent import Agent
from cmcts.planning.mixtures import mixture_program, two_action_mixture, worth_their_cost
from cmcts.planning.planners import CCMCP, CMCTS, CCMCPSettings, PenalizedMCTS
from cmcts.random import stream, streams
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make
from conftest import compiled
from models import TableParams, climb_model, linear_critic, random_ensemble, random_table, table_model

SHORT = SearchSettings(horizon=20)
BINDING_SEEDS = (0, 2, 6, 7)  # random models whose best multiplier is moderate, so that it is found in time


def make_planners(model):
    return {
        "penalized": PenalizedMCTS(model, 1.0, SHORT),
        "ccmcp": CCMCP(model, SHORT),
        "cmcts": CMCTS(model, random_ensemble(model, 1, scale=0.3, offset=0.5), SHORT),
    }


def content(decision):
    """All of a decision but the time it took."""
    found = decision.to_dict() | {"probabilities": decision.probabilities.tolist()}
    del found["seconds"]
    return found


# The same seed.


@pytest.mark.parametrize("name", ["penalized", "ccmcp", "cmcts"])
def test_decisions_depend_on_the_seed_alone(name):
    model = rocksample_model(5, 7)
    rng = np.random.default_rng(0)
    states = np.column_stack([rng.integers(0, 5, (64, 2)), rng.choice([-1.0, 0.2, 0.5, 0.9], (64, 7))])
    budgets = rng.random(64)
    seeds = list(range(100, 164))
    planner = make_planners(model)[name]
    iterations = 60
    alone = [
        content(planner.plan(*task, iterations=iterations, rng=seed))
        for task, seed in zip(zip(states, budgets, strict=True), seeds, strict=True)
    ]
    for threads in (1, 2):
        batch = planner.plan_batch(states, budgets, iterations=iterations, rngs=seeds, threads=threads)
        assert [content(decision) for decision in batch] == alone
    backwards = planner.plan_batch(states[::-1], budgets[::-1], iterations=iterations, rngs=seeds[::-1], threads=2)
    assert [content(decision) for decision in backwards[::-1]] == alone
    fresh = make_planners(model)[name]
    assert content(fresh.plan(states[-1], budgets[-1], iterations=iterations, rng=seeds[-1])) == alone[-1]
    other = [content(planner.plan(*task, iterations=iterations, rng=7)) for task in zip(states, budgets, strict=True)]
    assert other != alone


def test_a_stream_is_advanced_and_a_seed_is_not():
    planner = PenalizedMCTS(rocksample_model(5, 7), 1.0, SHORT)
    state = planner.model.start_state()
    rng = stream(3)
    first = planner.plan(state, 1.0, iterations=40, rng=rng)
    assert rng[0] != stream(3)[0]
    second = planner.plan(state, 1.0, iterations=40, rng=rng)
    assert content(first) == content(planner.plan(state, 1.0, iterations=40, rng=3))
    assert content(first) != content(second)


def test_streams_do_not_depend_on_their_number():
    assert [s[0] for s in streams(5, 3)] == [s[0] for s in streams(5, 10)[:3]]
    assert len({int(s[0]) for s in streams(5, 100)}) == 100


def test_an_empty_batch_is_empty():
    planner = PenalizedMCTS(rocksample_model(5, 7), 1.0, SHORT)
    assert planner.plan_batch(np.zeros((0, 9)), [], iterations=10, rngs=[]) == []


# Time and iterations.


def test_seconds_limit_a_search(slow_clock):
    planner = PenalizedMCTS(safe_gridworld_model(), 0.0, SHORT)
    decision = planner.plan([1.0, 1.0], 0.0, seconds=100 * slow_clock)
    assert decision.iterations == 97
    assert decision.seconds == 102 * slow_clock
    assert decision.visits.sum() == decision.iterations - 1


def test_whichever_of_seconds_and_iterations_ends_first():
    planner = PenalizedMCTS(safe_gridworld_model(), 0.0, SHORT)
    few = planner.plan([1.0, 1.0], 0.0, iterations=33, seconds=100.0)
    assert few.iterations == 33
    assert content(few) == content(planner.plan([1.0, 1.0], 0.0, iterations=33)), "a clock changes no decision"


def test_time_ends_a_search_before_its_iterations_do(slow_clock):
    planner = PenalizedMCTS(safe_gridworld_model(), 0.0, SHORT)
    assert planner.plan([1.0, 1.0], 0.0, iterations=10**6, seconds=20 * slow_clock).iterations == 17


def test_a_default_number_of_iterations():
    assert PenalizedMCTS(safe_gridworld_model(), 0.0, SHORT).plan([1.0, 1.0], 0.0).iterations == 1024


# The decision.


def two_actions(rewards, costs):
    """A single step: each action ends the episode with its reward and costs [A, M]."""
    costs = np.asarray(costs, np.float64)
    actions = len(rewards)
    return table_model(
        TableParams(
            next_states=np.ones((2, actions, 1), np.int64),
            cumulative=np.ones((2, actions, 1)),
            rewards=np.broadcast_to(np.asarray(rewards, np.float64)[:, None], (2, actions, 1)).copy(),
            costs=np.broadcast_to(costs[:, None], (2, actions, 1, costs.shape[1])).copy(),
            legal=np.ones((2, actions), np.bool_),
            terminal=np.array([False, True]),
        )
    )


def test_the_penalized_planner_weighs_costs():
    model = two_actions([1.0, 3.0], [[0.0], [1.0]])
    cheap, dear = (PenalizedMCTS(model, weight, SHORT).plan([0, 0], 0.0, iterations=50) for weight in (2.5, 1.5))
    assert (cheap.action, dear.action) == (0, 1)
    assert dear.reward_values.tolist() == [1.0, 3.0]
    assert dear.cost_values.tolist() == [[0.0], [1.0]]
    assert dear.probabilities.tolist() == [0.0, 1.0]
    assert dear.tree_size == 3
    assert dear.tree_depth == 1


def test_cmcts_takes_the_best_of_the_safe_actions():
    model = two_actions([1.0, 3.0, 2.0], [[0.0], [0.9], [0.5]])
    nothing_learned = CMCTS(model, immediate_costs_only(model), SHORT)
    assert [nothing_learned.plan([0, 0], budget, iterations=50).action for budget in (0.0, 0.6, 1.0)] == [0, 2, 1]
    warned = CMCTS(model, linear_critic(model, [[0.0], [0.0], [5.0]]), SHORT)
    assert [warned.plan([0, 0], budget, iterations=50).action for budget in (0.0, 0.6, 1.0)] == [0, 0, 1]


def test_one_iteration_decides_among_the_actions_that_were_kept():
    model = two_actions([1.0, 3.0], [[1.0], [0.0]])
    decision = CMCTS(model, immediate_costs_only(model), SHORT).plan([0, 0], 0.5, iterations=1)
    assert decision.action == 1
    assert decision.visits.tolist() == [0, 0]


def test_only_tried_actions_are_compared():
    """Two iterations try one of two actions, both of which lose: the untried one's zero is not a value."""
    model = two_actions([-1.0, -3.0], [[0.0], [0.0]])
    for seed in range(8):
        decision = PenalizedMCTS(model, 0.0, SHORT).plan([0, 0], 0.0, iterations=2, rng=seed)
        assert decision.visits[decision.action] == 1


def test_ccmcp_mixes_two_actions_on_the_budget():
    """Reward 1 at cost 1 or nothing for nothing: lambda* = 1, and a budget of 0.4 is spent by mixing."""
    planner = CCMCP(two_actions([0.0, 1.0], [[0.0], [1.0]]), SHORT)
    decisions = [planner.plan([0, 0], 0.4, iterations=300, rng=seed) for seed in range(300)]
    for decision in decisions:
        assert decision.probabilities == pytest.approx([0.6, 0.4])
        assert decision.multipliers[0] == pytest.approx(1.0, abs=0.05)
    share = np.mean([decision.action for decision in decisions])
    assert share == pytest.approx(0.4, abs=0.12)  # 4 standard deviations of a share of 300


def test_ccmcp_mixes_for_two_constraints():
    """Two actions pay alike, each at the expense of another constraint: only their mixture keeps both budgets."""
    planner = CCMCP(two_actions([1.0, 1.0, 0.0], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), SHORT)
    decision = planner.plan([0, 0], [0.5, 0.5], iterations=1000)
    assert decision.probabilities == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)


def test_ccmcp_without_a_tie_takes_the_best():
    planner = CCMCP(two_actions([0.0, 1.0], [[0.0], [0.1]]), SHORT, CCMCPSettings(initial_multiplier=0.0))
    decision = planner.plan([0, 0], 5.0, iterations=50)
    assert decision.probabilities.tolist() == [0.0, 1.0]
    assert decision.multipliers.tolist() == [0.0]


@pytest.mark.parametrize(
    ("low", "high", "budget", "expected"),
    [
        (0.2, 1.0, 0.6, (0.5, 0.5)),
        (0.2, 1.2, 0.45, (0.75, 0.25)),
        (0.2, 0.5, 0.6, (0.0, 1.0)),
        (0.2, 0.6, 0.6, (0.0, 1.0)),
        (0.7, 1.0, 0.6, (1.0, 0.0)),
        (0.7, 0.7, 0.6, (1.0, 0.0)),
    ],
)
def test_mixture(low, high, budget, expected):
    assert two_action_mixture(low, high, budget) == pytest.approx(expected)


@given(
    low=st.floats(0.0, 1.0),
    gap=st.floats(0.01, 1.0),
    budget=st.floats(0.0, 2.0),
    multiplier=st.floats(0.05, 30.0),
)
def test_the_linear_program_agrees_with_the_mixture(low, gap, budget, multiplier):
    weights = mixture_program(np.array([[low], [low + gap]]), np.array([budget]), np.array([multiplier]))
    assert weights == pytest.approx(two_action_mixture(low, low + gap, budget), abs=1e-6)


@pytest.mark.parametrize(
    ("costs", "budget", "multipliers", "expected"),
    [
        ([[1, 0], [0, 1]], [0.5, 0.5], [1.0, 1.0], [0.5, 0.5]),
        ([[1, 0], [0, 1]], [0.25, 0.75], [1.0, 1.0], [0.25, 0.75]),
        # Room for both: only the first constraint has a price, so its budget is spent.
        ([[1, 0], [0, 1]], [1.0, 1.0], [1.0, 0.0], [1.0, 0.0]),
        # Too dear on both: the first weighs more (1 + 3 against 1 + 0), so it is met exactly.
        ([[2, 0], [0, 2]], [0.5, 0.5], [3.0, 0.0], [0.25, 0.75]),
        # Three actions and two budgets leave one answer: w_0 = 0.2, w_1 = 0.3 and the free action the rest.
        ([[1, 0], [0, 1], [0, 0]], [0.2, 0.3], [1.0, 1.0], [0.2, 0.3, 0.5]),
    ],
)
def test_mixture_of_two_constraints(costs, budget, multipliers, expected):
    weights = mixture_program(np.array(costs, np.float64), np.array(budget), np.array(multipliers))
    assert weights == pytest.approx(expected, abs=1e-9)


# Convergence.

DISCOUNT = 0.8
EXACT = SearchSettings(discount=DISCOUNT, exploration=1.0, horizon=30)


def expectations(params):
    """P [S, A, S] (without what ends), R [S, A] and C [S, A, M] of a table."""
    probabilities = np.diff(params.cumulative, axis=2, prepend=0.0)
    going_on = probabilities * ~params.terminal[params.next_states]
    transitions = np.einsum("sak,sakt->sat", going_on, np.eye(len(params.terminal))[params.next_states])
    return transitions, (probabilities * params.rewards).sum(2), np.einsum("sak,sakm->sam", probabilities, params.costs)


def value_iteration(params, multipliers):
    """The optimal penalised value of the start."""
    transitions, rewards, costs = expectations(params)
    values = np.zeros(len(rewards))
    for _ in range(200):  # 0.8^200 < 1e-19
        values = np.where(params.legal, rewards - costs @ multipliers + DISCOUNT * transitions @ values, -np.inf).max(1)
    return values[0]


def constrained_optimum(params, budget):
    """Reward and dual prices of the linear program over occupation measures, from the start."""
    transitions, rewards, costs = expectations(params)
    states, actions = np.nonzero(params.legal & ~params.terminal[:, None])
    flow = np.eye(len(rewards))[:, states] - DISCOUNT * transitions[states, actions].T
    result = linprog(
        -rewards[states, actions],
        A_ub=costs[states, actions].T,
        b_ub=budget,
        A_eq=flow[~params.terminal],
        b_eq=np.eye(len(rewards))[0][~params.terminal],
    )
    assert result.success, result.message
    return -result.fun, -result.ineqlin.marginals, costs[states, actions].T @ result.x


@pytest.mark.parametrize("iterations", [256, 4096, 65536] if compiled else [256, 1024])
def test_penalized_values_approach_value_iteration(iterations):
    """The root's value errs by at most 6 / sqrt(n): 0.38, 0.09, 0.02 of values of about 1."""
    for seed in range(8):
        params = random_table(seed, actions=3, outcomes=2, end=0.2)
        optimum = value_iteration(params, np.array([0.7]))
        planner = PenalizedMCTS(table_model(params), 0.7, EXACT)
        decision = planner.plan([0, 0], 0.0, iterations=iterations, rng=seed)
        values = decision.reward_values - decision.cost_values @ [0.7]
        assert values[decision.action] == pytest.approx(optimum, abs=6.0 / math.sqrt(iterations)), seed


@pytest.mark.parametrize("iterations", [256, 4096, 65536] if compiled else [256, 1024])
@pytest.mark.parametrize("seed", BINDING_SEEDS)
def test_ccmcp_approaches_the_constrained_optimum(seed, iterations):
    """Reward and cost of the root's mixture err by at most 6 / sqrt(n)."""
    params = random_table(seed, actions=3, outcomes=2, end=0.2)
    _, _, dearest = constrained_optimum(params, [1e6])
    cheapest = constrained_least_cost(params)
    budget = (cheapest + dearest) / 2
    optimum, prices, costs = constrained_optimum(params, budget)
    assert 0.1 < prices[0] < 4.0, "the budget must bind, and at a price that is found in time"
    assert costs == pytest.approx(budget)
    decision = CCMCP(table_model(params), EXACT).plan([0, 0], budget, iterations=iterations, rng=seed)
    bound = 6.0 / math.sqrt(iterations)
    assert decision.probabilities @ decision.reward_values == pytest.approx(optimum, abs=bound)
    assert decision.probabilities @ decision.cost_values == pytest.approx(budget, abs=bound)


def constrained_least_cost(params):
    """The least cost that any policy can have, [M = 1]."""
    free = params._replace(rewards=np.zeros_like(params.rewards))
    return np.array([-value_iteration(free, np.array([1.0]))])


# Bad input.


def test_bad_states_and_budgets_are_refused():
    planner = PenalizedMCTS(rocksample_model(5, 7), 1.0)
    good = planner.model.start_state()

    def refused(message, state=good, budget=1.0, **options):
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            planner.plan(state, budget, **options)

    refused("expected budget finite and >= 0, got -0.5", budget=-0.5)
    refused("expected budget finite and >= 0, got nan", budget=np.nan)
    refused("expected budget with one number for each of 1 constraints, got [1.0, 2.0]", budget=[1.0, 2.0])
    refused("expected budget of 1 numbers, got 'much'", budget="much")
    refused("expected a finite state, got nan at index 3", state=np.where(np.arange(9) == 3, np.nan, good))
    refused("expected a finite state, got inf at index 0", state=np.where(np.arange(9) == 0, np.inf, good))
    refused("expected a state of shape (9,) for model 'rocksample', got shape (8,)", state=good[:8])
    refused("expected a state of shape (9,) for model 'rocksample', got shape (1, 9)", state=good[None])
    refused("expected a state of 9 numbers, got 'here'", state="here")
    refused(
        "illegal state for model 'rocksample': expected x to be an integer from 0 to 4, got 5.0",
        state=np.where(np.arange(9) == 0, 5.0, good),
    )
    refused(
        "illegal state for model 'rocksample': expected rock 1 to have a probability in [0, 1] or -1 (collected), "
        "got 1.5",
        state=np.where(np.arange(9) == 3, 1.5, good),
    )
    refused("expected iterations >= 1, got 0", iterations=0)
    refused("expected iterations >= 1, got -3", iterations=-3)
    refused("expected iterations >= 1, got 2.5", iterations=2.5)
    refused("expected seconds > 0, got 0.0", seconds=0.0)
    refused("expected seconds > 0, got nan", seconds=np.nan)
    refused("expected multipliers finite and >= 0, got -1.0", multipliers=-1.0)
    refused("expected a seed: an integer >= 0, a SeedSequence or a stream, got -1", rng=-1)
    refused("expected a seed: an integer >= 0, a SeedSequence or a stream, got 'x'", rng="x")
    refused("expected a stream (a uint64 array of shape (1,)), got int64 of shape (1,)", rng=np.zeros(1, np.int64))


def test_a_batch_needs_a_seed_and_a_budget_for_each_state():
    planner = PenalizedMCTS(rocksample_model(5, 7), 1.0)
    states = np.stack([planner.model.start_state()] * 3)
    with pytest.raises(InvalidInput, match=r"^expected 3 seeds or streams, one a state, got 2$"):
        planner.plan_batch(states, [1.0] * 3, iterations=5, rngs=[0, 1])
    with pytest.raises(InvalidInput, match=r"^expected budgets for 3 states, one row each, got \(2,\)$"):
        planner.plan_batch(states, [1.0] * 2, iterations=5, rngs=[0, 1, 2])
    with pytest.raises(InvalidInput, match=r"^expected multipliers for 3 states, one row each, got \(2, 1\)$"):
        planner.plan_batch(states, [1.0] * 3, iterations=5, rngs=[0, 1, 2], multipliers=[[1.0], [2.0]])
    with pytest.raises(InvalidInput, match=r"^expected threads >= 1, got 0$"):
        planner.plan_batch(states, [1.0] * 3, iterations=5, rngs=[0, 1, 2], threads=0)


def test_a_state_at_the_end_is_refused():
    with pytest.raises(InvalidInput, match=r"^illegal state for model 'safe-gridworld': the goal is reached$"):
        PenalizedMCTS(safe_gridworld_model(), 0.0).plan([7.0, 7.0], 0.0)
    params = random_table(0)
    params.legal[5] = False
    with pytest.raises(InvalidInput, match=r"^expected a state with a legal action, got \[1\.0, 2\.0\]$"):
        PenalizedMCTS(table_model(params), 0.0).plan([1.0, 2.0], 0.0)


def test_ccmcp_finds_both_multipliers():
    """One step, three actions: 2 for costs (1, 0), 1 for (0, 1), nothing for nothing; budgets 0.3 and 0.3.

    The optimum takes them with probabilities 0.3, 0.3 and 0.4, at lambda = (2, 1). Where the first two tie, above the
    third, their gaps have signs (+, -) and (-, +): steps by signs alone would never leave (1.5, 0.5).
    """
    params = TableParams(
        next_states=np.full((2, 3, 1), 1),
        cumulative=np.ones((2, 3, 1)),
        rewards=np.array([[[2.0], [1.0], [0.0]]] * 2),
        costs=np.array([[[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 0.0]]]] * 2),
        legal=np.ones((2, 3), np.bool_),
        terminal=np.array([False, True]),
    )
    model = table_model(params)
    model.verdict.fault = "run uncompiled: it is not worth a compilation"
    planner = CCMCP(model, SearchSettings(exploration=1.0), CCMCPSettings(initial_multiplier=1.0))
    decision = planner.plan([0.0, 0.0], [0.3, 0.3], iterations=3000)
    assert decision.multipliers == pytest.approx([2.0, 1.0], abs=0.02)
    assert decision.probabilities == pytest.approx([0.3, 0.3, 0.4], abs=1e-6)


@pytest.mark.parametrize(
    ("reward", "cost", "got"),
    [
        (math.nan, 0.5, "reward nan and costs [0.5]"),
        (-math.inf, 0.5, "reward -inf and costs [0.5]"),
        (1.0, math.nan, "reward 1.0 and costs [nan]"),
        (1.0, -0.25, "reward 1.0 and costs [-0.25]"),
        (1.0, math.inf, "reward 1.0 and costs [inf]"),
    ],
)
@pytest.mark.parametrize("where", ["tree", "rollout"])
def test_a_model_that_breaks_its_contract_is_named(reward, cost, got, where):
    """Action 1 of state 4 = (1, 1) is bad; it is met one step from the root, or three, where only rollouts get."""
    params = random_table(0, actions=2, outcomes=1)
    params.legal[:] = True
    params.next_states[:4, :, 0] = [[1], [2], [4], [5]] if where == "rollout" else [[4]] * 4
    params.rewards[4, 1], params.costs[4, 1] = reward, cost
    planner = PenalizedMCTS(table_model(params), 1.0, SearchSettings(rollout="uniform"))
    message = (
        "expected model 'table' to return a finite reward, finite costs >= 0 and a finite next state, got "
        f"{got} for action 1 in state [1.0, 1.0]"
    )
    for _ in range(2):  # the second time in memory that has seen the fault
        with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
            planner.plan([0.0, 0.0], 1.0, iterations=1 if where == "rollout" else 50, rng=1)
    params.rewards[4, 1], params.costs[4, 1] = 0.0, 0.0
    assert planner.plan([0.0, 0.0], 1.0, iterations=50).iterations == 50, "a fault is not remembered"


def test_a_search_stops_at_the_first_fault():
    params = random_table(0, actions=2, outcomes=1)
    params.rewards[0] = math.nan
    session = PenalizedMCTS(table_model(params), 1.0).session()
    session.begin(np.zeros(2), np.ones(1), np.zeros(1), stream(0), 1001)
    with pytest.raises(ModelError):
        session.run(1000)
    assert session.tree.visits[0] == 1


def bad_next_state(params, state, action, rng, next_state, costs):
    next_state[0] = math.nan
    next_state[1] = 0.0
    costs[0] = 0.0
    return 0.0, False


def test_a_model_that_leads_nowhere_is_named():
    """Neither the tree nor a rollout may ask the model about the state."""
    params = random_table(0)
    params.costs[:] = 1.0
    model = dataclasses.replace(table_model(params), step=bad_next_state)
    model.verdict.fault = "run uncompiled: it is not worth a compilation"
    search = dataclasses.replace(SHORT, thrifty_rollouts=True)
    with pytest.raises(
        ModelError, match=r"finite next state, got reward 0\.0 and costs \[0\.0\] for action \d in state"
    ):
        PenalizedMCTS(model, 1.0, search).plan([0.0, 0.0], 0.0, iterations=20)


def lost_on_the_way(params, state, action, rng, next_state, costs):
    """One step leads to (1, 1), the next is not finite, and so are all that follow."""
    next_state[0] = 1.0 if state[0] == 0.0 else math.nan
    next_state[1] = 1.0
    costs[0] = 0.0
    return 0.0, False


@pytest.mark.parametrize("rollout", ["uniform", "directed"])
def test_a_rollout_that_leads_nowhere_is_named(rollout):
    """The tree has not got there yet: one simulation sees the root alone."""
    model = dataclasses.replace(table_model(random_table(0)), step=lost_on_the_way)
    model.verdict.fault = "run uncompiled: it is not worth a compilation"
    search = SearchSettings(horizon=2, rollout=rollout)
    with pytest.raises(ModelError, match=r"finite next state, got .* for action \d in state \[1\.0, 1\.0\]$"):
        PenalizedMCTS(model, 1.0, search).plan([0.0, 0.0], 0.0, iterations=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 1.5}, "expected a discount above 0 and at most 1, got 1.5"),
        ({"cost_discounts": 0.0}, "expected cost_discounts above 0 and at most 1, got 0.0"),
        ({"cost_discounts": [0.5, 2]}, "expected cost_discounts above 0 and at most 1, got (0.5, 2.0)"),
        ({"reward_scale": 0.0}, "expected reward_scale > 0, got 0.0"),
        ({"exploration": -1.0}, "expected exploration >= 0, got -1.0"),
        ({"horizon": 0}, "expected horizon to be an integer >= 1, got 0"),
        ({"rollouts": 0}, "expected rollouts to be an integer >= 1, got 0"),
        ({"cost_samples": 1.5}, "expected cost_samples to be an integer >= 1, got 1.5"),
        ({"max_nodes": -1}, "expected max_nodes to be an integer >= 1, got -1"),
        ({"rollout": "random"}, 'expected rollout to be "directed", "uniform" or "priced", got \'random\''),
        ({"widening_factor": -0.5}, "expected widening_factor >= 0, got -0.5"),
        ({"widening_power": 0.0}, "expected widening_power in (0, 1], got 0.0"),
    ],
)
def test_bad_search_settings_are_refused(change, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        SearchSettings(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"maximum_multiplier": 0.0}, "expected maximum_multiplier > 0, got 0.0"),
        ({"initial_multiplier": 31.0}, "expected initial_multiplier in [0, 30.0], got 31.0"),
        ({"tie_band": -0.1}, "expected tie_band >= 0, got -0.1"),
    ],
)
def test_bad_ccmcp_settings_are_refused(change, message):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        CCMCPSettings(**change)


def test_a_bad_multiplier_is_refused():
    with pytest.raises(InvalidInput, match=r"^expected multiplier finite and >= 0, got -1$"):
        PenalizedMCTS(rocksample_model(5, 7), -1)


@pytest.mark.parametrize(("count", "written"), [(3, (0, 1)), (2, (0, 2)), (2, (-1, 0)), (-1, (0, 1))])
def test_legal_actions_that_no_array_has_room_for_are_refused(count, written):
    def legal_actions(params, state, out):
        out[:2] = written
        return count

    model = dataclasses.replace(climb_model(), legal_actions=legal_actions)
    with pytest.raises(ModelError, match="expected legal_actions of model 'climb' to write at most 2 actions"):
        PenalizedMCTS(model, 0.0).plan([0.0], 1.0, iterations=1)


@pytest.mark.parametrize("name", ["model", "search", "critic", "pruning"])
def test_settings_cannot_be_changed_behind_a_search(name):
    """A search that waits for the next plan was made with them; a decision must not report others."""
    planner = CMCTS(table_model(random_table(0)), immediate_costs_only(table_model(random_table(0))), SHORT)
    before = getattr(planner, name)
    with pytest.raises(AttributeError, match=f"expected {name} to be given to a new planner"):
        setattr(planner, name, before)
    assert getattr(planner, name) is before


def roulette(rewards, costs, ends=1.0):
    """One state; each action earns and costs what is said, and ends the episode with some probability."""
    actions = len(rewards)
    return tabular_model(
        TabularParams(
            successors=np.zeros((1, actions, 1), np.int64),
            cumulative=np.full((1, actions, 1), 1.0 - ends),
            rewards=np.array([rewards], np.float64),
            costs=np.array(costs, np.float64).reshape(1, actions, 1),
            start_cumulative=np.ones(1),
        )
    )


@pytest.mark.parametrize("ties, entered", [("earn", 0.0), ("spend", 0.83)])
def test_ccmcp_does_not_spend_on_ties(ties, entered):
    """The last step: both actions earn 1, one of them costs 0.18, and 0.15 is left. Spending it gains nothing."""
    planner = CCMCP(roulette([1.0, 1.0], [0.0, 0.18]), SHORT, CCMCPSettings(ties=ties))
    decision = planner.plan([0.0], 0.15, iterations=400)
    assert decision.probabilities[1] == pytest.approx(entered, abs=0.01)


def test_ccmcp_still_mixes_what_earns_more():
    """The dear action earns more for its cost: half of the budget's worth of it is taken, as before."""
    planner = CCMCP(roulette([0.0, 1.0], [0.0, 1.0]), SHORT)
    assert planner.plan([0.0], 0.5, iterations=2000).probabilities == pytest.approx([0.5, 0.5], abs=0.02)


def test_ccmcp_drops_what_another_action_does_for_less_of_every_constraint():
    rewards, noise = np.array([1.0, 1.0, 2.0, 1.0]), np.full(4, 0.1)
    costs = np.array([[0.1, 0.1], [0.1, 0.2], [0.3, 0.3], [0.0, 0.4]])
    # 1 costs more than 0 and earns the same; 2 earns more; 3 is cheaper in one constraint.
    assert worth_their_cost(np.arange(4), rewards, costs, noise).tolist() == [0, 2, 3]


def trap_model():
    """A model that expects every step to cost 0.02."""

    def expected_costs(params, state, action, out):
        out[0] = 0.02

    trap = dataclasses.replace(climb_model(), expected_costs=expected_costs)
    trap.verdict.fault = "run uncompiled: it is not worth a compilation"
    return trap


@pytest.mark.parametrize("charge, left", [("expected", 0.13 / 0.9), ("larger", 0.13 / 0.9), ("paid", 0.15 / 0.9)])
def test_ccmcp_charges_a_risk_that_did_not_strike(charge, left):
    """A step into a trap that kills in one case of fifty, for 1: who survives has spent 0.02, whatever he was asked."""
    planner = CCMCP(trap_model(), SearchSettings(discount=0.9, horizon=5), CCMCPSettings(charge=charge))
    agent = Agent(planner, 0.15, iterations=5)
    agent.act([0.0])
    agent.override(0)
    assert agent.observe(0.0) == pytest.approx([left])


def test_ccmcp_charges_what_the_world_took_where_it_is_worse_than_the_model():
    for charge, left in (("larger", 0.05 / 0.9), ("expected", 0.13 / 0.9)):
        planner = CCMCP(trap_model(), SearchSettings(discount=0.9, horizon=5), CCMCPSettings(charge=charge))
        agent = Agent(planner, 0.15, iterations=5)
        agent.act([0.0])
        agent.override(0)
        assert agent.observe(0.1) == pytest.approx([left])


def test_the_published_rules_have_a_name():
    assert CCMCPSettings.published() == CCMCPSettings(ties="spend", charge="paid")
    assert make("rocksample-7-8").ccmcp_settings.charge == "expected", "the belief model is exact"
    assert make("safe-gridworld").ccmcp_settings.charge == "larger", "the planner does not know the wind"
