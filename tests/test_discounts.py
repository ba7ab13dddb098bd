"""Rewards and costs with discounts of their own: what is carried on, counted, learned and saved."""

import dataclasses
import json
import re

import numpy as np
import pytest

from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.critic.identity import model_digest
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import Transitions, run_episodes
from cmcts.model.worlds import world_of
from cmcts.planning.agent import Agent
from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.search.tree import ROOT
from cmcts.tasks.task import Task
from models import linear_critic, random_table, table_model

MODEL = table_model(random_table(3, constraints=2, end=0.2))
SEARCH = SearchSettings(discount=0.9, cost_discounts=(1.0, 0.5), horizon=12, exploration=1.0)


def test_costs_have_the_discount_of_the_reward_unless_told_otherwise():
    assert SearchSettings(discount=0.9).discounts_of_costs(2) == (0.9, 0.9)
    assert SearchSettings(discount=0.9, cost_discounts=1.0).discounts_of_costs(3) == (1.0, 1.0, 1.0)
    assert SEARCH.discounts_of_costs(2) == (1.0, 0.5)


def test_a_number_of_discounts_that_does_not_fit_is_refused():
    message = re.escape("expected 2 cost_discounts, one a constraint, got (0.9,)")
    search = SearchSettings(cost_discounts=(0.9,))
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        PenalizedMCTS(MODEL, [0.0, 0.0], search)
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        Task("two-costs", MODEL, (1.0, 1.0), search=search)


def test_an_agent_carries_each_budget_by_its_own_discount():
    agent = Agent(PenalizedMCTS(MODEL, [0.0, 0.0], SEARCH), [3.0, 2.0], iterations=10)
    agent.act([0.0, 0.0])
    assert agent.observe([1.0, 0.5]).tolist() == [2.0, 3.0]


def test_expected_accounting_carries_each_budget_by_its_own_discount():
    critic = linear_critic(MODEL, np.array([[1.0, 0.25]] * MODEL.action_count))
    pruning = PruningSettings(tolerance=0.0, cost_floor=False, accounting="expected")
    agent = Agent(CMCTS(MODEL, critic, SEARCH, pruning), [3.0, 2.0], iterations=10)
    agent.act([0.0, 0.0])
    assert agent.observe([9.0, 9.0]) == pytest.approx([2.0, 1.75 / 0.5])
    assert agent.arrive([1.0, 1.0]) == pytest.approx([3.0, 3.75])  # plus V(s'), which is Q of every action here


def test_a_kept_tree_is_rebased_by_each_costs_own_discount():
    agent = Agent(PenalizedMCTS(MODEL, [0.0, 0.0], SEARCH), [9.0, 9.0], iterations=300, reuse_tree=True)
    first = agent.act([0.0, 0.0])
    before = agent._session.tree
    depth_one = [k for k in range(1, first.tree_size) if before.depth[k] == 1 and before.expanded[k]]
    child = next(k for k in depth_one if before.parent_action[k] == first.action)
    inner = next(k for k in range(child, first.tree_size) if before.parent[k] == child)
    expected, state = before.costs[inner].copy(), before.states[inner].copy()
    agent.observe(before.costs[child])
    agent.act(before.states[child].copy())
    tree = agent._session.tree
    again = next(k for k in range(1, tree.count[0]) if tree.parent[k] == ROOT and (tree.states[k] == state).all())
    assert tree.path_costs[again] == pytest.approx(expected), "one step from the new root, nothing is discounted yet"


def test_episodes_are_counted_by_their_own_discounts():
    planner = PenalizedMCTS(MODEL, [0.0, 0.0], SEARCH)
    done, steps = run_episodes(planner, lambda: world_of(MODEL), [1.0, 1.0], episodes=4, seed=1, iterations=8)
    begin = 0
    for index, length in enumerate(done.steps):
        rewards, costs = steps.rewards[begin : begin + length], steps.costs[begin : begin + length]
        assert done.rewards[index] == pytest.approx(0.9 ** np.arange(length) @ rewards)
        assert done.costs[index, 0] == pytest.approx(costs[:, 0].sum())
        assert done.costs[index, 1] == pytest.approx(0.5 ** np.arange(length) @ costs[:, 1])
        begin += length
    assert done.steps.max() > 2


