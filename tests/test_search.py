"""The compiled search against `naive.py`, and what can be done to a search: go on, run out of room, re-root."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cmcts
from cmcts.critic.ensemble import immediate_costs_only
from cmcts.envs.rocksample.model import rocksample_model
from cmcts.envs.safe_gridworld.model import safe_gridworld_model
from cmcts.model.interface import Model
from cmcts.planning.planners import CCMCP, CMCTS, CCMCPSettings, PenalizedMCTS
from cmcts.random import stream, uniform
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.search.tree import ILLEGAL, NO_NODE, PRUNED, ROOT, Tree, allocate, bytes_per_node
from models import linear_critic, lookup_critic, random_ensemble, random_table, random_values, table_model
from naive import NaiveSearch, tree_summary


def searches(planner, state, budget, seed, capacity=10_000, **rules):
    """A compiled and a naive search of the same problem with the same stream."""
    session = planner.session()
    session.rules = session.rules._replace(**rules)
    model = planner.model
    state = model.validate_state(state)
    budget = model.validate_costs(budget, "budget")
    multipliers = planner.initial_multipliers()
    session.begin(state, budget, multipliers, stream(seed), capacity)
    naive = NaiveSearch(
        model,
        planner.critic,
        session.rules,
        planner.cost_discounts,
        state,
        budget,
        multipliers,
        stream(seed),
        max_nodes=capacity,
        values=planner.values,
    )
    return session, naive


def assert_same(session, naive):
    ours = tree_summary(session.tree, session.model, session.rules.use_critic)
    theirs = naive.summary()
    assert len(ours) == len(theirs)
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == other, f"node {number}"
    assert session.multipliers.tolist() == naive.multipliers
    assert session.rng[0] == naive.rng[0], "one of the searches drew more random numbers"


def assert_search_is_naive(planner, state, budget, seed=0, iterations=200, capacity=10_000, **rules):
    session, naive = searches(planner, state, budget, seed, capacity, **rules)
    session.run(iterations)
    naive.run(iterations)
    assert_same(session, naive)
    return session, naive


def rocksample():
    """Model and states of a small RockSample: the start, and one with a collected and two measured rocks."""
    model = rocksample_model(5, 7)
    later = np.array([1.0, 2.0, -1.0, 0.9, 0.4, 0.5, 0.5, 0.5, 0.1])
    return model, [model.start_state(), later]


def gridworld():
    """Model and states of Safe Gridworld with wind: a start, beside the wall, and in the wind."""
    return safe_gridworld_model(0.3), [np.array([1.0, 1.0]), np.array([4.0, 4.0]), np.array([3.0, 6.0])]


ENVIRONMENTS = {"rocksample": rocksample, "gridworld": gridworld}
SHORT = SearchSettings(horizon=25)
SEARCHES = {
    "directed": SHORT,
    "uniform": dataclasses.replace(SHORT, rollout="uniform"),
    "rollouts": dataclasses.replace(SHORT, rollouts=3),
    "thrifty": dataclasses.replace(SHORT, thrifty_rollouts=True, rollout="uniform"),
    "thrifty directed": dataclasses.replace(SHORT, thrifty_rollouts=True),
    "guarded": dataclasses.replace(SHORT, guarded_rollouts=True, rollout="uniform"),
    "guarded directed": dataclasses.replace(SHORT, guarded_rollouts=True),
    "widening": dataclasses.replace(SHORT, widening_factor=1.0, widening_power=0.2),
}
PRUNINGS = {
    "default": PruningSettings(sigma_max=0.3),
    "paper": PruningSettings.paper(sigma_max=0.3),
    "unsure: floor": PruningSettings(sigma_max=0.3, unsure="floor"),
    "strict": PruningSettings(sigma_max=0.3, tolerance=0.0, cost_floor=False),
    "lowest mean": PruningSettings(sigma_max=0.1, fallback="lowest_mean"),
    "sure of all": PruningSettings(sigma_max=np.inf, tolerance=0.2),
    "expected accounting": PruningSettings(sigma_max=0.3, tolerance=0.0, accounting="expected"),
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_penalized_search_equals_the_naive_one(environment, search):
    model, states = ENVIRONMENTS[environment]()
    for seed, state in enumerate(states):
        session, _ = assert_search_is_naive(PenalizedMCTS(model, 1.5, SEARCHES[search]), state, 1.0, seed)
        assert session.tree.count[0] > 40


@pytest.mark.parametrize("search", ["uniform", "rollouts", "widening"])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_search_with_leaf_values_equals_the_naive_one(environment, search):
    """Never in doubt, always in doubt, and sometimes: then a rollout is averaged in."""
    model, states = ENVIRONMENTS[environment]()
    trees = []
    for doubt in (np.inf, 0.0, 2.0):
        planner = PenalizedMCTS(model, 1.5, SEARCHES[search], values=random_values(model, 3, doubt=doubt))
        for seed, state in enumerate(states):
            session, _ = assert_search_is_naive(planner, state, 1.0, seed)
        trees.append(session.tree.reward_values[ROOT].tolist())
    assert trees[0] != trees[1]


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000),
    constraints=st.integers(1, 3),
    horizon=st.integers(1, 12),
    rollouts=st.integers(1, 3),
    doubt=st.sampled_from([0.0, 1.0, np.inf]),
    capacity=st.sampled_from([2, 10, 10_000]),
)
def test_search_of_random_models_with_leaf_values_equals_the_naive_one(
    seed, constraints, horizon, rollouts, doubt, capacity
):
    model = dataclasses.replace(table_model(random_table(seed, constraints=constraints)), compilable=False)
    search = SearchSettings(discount=0.9, horizon=horizon, rollouts=rollouts, exploration=1.0)
    values = random_values(model, seed, doubt=doubt)
    planner = PenalizedMCTS(model, np.linspace(0.5, 2.0, constraints), search, values=values)
    assert_search_is_naive(planner, [0.0, 0.0], np.ones(constraints), seed, iterations=60, capacity=capacity)


@pytest.mark.slow  # a kernel for each environment
@pytest.mark.parametrize("accounting", ["paid", "expected"])
@pytest.mark.parametrize("search", ["uniform", "guarded", "widening"])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_guarded_search_with_leaf_values_equals_the_naive_one(environment, search, accounting):
    """A guard prunes, learned or by immediate costs alone, and values judge leaves: never in doubt, or often."""
    model, states = ENVIRONMENTS[environment]()
    pruning = PruningSettings(sigma_max=0.3, accounting=accounting)
    pruned = 0
    for critic in (immediate_costs_only(model), random_ensemble(model, 3, (6, 9), 5, scale=0.3, offset=0.6)):
        for doubt in (np.inf, 2.0):
            values = random_values(model, 3, doubt=doubt)
            planner = CMCTS(model, critic, SEARCHES[search], pruning, 1.5, values=values)
            for seed, state in enumerate(states):
                session, _ = assert_search_is_naive(planner, state, 0.7, seed, iterations=80)
                pruned += (session.tree.pruned_by[: session.tree.count[0]] > 0).sum()
    assert pruned > 0, "the case must prune something"


@settings(max_examples=40)
@given(
    kind=st.sampled_from(["cmcts, nothing learned", "cmcts, perceptrons", "cmcts, linear"]),
    seed=st.integers(0, 1000),
    constraints=st.integers(1, 3),
    horizon=st.integers(1, 12),
    doubt=st.sampled_from([0.0, 1.0, np.inf]),
    accounting=st.sampled_from(["paid", "expected"]),
    capacity=st.sampled_from([2, 10, 10_000]),
)
def test_guarded_search_of_random_models_with_leaf_values_equals_the_naive_one(
    kind, seed, constraints, horizon, doubt, accounting, capacity
):
    model = dataclasses.replace(table_model(random_table(seed, constraints=constraints)), compilable=False)
    search = SearchSettings(discount=0.9, horizon=horizon, exploration=1.0, guarded_rollouts=bool(seed % 2))
    bare = make_planner(kind, model, search, PruningSettings(sigma_max=0.3, accounting=accounting), seed)
    prices, values = np.linspace(0.5, 2.0, constraints), random_values(model, seed, doubt=doubt)
    planner = CMCTS(model, bare.critic, search, bare.pruning, prices, values=values)
    budgets = np.linspace(1.0, 0.5, constraints)
    assert_search_is_naive(planner, [0.0, 0.0], budgets, seed, iterations=60, capacity=capacity)


@pytest.mark.parametrize("accounting", ["paid", "expected"])
def test_compiled_guarded_search_with_leaf_values_equals_the_naive_one(accounting):
    """A guard that has learned, and one that has not, are one kernel with values: only their weights differ."""
    model, values = cmcts.make("random-absorbing-3").model, []
    for critic in (immediate_costs_only(model), random_ensemble(model, 3, members=2, scale=0.3, offset=0.6)):
        pruning = PruningSettings(sigma_max=0.3, accounting=accounting)
        planner = CMCTS(model, critic, SHORT, pruning, 1.5, values=random_values(model, 3, doubt=2.0))
        session, _ = assert_search_is_naive(planner, model.start_state(), 0.7, 1)
        assert (session.tree.pruned_by[: session.tree.count[0]] > 0).any()
        values.append(session.tree.reward_values[ROOT].tolist())
    assert values[0] != values[1], "the cases must differ"


@pytest.mark.slow  # a kernel of its own
def test_a_guard_that_is_no_perceptron_shares_its_place_with_values_and_equals_the_naive_search():
    """It is shown the model's features alone, compiled as well: its largest one is never a price."""
    model = table_model(random_table(5, actions=4, constraints=2))
    rng = np.random.default_rng(5)
    critic = lookup_critic(model, rng.random((6, 8)) * 2.0, rng.random((6, 8)) * 0.6)
    planner = CMCTS(model, critic, SHORT, multiplier=[40.0, 40.0], values=random_values(model, 5, doubt=1.0))
    assert_search_is_naive(planner, [0.0, 0.0], [1.5, 0.6], 1)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_ccmcp_search_equals_the_naive_one(environment, search):
    model, states = ENVIRONMENTS[environment]()
    planner = CCMCP(model, SEARCHES[search], CCMCPSettings(initial_multiplier=1.0, maximum_multiplier=1.5))
    for seed, state in enumerate(states):
        session, _ = assert_search_is_naive(planner, state, 0.2, seed)
        assert session.multipliers[0] != 1.0


