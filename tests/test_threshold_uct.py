"""Threshold UCT: the compiled search against `naive_curves.py`, its curves against exact ones, and what agents do."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmcts import cli
from cmcts.commands.planner_options import make_planner
from cmcts.errors import InvalidInput, ModelError
from cmcts.evaluation.episodes import run_episodes
from cmcts.exact.column_generation import InfeasibleBudget
from cmcts.exact.random_problems import random_problem
from cmcts.exact.solver import solve
from cmcts.model.worlds import ModelWorld
from cmcts.planning.agent import Agent, act_together
from cmcts.planning.threshold_uct import ThresholdUCT
from cmcts.random import stream
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.search.threshold import curve_tree
from cmcts.search.tree import ROOT
from cmcts.tasks.registry import make
from conftest import compiled_only
from models import TableParams, linear_critic, random_table, table_model
from naive import tree_summary
from naive_curves import NaiveThresholdSearch, curve_tree_summary
from test_search import ENVIRONMENTS, SEARCHES, SHORT

START = [0.0, 0.0]
UNCOMPILED = "run uncompiled: it is not worth a compilation"


def searches(planner, state, budget, seed, capacity=10_000, vertices=32, **rules):
    """A compiled and a naive search of the same problem with the same stream."""
    session, model = planner.session(), planner.model
    session.rules = session.rules._replace(**rules)
    session.curved = curve_tree(capacity, model.action_count, vertices, critic=session.rules.guarded_rollout)
    state = model.validate_state(state)
    session.begin(state, np.array([budget]), np.zeros(1), stream(seed), capacity)
    naive = NaiveThresholdSearch(
        model,
        planner.critic,
        session.rules,
        planner.cost_discounts,
        state,
        [budget],
        stream(seed),
        planner.caution,
        capacity,
        vertices,
    )
    return session, naive


def assert_same(session, naive):
    ours, theirs = tree_summary(session.tree, session.model, False), naive.summary()
    assert len(ours) == len(theirs)
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == other, f"node {number}"
    curves = curve_tree_summary(session.tree, session.curved, session.model)
    for number, (mine, other) in enumerate(zip(curves, naive.curve_summary(), strict=True)):
        assert mine == other, f"curves of node {number}"
    root = session.root_curve()
    assert root is None or root.actions.tolist() == naive.root.beginnings
    assert session.rng[0] == naive.rng[0], "one of the searches drew more random numbers"


def assert_search_is_naive(planner, state, budget, seed=0, iterations=150, **sizes):
    session, naive = searches(planner, state, budget, seed, **sizes)
    session.run(iterations)
    naive.run(iterations)
    assert_same(session, naive)
    return session


@pytest.mark.parametrize("search", ["directed", "uniform", "rollouts", "thrifty", "widening"])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_search_equals_the_naive_one(environment, search):
    model, states = ENVIRONMENTS[environment]()
    model.verdict.fault = UNCOMPILED
    for seed, state in enumerate(states):
        planner = ThresholdUCT(model, SEARCHES[search], caution=0.5 * seed)
        session = assert_search_is_naive(planner, state, 0.3, seed, iterations=60)
        assert session.tree.count[0] > 15


@settings(max_examples=150)
@given(
    seed=st.integers(0, 1000),
    actions=st.integers(1, 4),
    outcomes=st.integers(1, 4),
    search=st.builds(
        SearchSettings,
        discount=st.sampled_from([0.5, 0.9, 1.0]),
        cost_discounts=st.sampled_from([None, 0.7, 1.0]),
        exploration=st.sampled_from([None, 0.0, 1.0, 20.0]),
        relative_exploration=st.sampled_from([0.0, 1.0, 3.0]),
        reward_scale=st.sampled_from([1.0, 4.0]),
        horizon=st.integers(1, 12),
        rollout=st.sampled_from(["directed", "uniform"]),
        thrifty_rollouts=st.booleans(),
        rollouts=st.integers(1, 3),
        stratified=st.booleans(),
        widening_factor=st.sampled_from([0.0, 0.5, 1.0]),
    ),
    caution=st.sampled_from([0.0, 1.0, 2.5]),
    cost_scale=st.sampled_from([(), (3.0,)]),
    sigma=st.sampled_from([None, 0.0, 0.2, 0.9]),
    expected=st.booleans(),
    budget=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    capacity=st.sampled_from([2, 10, 10_000]),
    vertices=st.sampled_from([2, 4, 32]),
)
def test_the_search_of_random_models_equals_the_naive_one(
    seed, actions, outcomes, search, caution, cost_scale, sigma, expected, budget, capacity, vertices
):
    model = table_model(random_table(seed, actions=actions, outcomes=outcomes))
    if sigma is None:
        planner = ThresholdUCT(model, search, caution=caution, cost_scale=cost_scale)
    else:  # a critic that is sure, fairly sure, or too unsure to be believed
        mean = np.random.default_rng(seed).uniform(0.0, 1.0, (model.feature_count, actions, 1))
        planner = ThresholdUCT(model, search, critic=linear_critic(model, mean, sigma), caution=caution)
    sizes = {"capacity": capacity, "vertices": vertices}
    assert_search_is_naive(planner, START, budget, seed, 60, has_expected_costs=expected, **sizes)


def test_some_curves_of_these_searches_are_bounded():
    """Or the comparison with few vertices would show nothing."""
    model = table_model(random_table(3, actions=4, outcomes=4))
    planner = ThresholdUCT(model, SearchSettings(horizon=8), caution=0.0)
    sizes = {}
    for vertices in (4, 32):
        session = assert_search_is_naive(planner, START, 1.0, iterations=400, vertices=vertices)
        sizes[vertices] = session.curved.nodes.sizes[: session.tree.count[0]].max()
    assert sizes[4] == 4 < sizes[32]


def test_the_reference_shares_no_search_code():
    source = (Path(__file__).parent / "naive_curves.py").read_text()
    assert [line for line in source.splitlines() if line.startswith("from cmcts")] == [
        "from cmcts.compilation.content import uncompiled",
        "from cmcts.random import stratify, uniform",
    ]


def test_a_search_can_go_on():
    model = table_model(random_table(4))
    planner = ThresholdUCT(model, SHORT)
    whole, naive = searches(planner, START, 0.5, seed=11)
    parts, _ = searches(planner, START, 0.5, seed=11)
    whole.run(256)
    parts.run(100)
    parts.run(156)
    naive.run(256)
    assert_same(whole, naive)
    assert_same(parts, naive)
    assert parts.iterations == 256


@pytest.mark.parametrize("room", ["enough", "new"])
def test_rerooting_keeps_the_curves_of_the_subtree(room):
    model = table_model(random_table(2, outcomes=3))
    planner = ThresholdUCT(model, dataclasses.replace(SHORT, max_nodes=2 if room == "enough" else 5000))
    session, _ = searches(planner, START, 0.5, seed=1, capacity=1000)
    session.run(600)
    tree, before = session.tree, curve_tree_summary(session.tree, session.curved, model)
    action = int(np.argmax(tree.action_visits[ROOT]))
    children = np.flatnonzero((tree.parent[: tree.count[0]] == ROOT) & (tree.parent_action[: tree.count[0]] == action))
    child = max(children[tree.expanded[children]], key=lambda number: tree.visits[number])
    below, parents = [child], {child}
    for number in range(child + 1, int(tree.count[0])):
        if tree.parent[number] in parents:
            below.append(number)
            parents.add(number)
    budget, zero = np.array([0.4]), np.zeros(1)
    assert session.resume_at(action, tree.states[child].copy(), budget, zero, stream(9), 100)
    assert curve_tree_summary(session.tree, session.curved, model) == [before[number] for number in below]
    session.run(100)
    assert session.tree.action_visits[ROOT].clip(0).sum() >= 100


def as_table(problem):
    """A random problem in the tables of the tests' own model, whose search is compiled anyway."""
    params = problem.model.params
    states, actions, successors = params.successors.shape
    ended = np.full((states, actions, 1), states)
    cumulative = np.concatenate([params.cumulative, np.ones((states, actions, 1))], axis=2)
    shape = (states + 1, actions, successors + 1)
    table = TableParams(
        next_states=np.zeros(shape, np.int64),
        cumulative=np.ones(shape),
        rewards=np.zeros(shape),
        costs=np.zeros((*shape, 1)),
        legal=np.ones((states + 1, actions), np.bool_),
        terminal=np.arange(states + 1) == states,
    )
    table.next_states[:states] = np.concatenate([params.successors, ended], axis=2)
    table.cumulative[:states] = cumulative
    table.rewards[:states] = params.rewards[:, :, None]
    table.costs[:states] = params.costs[:, :, None]
    return table_model(table)


