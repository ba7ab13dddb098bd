"""What there is already as a candidate: earlier critics, columns and exact policies, in trainings and in frontiers."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

pytest.importorskip("jax")

import cmcts
from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.critic.columns import Column, ColumnSettings, Sample
from cmcts.critic.identity import code_digests, model_digest
from cmcts.errors import InvalidInput
from cmcts.exact import TabularPolicy, enumerate_states, solve
from cmcts.frontier import Frontier, FrontierSettings, with_policy
from cmcts.frontier.exact_column import column_of
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make
from cmcts.training import loop
from cmcts.training.earlier import Earlier, brought_along, load_earlier, rescaled
from cmcts.training.loop import train
from cmcts.training.multipliers import MultiplierSettings
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import CriticSettings, TrainingSettings, run_config

TASK = make("random-absorbing-3")
SEARCH = SearchSettings(discount=TASK.discount, iterations=16, horizon=12)


@pytest.fixture(scope="module")
def policy():
    return TabularPolicy.of(solve(enumerate_states(TASK.model, TASK.discount), TASK.budget), TASK.model)


def steady(reward, cost, episodes=40):
    return Sample(np.full(episodes, reward), np.full((episodes, 1), cost))


def sample_frontier():
    idle = steady(0.0, 0.0)
    return Frontier(TASK.model, (Column(ColumnSettings((9.0,), SEARCH), idle, idle),), TASK.budget)


def sample_bundle(columns=(), policies=None, **changes):
    rng = np.random.default_rng(0)
    sizes = (TASK.model.feature_count, 8, TASK.model.action_count)
    layers = tuple(
        (rng.normal(size=(2, a, b)).astype(np.float32), np.zeros((2, b), np.float32))
        for a, b in itertools.pairwise(sizes)
    )
    values = {
        "task": TASK.name,
        "model_digest": model_digest(TASK.model),
        "feature_description": TASK.model.feature_description,
        "layers": layers,
        "cost_count": 1,
        "search": SEARCH,
        "pruning": PruningSettings(tolerance=0.04),
        "budget": TASK.budget,
        "training": {},
        "library": cmcts.__version__,
        "cost_scale": (2.0,),
        "columns": columns,
        "policies": policies or {},
        "code": code_digests(TASK.model),
    }
    return Bundle(**(values | changes))


def test_an_exact_policy_is_a_column_that_is_known_without_error(policy, tmp_path):
    frontier = with_policy(sample_frontier(), policy, TASK, episodes=20)
    mixed = frontier.at(TASK.budget)
    assert mixed.columns[0].settings.policy == policy.digest and mixed.weights[0] > 0.999
    assert mixed.reward_mean == pytest.approx(policy.reward, abs=1e-6)
    half = frontier.at(TASK.budget[0] / 2)
    assert half.reward_mean == pytest.approx(policy.reward / 2, abs=1e-5), "mixed like any other"
    bundle = sample_bundle(frontier.columns, frontier.policies, budget=frontier.budget)
    bundles.save(bundle, tmp_path)
    again = Frontier.load(tmp_path, TASK.model)
    decision = again.at(TASK.budget).agent(rng=0).act(TASK.model.start_state())
    expected = policy.plan(TASK.model.start_state(), TASK.budget).probabilities
    assert decision.probabilities == pytest.approx(expected) and decision.iterations == 0
    bundles.save(dataclasses.replace(bundle, policies={}), tmp_path / "without")
    with pytest.raises(InvalidInput, match="expected the exact policy that a column plays, got"):
        bundles.load(tmp_path / "without")


def test_a_column_that_is_a_policy_has_no_other_settings(policy):
    column = column_of(policy)
    assert column.name == f"exact policy of cost {TASK.budget[0]:.4g}" and not column.searches_at_price
    for change in ({"prices": (1.0,)}, {"guard": "critic"}, {"values": True}, {"budget": ()}):
        with pytest.raises(InvalidInput):
            dataclasses.replace(column, **change)


def test_a_policy_of_another_problem_is_refused(policy, tmp_path):
    policy.save(tmp_path / "mine.policy")
    assert load_earlier(tmp_path / "mine.policy", TASK).digest == policy.digest
    with pytest.raises(InvalidInput, match="it was solved for model"):
        load_earlier(tmp_path / "mine.policy", make("random-absorbing-4"))
    with pytest.raises(InvalidInput, match="expected a training world of rocksample-11-11 whose states can be listed"):
        load_earlier(tmp_path / "mine.policy", dataclasses.replace(make("rocksample-11-11"), training_model=None))


def test_a_bundle_of_another_problem_or_discount_is_refused(tmp_path):
    bundles.save(sample_bundle(), tmp_path)
    with pytest.raises(InvalidInput, match="differs from"):
        load_earlier(tmp_path, make("random-absorbing-4"))
    bundles.save(sample_bundle(search=dataclasses.replace(SEARCH, discount=0.5)), tmp_path)
    with pytest.raises(InvalidInput, match="expected a bundle with the discounts"):
        load_earlier(tmp_path, TASK)


def test_pruning_keeps_its_meaning_on_another_scale_of_costs():
    pruning = PruningSettings(tolerance=0.04, sigma_max=0.5)
    same = rescaled(pruning, (2.0,), (8.0,))
    assert (same.tolerance, same.sigma_max) == (0.01, 0.125)
    strict = rescaled(pruning, (2.0, 1.0), (1.0, 2.0))
    assert strict.tolerance == 0.02, "never more than was tolerated of any cost"


def test_columns_come_along_but_those_of_another_critic_or_with_values(policy):
    idle = steady(0.0, 0.0)
    own = ColumnSettings((1.0,), SEARCH)
    guarded = ColumnSettings((0.0,), SEARCH, "critic", (0.5,), PruningSettings(tolerance=0.04))
    valued = ColumnSettings((2.0,), SEARCH, values=True)
    columns = tuple(Column(settings, idle, idle) for settings in (own, guarded, valued))
    one = Earlier("one", "1", bundle=sample_bundle(columns))
    two = Earlier("two", "2", policy=policy)
    brought = brought_along([one, two, one], None, np.array([4.0]))
    assert brought.columns == (own, column_of(policy)) and list(brought.policies) == [policy.digest]
    brought = brought_along([one], one, np.array([4.0]))
    assert brought.columns == (own, dataclasses.replace(guarded, pruning=PruningSettings(0.25, 0.02)))


def settings(**changes):
    defaults = {
        "iterations": 16,
        "steps_per_multiplier": 100,
        "walk_steps": 200,
        "max_rounds": 1,
        "evaluation_episodes": 200,
        "evaluation_steps": 400,
        "choose_exploration": False,
        "untrained": False,
        "critic": CriticSettings(hidden=(8,), steps=100, batch=32),
        "multiplier": MultiplierSettings(max_updates=2),
        "frontier": FrontierSettings(
            columns=8, search_factors=(1,), values=False, screening_episodes=4, choosing_episodes=6
        ),
    }
    return TrainingSettings.for_task(TASK, **(defaults | changes))


def test_a_training_from_an_exact_policy_reaches_the_optimum_with_eight_neurons(policy, tmp_path):
    asked = settings()
    run = RunFolder.create(tmp_path / "run", run_config(TASK, asked))
    outcome = train(TASK, asked, run, earlier=[Earlier("mine", policy.digest, policy=policy)])
    mixed = Frontier.load(tmp_path / "run", TASK.model).at(TASK.budget)
    assert mixed.reward_mean == pytest.approx(policy.reward, rel=1e-3)
    assert mixed.columns[0].settings.policy == policy.digest
    assert outcome.origin is None


@pytest.mark.parametrize("better", [True, False])
def test_an_earlier_critic_is_kept_where_it_is_better(better, tmp_path, monkeypatch):
    """By what it does now, not by what was once said of it."""
    asked = settings(frontier=FrontierSettings(columns=0))
    earlier = Earlier("runs/before", "1", bundle=sample_bundle(training={"reward_mean": 1e9}))
    judged = []

    def evaluate_earlier(judging, number, critic, pruning, search):
        judged.append((number, tuple(critic.cost_scale), pruning.tolerance, search))
        reward = 1e6 if better else -1e6
        kept = {"phase": "earlier", "round": 0, "tolerance": pruning.tolerance, "accounting": "paid", "feasible": True}
        figures = {"reward_mean": reward, "reward_se": 0.1, "cost_means": [0.0], "violations": 0}
        return kept | figures

    monkeypatch.setattr(loop.Judging, "evaluate_earlier", evaluate_earlier)
    run = RunFolder.create(tmp_path / "run", run_config(TASK, asked))
    outcome = train(TASK, asked, run, earlier=[earlier])
    (number, scale, tolerance, search), *others = judged
    assert (number, search, others) == (0, SEARCH, [])
    assert tolerance * scale[0] == pytest.approx(0.04 * 2.0), "as much is tolerated as before"
    if better:
        assert outcome.origin == "runs/before" and outcome.record["reward_mean"] == 1e6
        assert outcome.bundle.training["from"] == "runs/before"
        kept = bundles.load(tmp_path / "run", TASK.model)
        assert all(
            (a == b).all()
            for new, old in zip(kept.layers, earlier.bundle.layers, strict=True)
            for a, b in zip(new, old, strict=True)
        )
    else:
        assert outcome.origin is None


def test_an_earlier_critic_plays_the_episodes_that_others_are_compared_on(tmp_path):
    asked = settings(frontier=FrontierSettings(columns=0), evaluation_steps=200)
    run = RunFolder.create(tmp_path / "run", run_config(TASK, asked))
    train(
        TASK, asked, run, earlier=[Earlier("a", "1", bundle=sample_bundle()), Earlier("b", "2", bundle=sample_bundle())]
    )
    a, b = run.find("earlier 0"), run.find("earlier 1")
    assert a["fingerprint"] == b["fingerprint"] and a["episodes"] >= 50
    assert {row["phase"] for row in run.history} >= {"evaluate", "earlier"}