@pytest.mark.parametrize("pruning", PRUNINGS)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_cmcts_search_equals_the_naive_one(environment, pruning):
    model, states = ENVIRONMENTS[environment]()
    critic = random_ensemble(model, 3, hidden=(6, 9), members=5, scale=0.3, offset=0.6)
    planner = CMCTS(model, critic, SHORT, PRUNINGS[pruning])
    pruned = 0
    for seed, state in enumerate(states):
        session, _ = assert_search_is_naive(planner, state, 0.7, seed, iterations=120)
        pruned += (session.tree.pruned_by[: session.tree.count[0]] > 0).sum()
    assert pruned > 0, "the case must prune something"


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_cmcts_with_each_search_option_equals_the_naive_one(environment, search):
    model, states = ENVIRONMENTS[environment]()
    for critic in (immediate_costs_only(model), random_ensemble(model, 3, members=2, scale=0.3, offset=0.6)):
        planner = CMCTS(model, critic, SEARCHES[search], multiplier=0.5)
        for seed, state in enumerate(states):
            assert_search_is_naive(planner, state, 1.0, seed, iterations=60)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_sampled_immediate_costs_draw_like_the_naive_search(environment):
    model, states = ENVIRONMENTS[environment]()
    search = dataclasses.replace(SHORT, cost_samples=3, thrifty_rollouts=True)
    planner = CMCTS(model, immediate_costs_only(model), search)
    for seed, state in enumerate(states):
        assert_search_is_naive(planner, state, 0.5, seed, iterations=60, has_expected_costs=False)