def exact_curve(problem, costs):
    """The most that can be earned for each expected cost."""
    return np.array([solve(problem.cmdp, cost).reward for cost in costs])


@compiled_only
@pytest.mark.parametrize("seed", [1, 3])
def test_the_root_curve_comes_close_to_the_exact_one(seed):
    """At the budget, where simulations look; a cautious curve promises nothing that nobody can have."""
    problem = random_problem(seed, "absorbing", states=4, actions=2)
    model, search = as_table(problem), SearchSettings(discount=problem.discount)
    budget, best = float(problem.budget[0]), problem.solution.reward

    def curves(caution):
        planner = ThresholdUCT(model, search, caution=caution)
        return [planner.plan(START, budget, iterations=n).curve for n in (100, 10_000, 100_000)]

    def promises(found):
        return np.array([np.interp(budget, *curve.T) for curve in found])

    with pytest.raises(InfeasibleBudget) as refused:
        solve(problem.cmdp, 0.0)
    least = float(refused.value.least[0])
    worth = best - exact_curve(problem, [least])[0]
    gaps = np.abs(promises(curves(0.0)) - best)
    assert gaps[-1] < 0.1 * worth
    assert gaps[-1] < gaps[0]
    cautious = curves(1.0)
    for curve in cautious:
        assert curve[0, 0] > least
        costs = np.linspace(curve[0, 0], max(1.2 * budget, curve[0, 0] + 0.1), 8)
        assert (np.interp(costs, *curve.T) <= exact_curve(problem, costs) + 0.01 * worth).all()
    assert (np.diff(promises(cautious)) > 0.1 * worth).all(), "the doubt goes away"