def test_critics_learn_each_cost_by_its_own_discount():
    pytest.importorskip("jax")
    from cmcts.training.dataset import monte_carlo_costs
    from cmcts.training.learning import td_target

    costs, ahead = np.array([[1.0, 1.0]], np.float32), np.array([[2.0, 2.0]], np.float32)
    assert np.asarray(td_target(costs, np.ones(1, np.float32), ahead, (1.0, 0.5))).tolist() == [[3.0, 2.0]]
    part = Transitions(
        states=np.zeros((3, 1)),
        actions=np.zeros(3, np.int32),
        costs=np.array([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]),
        rewards=np.zeros(3),
        next_states=np.zeros((3, 1)),
        next_actions=np.zeros(3, np.int32),
        terminal=np.array([False, False, True]),
        last=np.array([False, False, True]),
    )
    assert monte_carlo_costs([part], (1.0, 0.5)).tolist() == [[7.0, 3.0], [6.0, 4.0], [4.0, 4.0]]


def test_a_bundle_keeps_both_kinds_of_discounts(tmp_path):
    bundle = Bundle(
        task="two-costs",
        model_digest=model_digest(MODEL),
        feature_description="",
        layers=None,
        cost_count=2,
        search=SEARCH,
        pruning=PruningSettings(),
        budget=(1.0, 1.0),
        training={},
        library="0",
    )
    bundles.save(bundle, tmp_path)
    raw = json.loads((tmp_path / bundles.BUNDLE_FILE).read_text())
    assert raw["discounts"] == {"reward": 0.9, "costs": [1.0, 0.5]}
    assert bundles.load(tmp_path).search == SEARCH
    raw["discounts"]["costs"] = [1.0, 0.6]
    (tmp_path / bundles.BUNDLE_FILE).write_text(json.dumps(raw))
    with pytest.raises(InvalidInput, match=re.escape("expected discounts (0.9, (1.0, 0.5)), as in the settings")):
        bundles.load(tmp_path)
    bundles.save(dataclasses.replace(bundle, search=SearchSettings(cost_discounts=1.0)), tmp_path)
    assert bundles.load(tmp_path).search.cost_discounts == 1.0


def in_other_units(params, factor):
    return params._replace(rewards=params.rewards * factor)


@pytest.mark.parametrize("exploration", [2.0, None])
@pytest.mark.parametrize("constraints", [1, 2])
def test_the_same_problem_with_rewards_in_other_units_is_the_same_problem(constraints, exploration):
    """A power of two rounds nothing: every decision and every value must come out the same, in other units."""
    params, factor = random_table(7, constraints=constraints, end=0.2), 2.0**20
    budget = np.full(constraints, 0.4)
    for make in (
        CCMCP,
        lambda model, search: PenalizedMCTS(model, 0.5 * search.reward_scale * np.ones(constraints), search),
    ):
        search = SearchSettings(exploration=exploration)
        small = make(table_model(params), search)
        large = make(table_model(in_other_units(params, factor)), dataclasses.replace(search, reward_scale=factor))
        for seed in range(5):
            one, other = (planner.plan([0.0, 0.0], budget, iterations=300, rng=seed) for planner in (small, large))
            assert one.action == other.action and one.visits.tolist() == other.visits.tolist()
            assert one.probabilities.tolist() == other.probabilities.tolist()
            assert (one.reward_values * factor).tolist() == other.reward_values.tolist()
            assert (one.multipliers * factor).tolist() == other.multipliers.tolist()
            assert one.cost_values.tolist() == other.cost_values.tolist()


@pytest.mark.parametrize(
    ("discount", "costs", "steps"),
    [(0.95, None, 135), (0.9, None, 66), (0.9, 0.95, 135), (0.5, (0.5,), 10), (1.0, None, 1000)],
)
def test_a_horizon_that_is_not_named_reaches_as_far_as_anything_counts(discount, costs, steps):
    search = SearchSettings(discount=discount, cost_discounts=costs)
    assert search.steps_ahead(1) == steps
    assert SearchSettings(discount=discount, horizon=7).steps_ahead(1) == 7