def make_planner(kind, model, search, pruning, seed):
    if kind == "penalized":
        return PenalizedMCTS(model, np.linspace(0.5, 2.0, model.cost_count), search)
    if kind == "ccmcp":
        return CCMCP(model, search, CCMCPSettings(initial_multiplier=0.5, maximum_multiplier=2.0))
    critics = {
        "cmcts, nothing learned": lambda: immediate_costs_only(model),
        "cmcts, perceptrons": lambda: random_ensemble(model, seed, scale=0.5, offset=0.5),
        "cmcts, linear": lambda: linear_critic(
            model,
            np.random.default_rng(seed).random((model.feature_count, model.action_count, model.cost_count)) * 2,
            np.random.default_rng(seed + 1).random((model.action_count, model.cost_count)),
        ),
    }
    multiplier = np.full(model.cost_count, 0.25) if seed % 2 else None
    return CMCTS(model, critics[kind](), search, pruning, multiplier)


KINDS = ("penalized", "ccmcp", "cmcts, nothing learned", "cmcts, perceptrons", "cmcts, linear")


@settings(max_examples=200)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 1000),
    constraints=st.integers(1, 3),
    actions=st.integers(1, 4),
    outcomes=st.integers(1, 4),
    search=st.builds(
        SearchSettings,
        discount=st.sampled_from([0.5, 0.9, 0.95, 1.0]),
        cost_discounts=st.sampled_from([None, 0.7, 1.0]),
        exploration=st.sampled_from([None, 0.0, 1.0, 20.0]),
        relative_exploration=st.sampled_from([0.0, 1.0, 3.0]),
        horizon=st.integers(1, 12),
        rollout=st.sampled_from(["directed", "uniform"]),
        thrifty_rollouts=st.booleans(),
        guarded_rollouts=st.booleans(),
        rollouts=st.integers(1, 3),
        widening_factor=st.sampled_from([0.0, 0.5, 1.0]),
        widening_power=st.sampled_from([0.2, 1.0]),
        cost_samples=st.integers(1, 3),
    ),
    pruning=st.builds(
        PruningSettings,
        sigma_max=st.sampled_from([0.0, 0.3, np.inf]),
        tolerance=st.sampled_from([0.0, 0.05]),
        cost_floor=st.booleans(),
        fallback=st.sampled_from(["lowest_pessimistic", "lowest_mean"]),
        accounting=st.sampled_from(["paid", "expected"]),
    ),
    budget=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    own_costs=st.booleans(),
    one_discount=st.booleans(),
    capacity=st.sampled_from([2, 10, 10_000]),
)
def test_search_of_random_models_equals_the_naive_one(
    kind, seed, constraints, actions, outcomes, search, pruning, budget, own_costs, one_discount, capacity
):
    params = random_table(seed, actions=actions, outcomes=outcomes, constraints=constraints)
    if not one_discount:
        search = dataclasses.replace(search, cost_discounts=tuple(np.linspace(1.0, 0.6, constraints).tolist()))
    planner = make_planner(kind, table_model(params), search, pruning, seed)
    budgets = budget * np.linspace(1.0, 0.5, constraints)
    assert_search_is_naive(
        planner, [0.0, 0.0], budgets, seed, iterations=80, capacity=capacity, has_expected_costs=own_costs
    )