@pytest.mark.parametrize("expected", [True, False])
def test_a_leaf_has_a_frugal_rollout(expected):
    """Whatever costs least at once, at what it is expected to cost: of one such step in a hundred, no sample tells."""
    params = random_table(0, states=3, actions=2, outcomes=2)
    params.next_states[:] = 1
    params.cumulative[:] = [0.99, 1.0]
    params.rewards[:], params.legal[:], params.terminal[:] = [[1.0, 1.0], [5.0, 5.0]], True, False
    params.costs[:, 0, :, 0] = [0.0, 1.0]
    params.costs[:, 1, :, 0] = 1.0
    model = table_model(params)
    session = ThresholdUCT(model, SearchSettings(discount=1.0, horizon=4, rollout="uniform")).session()
    session.rules = session.rules._replace(has_expected_costs=expected)
    session.begin(model.validate_state(START), np.ones(1), np.zeros(1), stream(0), 100)
    session.run(1)
    leaves = session.curved.leaves
    assert leaves.costs[ROOT, 0] == pytest.approx(0.04 if expected else 0.0)
    assert leaves.rewards[ROOT, 0] == 4.0
    assert leaves.sizes[ROOT] == 2 and leaves.costs[ROOT, 1] >= 1.0


@pytest.mark.parametrize("guarded", [False, True])
def test_a_critic_is_a_floor_under_what_actions_cost(guarded):
    """The model believes that nothing costs anything. The critic knows what action 1 does at the start."""
    params = coin_table()
    params.costs[:] = 0.0
    model = table_model(params)
    expected = np.zeros((model.feature_count, 2, 1))
    expected[0, 1] = 0.5
    critic = linear_critic(model, expected) if guarded else None
    pruning = PruningSettings(tolerance=0.0) if guarded else None
    planner = ThresholdUCT(model, SMALL, critic=critic, pruning=pruning)
    decision = planner.plan(START, 0.2, iterations=500)
    assert decision.cost_values[1, 0] == (0.5 if guarded else 0.0)
    assert decision.probabilities == pytest.approx([0.6, 0.4] if guarded else [0.0, 1.0])
    assert not decision.nothing_safe


