"""The agent: what is carried from one step of an episode to the next."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cmcts.compilation.content import python_function
from cmcts.critic.ensemble import immediate_costs_only
from cmcts.envs.rocksample.model import rocksample_model
from cmcts.envs.safe_gridworld.model import safe_gridworld_model
from cmcts.errors import InvalidInput
from cmcts.planning.agent import Agent, act_together
from cmcts.planning.planners import CCMCP, CMCTS, CCMCPSettings, PenalizedMCTS
from cmcts.random import stream
from cmcts.search.settings import SearchSettings
from models import random_ensemble, random_table, table_model

SHORT = SearchSettings(horizon=20)


def decision_with(probabilities, cost_values, budget, action):
    """A decision whose numbers are given."""
    model = table_model(random_table(0, actions=len(probabilities), constraints=len(budget)))
    decision = PenalizedMCTS(model, np.zeros(len(budget)), SHORT).plan([0, 0], budget, iterations=2)
    return dataclasses.replace(
        decision, probabilities=np.array(probabilities), cost_values=np.array(cost_values), action=action
    )


def test_what_is_left_after_a_deterministic_decision():
    """b' = (b - c) / gamma, not below 0; what other actions would have cost does not matter."""
    decision = decision_with([0.0, 1.0], [[0.8], [0.3]], [1.0], action=1)
    assert decision.next_budget(np.array([0.4]), 0.95) == pytest.approx([0.6 / 0.95])
    assert decision.next_budget(np.array([0.0]), 0.95) == pytest.approx([1 / 0.95])
    assert decision.next_budget(np.array([1.0]), 0.95).tolist() == [0.0]
    assert decision.next_budget(np.array([2.0]), 0.95).tolist() == [0.0]


def test_what_is_left_after_a_mixture():
    """b' = (b - p c - (1 - p) Q_C(other)) / (gamma p)."""
    decision = decision_with([0.75, 0.25], [[0.8], [0.3]], [1.0], action=1)
    # (1 - 0.25 * 0.4 - 0.75 * 0.8) / (0.95 * 0.25) = 0.3 / 0.2375
    assert decision.next_budget(np.array([0.4]), 0.95) == pytest.approx([1.2631578947368420])
    other = dataclasses.replace(decision, action=0)
    # (1 - 0.75 * 0.4 - 0.25 * 0.3) / (0.95 * 0.75) = 0.625 / 0.7125
    assert other.next_budget(np.array([0.4]), 0.95) == pytest.approx([0.8771929824561404])
    assert other.next_budget(np.array([9.0]), 0.95).tolist() == [0.0]


def test_what_is_left_for_each_constraint():
    decision = decision_with([0.5, 0.0, 0.5], [[0.2, 1.0], [9.0, 9.0], [0.6, 0.0]], [1.0, 0.8], action=2)
    # (1 - 0.5 * 0.4 - 0.5 * 0.2) / (0.9 * 0.5) = 0.7 / 0.45 and (0.8 - 0.5 * 0.1 - 0.5 * 1) / 0.45 = 0.25 / 0.45
    left = decision.next_budget(np.array([0.4, 0.1]), 0.9)
    assert left == pytest.approx([1.5555555555555556, 0.5555555555555556])


def test_an_agent_carries_its_budget_on():
    model = rocksample_model(5, 7)
    agent = Agent(CMCTS(model, immediate_costs_only(model), SHORT), budget=2.0, iterations=50)
    state = model.start_state()
    assert agent.act(state).budget.tolist() == [2.0]
    assert agent.observe(1.0) == pytest.approx([1 / 0.95])
    assert agent.act(state).budget == pytest.approx([1 / 0.95])
    assert agent.observe([0.5]) == pytest.approx([(1 / 0.95 - 0.5) / 0.95])
    assert agent.act(state).budget == pytest.approx([(1 / 0.95 - 0.5) / 0.95])


def test_an_agent_over_its_budget_measures_no_more():
    model = rocksample_model(5, 7)
    agent = Agent(CMCTS(model, immediate_costs_only(model), SHORT), budget=1.0, iterations=200)
    state = model.start_state()
    agent.act(state)
    agent.observe(1.0)
    decision = agent.act(state)
    assert agent.budget.tolist() == [0.0]
    assert decision.pruned[5:].all(), "every measurement costs 1, and nothing is left"
    assert not decision.pruned[:5].any()
    assert decision.visits[5:].sum() == 0


def test_an_agent_carries_multipliers_on():
    model = rocksample_model(5, 7)
    planner = CCMCP(model, SHORT, CCMCPSettings(initial_multiplier=25.0))
    agent = Agent(planner, budget=1.0, iterations=30, rng=4)
    state = model.start_state()
    assert agent.multipliers.tolist() == [25.0]
    first = agent.act(state)
    assert first.multipliers[0] < 24.0
    agent.observe(0.0)
    stream = agent.rng.copy()
    left = agent.budget.copy()
    second = agent.act(state)
    repeated = planner.plan(state, left, iterations=30, rng=stream.copy(), multipliers=first.multipliers)
    afresh = planner.plan(state, left, iterations=30, rng=stream.copy())
    assert second.multipliers.tolist() == repeated.multipliers.tolist() != afresh.multipliers.tolist()
    assert second.visits.tolist() == repeated.visits.tolist()