def test_a_critic_that_is_no_perceptron_equals_the_naive_search():
    model = table_model(random_table(5, actions=4, constraints=2))
    rng = np.random.default_rng(5)
    critic = lookup_critic(model, rng.random((6, 8)) * 2.0, rng.random((6, 8)) * 0.6)
    planner = CMCTS(model, critic, SHORT)
    session, _ = assert_search_is_naive(planner, [0.0, 0.0], [1.5, 0.6], 1)
    assert (session.tree.pruned_by[: session.tree.count[0]] == 2).any(), "the second constraint must prune as well"


def test_chance_nodes_keep_every_outcome_apart():
    """From the start the only action has three outcomes, each with a reward of its own."""
    params = random_table(0, states=6, actions=1, outcomes=3)
    params.next_states[0, 0] = [1, 2, 3]
    params.cumulative[0, 0] = [0.5, 0.8, 1.0]
    params.rewards[0, 0] = [1.0, 10.0, 100.0]
    planner = PenalizedMCTS(table_model(params), 0.0, SearchSettings(horizon=1))
    tree = planner.plan([0.0, 0.0], 0.0, iterations=2001, keep_tree=True).tree
    children = {int(tree.reward[child]): int(tree.visits[child]) for child in range(1, 4)}
    assert tree.count[0] == 4
    assert sum(children.values()) == tree.action_visits[ROOT, 0] == 2000
    assert tree.reward_values[ROOT, 0] == pytest.approx(sum(r * n for r, n in children.items()) / 2000, rel=1e-12)
    for reward, share in ((1, 0.5), (10, 0.3), (100, 0.2)):
        assert children[reward] / 2000 == pytest.approx(share, abs=0.05)  # 4.5 standard deviations