@compiled_only
@pytest.mark.parametrize("seed", [0, 3])
def test_played_episodes_keep_the_budget_on_average_and_earn_most_of_what_it_buys(seed):
    problem = random_problem(seed, "absorbing")
    model, budget = as_table(problem), problem.budget[0]
    planner = ThresholdUCT(model, SearchSettings(discount=problem.discount))
    episodes, _ = run_episodes(planner, partial(ModelWorld, model), budget, episodes=200, seed=5, iterations=512)
    summary = episodes.summary()
    assert summary.cost_mean <= budget + 3 * summary.cost_se
    assert summary.cost_mean >= 0.7 * budget, "the budget binds, so that it is there to be spent"
    assert summary.reward_mean >= 0.7 * problem.solution.reward
    assert episodes.violations.any(), "kept on average, and not by every episode"


def coin_table():
    """A free action earns nothing. A dear one earns 6, and costs 1 half of the time.

    After that one may pay 1 for a reward of 4, or of 8 where it cost nothing, or end for nothing.
    """
    params = random_table(0, states=4, actions=2, outcomes=2)
    params.next_states[:] = 3
    params.cumulative[:] = [0.5, 1.0]
    params.rewards[:], params.costs[:], params.legal[:] = 0.0, 0.0, True
    params.terminal[:] = [False, False, False, True]
    params.next_states[0, 1] = [1, 2]
    params.rewards[0, 1] = [6.0, 6.0]
    params.costs[0, 1, :, 0] = [1.0, 0.0]
    params.rewards[1:3, 1] = [[4.0, 4.0], [8.0, 8.0]]
    params.costs[1:3, 1, :, 0] = 1.0
    return params


SMALL = SearchSettings(discount=0.5, horizon=3)


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        (0.6, {1: 0.0, 2: 0.4}),  # 0.1 more than 0.5 is 0.1 / (0.5 * 0.5) in one of two outcomes: where 1 buys 8
        (0.74, {1: 0.0, 2: 0.96}),
        (0.9, {1: 0.6, 2: 1.0}),
        (2.0, {1: 3.0, 2: 3.0}),  # what nobody can use is given to both
    ],
)
def test_the_budget_is_handed_to_the_outcomes_where_it_earns_most(budget, left):
    planner = ThresholdUCT(table_model(coin_table()), SMALL, caution=0.0)
    decision = planner.plan(START, budget, iterations=2000)
    assert decision.action_name == "1" and decision.probabilities.tolist() == [0.0, 1.0]
    assert decision.handover.limit == budget
    for number, (state, paid) in {1: ([0.0, 1.0], 1.0), 2: ([0.0, 2.0], 0.0)}.items():
        agent = Agent(planner, budget)
        agent.decision = decision
        agent.observe(paid)
        assert agent.arrive(state)[0] == pytest.approx(left[number], abs=0.02)


def test_between_two_actions_a_coin_is_tossed_whose_expected_cost_is_the_budget():
    planner = ThresholdUCT(table_model(coin_table()), SMALL, caution=0.0)
    decision = planner.plan(START, 0.2, iterations=2000)
    assert decision.probabilities == pytest.approx([0.6, 0.4], abs=0.01)
    assert decision.probabilities @ decision.cost_values[:, 0] == pytest.approx(0.2)
    assert decision.curve[:, 0] == pytest.approx([0.0, 0.5, 0.75, 1.0], abs=0.01)
    assert decision.curve[:, 1] == pytest.approx([0.0, 6.0, 8.0, 9.0], abs=0.03)
    chosen = [planner.plan(START, 0.2, iterations=50, rng=seed).action for seed in range(200)]
    assert 0.25 < np.mean(chosen) < 0.55


def test_what_was_not_foreseen_pays_for_itself():
    planner = ThresholdUCT(table_model(coin_table()), SMALL, caution=0.0)
    agent = Agent(planner, 0.75, iterations=500)
    agent.act(START)
    agent.observe(0.25)
    assert agent.arrive([1.0, 0.0])[0] == pytest.approx((0.75 - 0.25) / 0.5)
    agent.act(START)
    agent.observe(9.0)
    assert agent.arrive([1.0, 0.0]) == [0.0]