@pytest.mark.parametrize("reuse_tree", [False, True])
def test_an_agents_episode_is_reproducible(reuse_tree):
    model = safe_gridworld_model(0.0)

    def episode(seed):
        agent = Agent(PenalizedMCTS(model, 5.0, SHORT), 0.0, rng=seed, iterations=150, reuse_tree=reuse_tree)
        state, actions = np.array([1.0, 1.0]), []
        for _ in range(12):
            decision = agent.act(state)
            actions.append((decision.action, *decision.visits.tolist()))
            state = state + model.params.moves[decision.action]
            agent.observe(float(model.params.unsafe[tuple(state.astype(int))]))
            if tuple(state) == (7.0, 7.0):
                break
        return actions

    assert episode(1) == episode(1)
    assert episode(1) != episode(2)


def test_reusing_the_tree_keeps_what_was_searched():
    model = safe_gridworld_model(0.0)
    planner = CMCTS(model, random_ensemble(model, 0, scale=0.1), SHORT)
    agent = Agent(planner, 1.0, iterations=300, reuse_tree=True)
    forgetful = Agent(planner, 1.0, iterations=300)
    state = np.array([1.0, 1.0])
    first = agent.act(state)
    forgetful.act(state)
    agent.observe(0.0)
    forgetful.observe(0.0)
    state = state + model.params.moves[first.action]
    second = agent.act(state)
    # The chosen child was visited first.visits - 1 times beyond its own expansion.
    assert second.visits.sum() == 300 + first.visits[first.action] - 1
    assert forgetful.act(state).visits.sum() == 299
    assert second.state.tolist() == state.tolist()


def test_reusing_the_tree_survives_a_surprise():
    """The world did what the planner's model cannot: the agent starts afresh."""
    model = safe_gridworld_model(0.0)
    agent = Agent(PenalizedMCTS(model, 0.0, SHORT), 1.0, iterations=100, reuse_tree=True)
    agent.act([1.0, 1.0])
    agent.observe(0.0)
    decision = agent.act([6.0, 3.0])
    assert decision.state.tolist() == [6.0, 3.0]
    assert decision.visits.sum() == 99


@pytest.mark.parametrize("reuse_tree", [False, True])
def test_agents_together_decide_as_they_do_alone(reuse_tree):
    model = rocksample_model(5, 7)
    planner = CCMCP(model, SHORT)

    def agents():
        budgets = enumerate((0.0, 0.5, 1.0, 2.0))
        return [Agent(planner, budget, rng=seed, iterations=40, reuse_tree=reuse_tree) for seed, budget in budgets]

    states = np.stack([model.start_state()] * 4)
    states[:, 0] = range(4)
    together, alone = agents(), agents()
    for turn in range(2):
        batch = act_together(together, states, threads=2)
        single = [agent.act(state) for agent, state in zip(alone, states, strict=True)]
        for ours, theirs in zip(batch, single, strict=True):
            assert (ours.action, ours.visits.tolist()) == (theirs.action, theirs.visits.tolist())
            assert ours.multipliers.tolist() == theirs.multipliers.tolist()
            assert (ours.visits.sum() >= 40) == (turn == 1 and reuse_tree), "the tree of the first turn goes on"
        for one, other in zip(together, alone, strict=True):
            assert one.observe(0.25).tolist() == other.observe(0.25).tolist()
        states = np.stack([decision.model.start_state() for decision in batch])
        for state, before, decision in zip(states, [d.state for d in batch], batch, strict=True):
            python_function(model.step)(model.params, before, decision.action, stream(0), state, np.zeros(1))


def test_an_override_is_certain():
    model = rocksample_model(5, 7)
    agent = Agent(CCMCP(model, SHORT), 1.0, iterations=30)
    agent.act(model.start_state())
    assert agent.override(2).action == 2
    assert agent.decision.probabilities.tolist() == np.eye(12)[2].tolist()
    assert agent.observe(0.3) == pytest.approx([0.7 / 0.95])


def test_bad_input_is_refused():
    model = rocksample_model(5, 7)
    planner = PenalizedMCTS(model, 1.0)
    with pytest.raises(InvalidInput, match=r"^expected budget finite and >= 0, got -1\.0$"):
        Agent(planner, -1.0)
    agent = Agent(planner, 1.0, iterations=10)
    with pytest.raises(InvalidInput, match=r"^expected a decision before its costs are observed, got None$"):
        agent.observe(0.0)
    with pytest.raises(InvalidInput, match=r"^expected a decision before it is overridden, got None$"):
        agent.override(0)
    agent.act(model.start_state())
    with pytest.raises(InvalidInput, match=r"^expected costs finite and >= 0, got -0\.5$"):
        agent.observe(-0.5)
    with pytest.raises(InvalidInput, match=r"^expected costs finite and >= 0, got nan$"):
        agent.observe(np.nan)