def test_widening_bounds_the_outcomes():
    params = random_table(1, states=6, actions=1, outcomes=6)
    params.next_states[0, 0] = np.arange(6)
    planner = PenalizedMCTS(
        table_model(params), 0.0, SearchSettings(horizon=1, widening_factor=1.0, widening_power=0.25)
    )
    tree = planner.plan([0.0, 0.0], 0.0, iterations=200, keep_tree=True).tree
    assert tree.count[0] == 1 + 4  # 199 visits: a fourth outcome is let in at 3^4 = 81, a fifth would be at 256
    assert sum(tree.visits[1:5]) == 199


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("kind", ["ccmcp", "cmcts, perceptrons"])
def test_a_search_can_go_on(environment, kind):
    model, states = ENVIRONMENTS[environment]()
    planner = make_planner(kind, model, SHORT, PruningSettings(), 4)
    whole, _ = searches(planner, states[0], 0.5, seed=11)
    parts, _ = searches(planner, states[0], 0.5, seed=11)
    whole.run(256)
    parts.run(100)
    parts.run(156)
    use_critic = whole.rules.use_critic
    assert tree_summary(parts.tree, model, use_critic) == tree_summary(whole.tree, model, use_critic)
    assert parts.multipliers.tolist() == whole.multipliers.tolist()
    assert parts.rng[0] == whole.rng[0]
    assert parts.iterations == whole.iterations == 256


@pytest.mark.parametrize("search", ["directed", "guarded"])
def test_a_session_can_be_used_again(search):
    """Neither the old tree nor what was remembered of the critic changes the next search."""
    model, states = rocksample()
    planner = make_planner("cmcts, perceptrons", model, SEARCHES[search], PruningSettings(), 4)
    fresh, _ = searches(planner, states[1], 0.5, seed=2)
    used, _ = searches(planner, states[0], 1.0, seed=1)
    used.run(300)
    used.begin(states[1], np.array([0.5]), np.zeros(1), stream(2), 10_000)
    fresh.run(150)
    used.run(150)
    assert tree_summary(used.tree, model, True) == tree_summary(fresh.tree, model, True)


def test_a_full_tree_still_learns():
    model, states = rocksample()
    session, _ = assert_search_is_naive(PenalizedMCTS(model, 1.0, SHORT), states[0], 1.0, iterations=150, capacity=20)
    tree = session.tree
    assert tree.count[0] == 20
    legal = tree.action_visits[ROOT] != ILLEGAL
    assert tree.action_visits[ROOT][legal].sum() == 149
    assert (tree.action_visits[ROOT][legal] > 0).all()


def test_a_search_limited_by_time_stops_at_max_nodes(slow_clock):
    model, states = rocksample()
    planner = PenalizedMCTS(model, 1.0, dataclasses.replace(SHORT, max_nodes=10))
    decision = planner.plan(states[0], 1.0, seconds=200 * slow_clock)
    assert decision.tree_size == 10
    assert decision.iterations == 197


def test_tree_depth_and_bytes():
    tree = allocate(10, state_size=3, action_count=4, cost_count=2, critic=True)
    # 8*(3+1+2+2+2) state, reward, costs, path costs, returns; 4*5 links, visits, depth; 3 flags; a row of 4 actions, of
    # 8 costs and of 8 charges
    assert bytes_per_node(tree) == 8 * 10 + 4 * 5 + 3 + 4 * (4 + 4 + 8) + 8 * (8 + 8) + 4 * (8 + 8 + 4)
    model, states = gridworld()
    decision = PenalizedMCTS(model, 0.0, SHORT).plan(states[0], 1.0, iterations=300, keep_tree=True)
    assert decision.tree_depth == decision.tree.depth[: decision.tree_size].max() > 2