def test_an_action_that_something_else_took_is_charged_what_it_cost():
    planner = ThresholdUCT(table_model(coin_table()), SMALL, caution=0.0)
    agent = Agent(planner, 0.75, iterations=500)
    agent.act(START)
    agent.override(0)
    agent.observe(0.25)
    assert agent.arrive([0.0, 2.0])[0] == pytest.approx((0.75 - 0.25) / 0.5)


def test_costs_that_cannot_be_avoided_are_not_free():
    """Every action costs at least 1, and a step costs reward: no vertex is at cost 0, nor is one at reward 0."""
    params = coin_table()
    params.costs[0] = params.costs[0] + 1.0
    params.rewards[0] = -1.0
    decision = ThresholdUCT(table_model(params), SMALL, caution=0.0).plan(START, 0.3, iterations=500)
    assert decision.curve[0] == pytest.approx([1.0, -1.0])
    assert decision.action_name == "0" and decision.nothing_safe
    assert not ThresholdUCT(table_model(params), SMALL, caution=0.0).plan(START, 1.0, iterations=500).nothing_safe


def test_rewards_and_costs_have_discounts_of_their_own():
    planner = ThresholdUCT(
        table_model(coin_table()), SearchSettings(discount=0.5, cost_discounts=1.0, horizon=3), caution=0.0
    )
    curve = planner.plan(START, 0.8, iterations=2000).curve
    assert curve[:, 0] == pytest.approx([0.0, 0.5, 1.0, 1.5], abs=0.01)
    assert curve[:, 1] == pytest.approx([0.0, 6.0, 8.0, 9.0], abs=0.03)


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_few_simulations_still_decide(iterations):
    decision = ThresholdUCT(table_model(coin_table()), SMALL, caution=0.0).plan(START, 0.3, iterations=iterations)
    assert decision.visits.sum() == iterations - 1
    assert decision.visits[decision.action] > 0 or iterations == 1
    assert (decision.curve is None) == (iterations == 1)


def test_a_full_tree_goes_on(slow_clock):
    model = table_model(random_table(4))
    planner = ThresholdUCT(model, dataclasses.replace(SHORT, max_nodes=10))
    decision = planner.plan(START, 1.0, seconds=100 * slow_clock)
    assert (decision.tree_size, decision.iterations) == (10, 97)
    assert decision.visits.sum() == 96


def test_batches_and_agents_decide_as_single_plans_do():
    model = table_model(random_table(4))
    planner = ThresholdUCT(model, SHORT)
    budgets = [0.1, 0.4, 0.9]
    single = [planner.plan(START, budget, iterations=100, rng=n) for n, budget in enumerate(budgets)]
    batch = planner.plan_batch([START] * 3, budgets, iterations=100, rngs=range(3), threads=2)
    agents = [Agent(planner, budget, iterations=100, rng=n) for n, budget in enumerate(budgets)]
    together = act_together(agents, [START] * 3, threads=2)
    for one, other, third in zip(single, batch, together, strict=True):
        assert one.curve.tolist() == other.curve.tolist() == third.curve.tolist()
        assert one.to_dict()["curve"] == one.curve.tolist()
        assert one.action == other.action == third.action
        assert one.handover.given.tolist() == other.handover.given.tolist() == third.handover.given.tolist()


def test_a_tree_that_is_reused_and_kept():
    model = table_model(coin_table())
    planner = ThresholdUCT(model, SMALL)
    planner.warm_up()
    agent = Agent(planner, 0.75, iterations=400, reuse_tree=True, keep_tree=True)
    first = agent.act(START)
    agent.observe(0.0)
    second = agent.act([0.0, 2.0])
    assert second.budget == pytest.approx([1.0], abs=0.02)
    assert second.visits.sum() > 400 and second.tree.count[0] == second.tree_size
    assert first.tree.count[0] == first.tree_size