def subtree(summary, root):
    """Nodes below `root` in order of age, and their new numbers."""
    kept, numbers = [], {root: 0}
    for number, node in enumerate(summary):
        if number not in numbers:
            continue
        kept.append(number)
        for action in node["actions"].values():
            for child in action["outcomes"]:
                numbers[child] = -1
    return kept, {number: index for index, number in enumerate(kept)}


def rerooted_search(budget_after, *, poison=False):
    """A search, and the same session re-rooted on the most visited outcome of its most visited root action."""
    model, states = rocksample()
    critic = random_ensemble(model, 8, scale=0.3, offset=0.5)
    planner = CMCTS(model, critic, SHORT, PruningSettings(unsure="floor"))
    session = planner.session()
    state, budget, zero = states[1], np.array([1.0]), np.zeros(1)
    if poison:
        session.tree = Tree(*(np.full_like(array, 10**6) for array in session._allocate(2000)))
    session.begin(state, budget, zero, stream(0), 2000)
    session.run(600)
    before, old_tree = tree_summary(session.tree, model, True), session.tree
    action = int(np.argmax(old_tree.action_visits[ROOT]))
    child = max(before[ROOT]["actions"][action]["outcomes"], key=lambda number: before[number]["visits"])
    assert session.resume_at(action, old_tree.states[child].copy(), np.array([budget_after]), zero, stream(9), 100)
    return session, before, child


@pytest.mark.parametrize("poison", [False, True], ids=["fresh memory", "used memory"])
def test_rerooting_keeps_exactly_the_subtree(poison):
    discount = SHORT.discount
    probe, before, child = rerooted_search(1.0, poison=poison)
    # The budget that makes C_path + gamma^t Q come out as before: b = C_path(child) + gamma b'.
    left = (1.0 - before[child]["path_costs"][0]) / discount ** before[child]["depth"]
    session, before, child = rerooted_search(left, poison=poison)
    after = tree_summary(session.tree, session.model, True)
    kept, numbers = subtree(before, child)
    assert len(after) == len(kept) > 20
    assert len(probe.tree.parent) >= len(kept) + 100, "room for the iterations to come"
    for node, number in zip(after, kept, strict=True):
        old = before[number]
        for name in ("state", "terminal", "visits", "reward", "costs", "mean", "sigma", "nothing_safe"):
            assert node[name] == old[name], name
        assert node["depth"] == old["depth"] - before[child]["depth"]
        rebased = (old["path_costs"][0] - before[child]["path_costs"][0]) / discount ** before[child]["depth"]
        assert node["path_costs"][0] == pytest.approx(rebased, abs=1e-12)
        assert node["actions"].keys() == old["actions"].keys()
        for action, edge in node["actions"].items():
            previous = old["actions"][action]
            assert edge["outcomes"] == tuple(numbers[outcome] for outcome in previous["outcomes"])
            for name in ("visits", "closed", "judged_by", "reward_value", "cost_values"):
                assert edge[name] == previous[name], name
    assert session.tree.parent[ROOT] == NO_NODE
    assert session.tree.peak_depth[0] == max(node["depth"] for node in after)


@pytest.mark.parametrize("budget", [0.0, 0.6, 50.0])
def test_rerooting_judges_anew_under_the_budget_that_is_left(budget):
    """After re-rooting, each expanded node is pruned as a naive search would with the new budget and path cost."""
    session, _, _ = rerooted_search(budget)
    model, tree = session.model, session.tree
    naive = NaiveSearch(
        model, session.critic, session.rules, [SHORT.discount], tree.states[ROOT], [budget], [0.0], stream(9)
    )
    pruned = 0
    for number, node in enumerate(tree_summary(tree, model, True)):
        if not tree.expanded[number]:
            continue
        twin = type(naive.root)(node["state"], node["depth"], False, 0.0, [0.0], node["path_costs"])
        naive.expand(twin)
        assert twin.nothing_safe == node["nothing_safe"]
        for action, edge in twin.actions.items():
            ours = node["actions"][action]
            assert (ours["judged_by"], ours["closed"]) == (edge.judged_by, edge.closed)
            pruned += edge.closed
            if not edge.closed and ours["visits"] == 0:
                assert ours["outcomes"] == (), "an action that was opened again starts afresh"
    assert (pruned == 0) == (budget == 50.0)
    session.run(100)
    assert (tree.action_visits[ROOT][tree.action_visits[ROOT] > 0]).sum() >= 100
    assert not ((tree.action_visits[ROOT] != PRUNED) & (tree.action_visits[ROOT] == 0)).any()