def test_a_model_that_does_not_compile_is_planned_for_as_well():
    compiled, plain = table_model(random_table(5)), table_model(random_table(5))
    plain.verdict.fault = UNCOMPILED
    decisions = [
        ThresholdUCT(model, SHORT).plan_batch([START] * 3, [0.4] * 3, iterations=60, rngs=range(3), threads=2)
        for model in (compiled, plain)
    ]
    for one, other in zip(*decisions, strict=True):
        assert one.curve.tolist() == other.curve.tolist()
        assert one.handover.given.tolist() == other.handover.given.tolist()


@pytest.mark.parametrize(
    ("what", "broken"),
    [("costs", np.nan), ("costs", -1.0), ("costs", np.inf), ("rewards", np.nan), ("rewards", np.inf)],
)
def test_broken_steps_are_refused(what, broken):
    params = random_table(1)
    getattr(params, what)[:] = broken
    with pytest.raises(ModelError, match="expected model 'table' to return a finite reward, finite costs >= 0"):
        ThresholdUCT(table_model(params), SHORT).plan(START, 1.0, iterations=50)


def test_several_constraints_are_refused_by_name():
    model = dataclasses.replace(table_model(random_table(1, constraints=2)), cost_names=("falls", "noise"))
    with pytest.raises(InvalidInput, match=r"expected a model with one constraint .* got 2: falls, noise"):
        ThresholdUCT(model, SHORT)


def test_mistakes_are_refused():
    model = table_model(coin_table())
    with pytest.raises(InvalidInput, match=r"expected caution >= 0, got -0.5"):
        ThresholdUCT(model, SMALL, caution=-0.5)
    with pytest.raises(InvalidInput, match="expected pruning settings with a critic alone"):
        ThresholdUCT(model, SMALL, pruning=PruningSettings())
    with pytest.raises(InvalidInput, match="expected no cost_scale beside a critic"):
        ThresholdUCT(model, SMALL, critic=linear_critic(model, [[0.0], [0.5]]), cost_scale=(2.0,))
    with pytest.raises(InvalidInput, match="expected cost_scale > 0"):
        ThresholdUCT(model, SMALL, cost_scale=(0.0,))
    with pytest.raises(InvalidInput, match="budget finite and >= 0"):
        ThresholdUCT(model, SMALL).plan(START, -0.1)
    with pytest.raises(InvalidInput, match="expected discounts below 1"):
        ThresholdUCT(dataclasses.replace(model, episodes_end=False), SearchSettings(discount=1.0))


def test_a_root_without_actions_is_refused():
    params = random_table(1)
    params.legal[0] = False
    with pytest.raises(InvalidInput, match="expected a state with a legal action"):
        ThresholdUCT(table_model(params), SHORT).plan(START, 1.0)


def test_commands_plan_play_and_evaluate_with_it(capsys, monkeypatch):
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)  # a few simulations are not worth a compilation
    task = ["random-absorbing-0", "--planner", "threshold-uct", "--iterations", "20"]
    assert cli.main(["plan", *task, "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    expected = make_planner(make(task[0]), "threshold-uct").planner.plan([0.0], make(task[0]).budget, iterations=20)
    assert planned["planner"] == "threshold-uct"
    assert planned["curve"] == expected.curve.tolist()
    assert cli.main(["plan", *task]) == 0
    assert "curves of reward against expected cost" in capsys.readouterr().out
    assert cli.main(["evaluate", *task, "--episodes", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 3
    assert cli.main(["play", *task, "--delay", "0"]) == 0
    assert "planner threshold-uct" in capsys.readouterr().out


def test_it_plans_on_the_cpu():
    planner = ThresholdUCT(table_model(coin_table()), SMALL, caution=0.0)
    with pytest.raises(InvalidInput, match='ThresholdUCT, got "cuda": it plans on the CPU alone'):
        planner.plan_batch([START], [0.3], iterations=10, rngs=[0], device="cuda")
    with pytest.raises(InvalidInput, match="plans on the CPU alone"):
        run_episodes(planner, partial(ModelWorld, planner.model), 0.3, episodes=1, seed=0, device="cuda")
    assert len(planner.plan_batch([START], [0.3], iterations=10, rngs=[0], device="auto")) == 1
    with pytest.raises(InvalidInput, match="plans on the CPU alone"):
        _ = planner.lanes