def test_rerooting_refuses_what_is_not_in_the_tree():
    model, states = gridworld()
    planner = PenalizedMCTS(model, 0.0, SHORT)
    session, _ = searches(planner, states[0], 1.0, seed=0)
    session.run(100)
    arguments = (np.ones(1), np.zeros(1), stream(0), 100)
    assert not session.resume_at(0, np.array([6.0, 6.0]), *arguments)
    assert not session.resume_at(0, np.array([1.0, 3.0]), *arguments), "two squares north"
    assert session.resume_at(0, np.array([1.0, 2.0]), *arguments)


def test_rerooting_refuses_a_terminal_state():
    model, _ = gridworld()
    session, _ = searches(PenalizedMCTS(model, 0.0, SHORT), [6.0, 6.0], 1.0, seed=0)
    session.run(100)
    assert not session.resume_at(1, np.array([7.0, 7.0]), np.ones(1), np.zeros(1), stream(0), 100)


def test_the_reference_shares_no_search_code():
    """`naive.py` may use the random stream and the plain twins of the model's functions, nothing else."""
    source = (Path(__file__).parent / "naive.py").read_text()
    imports = [line for line in source.splitlines() if line.startswith(("import", "from"))]
    ours = [line for line in imports if "cmcts" in line]
    assert ours == [
        "from cmcts.compilation.content import uncompiled",
        "from cmcts.random import below, next_uint64, stratify",
    ]


def _blink_start(params, rng, state):
    state[0] = 0.0


def _blink_legal(params, state, out):
    out[0] = 0
    return 1


def _blink_features(params, state, out):
    out[0] = 1.0


def _blink_step(params, state, action, rng, next_state, costs):
    """Stay where you are for a reward of 1; the episode ends half of the time."""
    next_state[0] = state[0]
    costs[0] = 0.0
    return 1.0, uniform(rng) < params.end


class _BlinkParams(NamedTuple):
    end: float


def test_ending_and_going_on_in_the_same_state_are_two_outcomes():
    """V = 1 + 0.95 * 0.5 V, so V = 1 / 0.525; sharing a node, the ended episode would go on earning."""
    model = Model(
        name="blink",
        params=_BlinkParams(0.5),
        step=_blink_step,
        legal_actions=_blink_legal,
        features=_blink_features,
        start=_blink_start,
        state_size=1,
        action_count=1,
        feature_count=1,
    )
    model.verdict.fault = "run uncompiled: it is not worth a compilation"
    decision = PenalizedMCTS(model, 0.0, SearchSettings(exploration=1.0)).plan(
        [0.0], 1.0, iterations=4000, keep_tree=True
    )
    assert decision.reward_values[0] == pytest.approx(1 / 0.525, abs=0.06)
    children = np.flatnonzero(decision.tree.parent[: decision.tree_size] == ROOT)
    assert sorted(decision.tree.terminal[children]) == [False, True]


@pytest.mark.parametrize("accounting", ["paid", "expected"])
@pytest.mark.parametrize("search", [{}, {"thrifty_rollouts": True}, {"guarded_rollouts": True}])
def test_a_full_tree_charges_as_one_with_room(accounting, search):
    """Leaves that find no room are charged by the same accounting; the naive search has them as nodes of no tree."""
    for seed in range(4):
        model = table_model(random_table(seed, constraints=2))
        pruning = PruningSettings(tolerance=0.05, accounting=accounting)
        critic = random_ensemble(model, seed, scale=0.3, offset=0.3)
        settings = dataclasses.replace(SHORT, **search)
        session, _ = assert_search_is_naive(
            CMCTS(model, critic, settings, pruning), [0.0, 0.0], [2.0, 2.0], seed, iterations=120, capacity=6
        )
        assert session.tree.count[0] == 6
