"""What there is already as a candidate: earlier critics, columns and exact policies, in trainings and in frontiers."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil

import numpy as np
import pytest

pytest.importorskip("jax")

import cmcts
from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.critic.columns import Column, ColumnSettings, Sample
from cmcts.critic.ensemble import immediate_costs_only
from cmcts.critic.identity import code_digests, model_digest
from cmcts.errors import InvalidInput
from cmcts.evaluation.blocks import episodes_on
from cmcts.exact import TabularPolicy, enumerate_states, solve
from cmcts.frontier import Frontier, FrontierSettings, with_policy
from cmcts.frontier.exact_column import column_of
from cmcts.planning.planners import CMCTS
from cmcts.random import stage_seed
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make
from cmcts.training import loop
from cmcts.training.earlier import Earlier, brought_along, load_earlier
from cmcts.training.loop import train
from cmcts.training.multipliers import MultiplierSettings
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import CriticSettings, TrainingSettings, run_config
from cmcts.training.stages import CONFIRM

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
    assert column.name == f"exact policy at {TASK.budget[0]:.4g}" and not column.searches_at_price
    for change in ({"prices": (1.0,)}, {"guard": "critic"}, {"values": True}, {"budget": ()}):
        with pytest.raises(InvalidInput):
            dataclasses.replace(column, **change)


def test_a_policy_of_another_problem_is_refused(policy, tmp_path):
    policy.save(tmp_path / "mine.policy")
    assert load_earlier(tmp_path / "mine.policy", TASK).digest == policy.digest
    with pytest.raises(InvalidInput, match="it was solved for model"):
        load_earlier(tmp_path / "mine.policy", make("random-absorbing-4"))
    unknown = dataclasses.replace(TASK, training_world=lambda: TASK.training_world(), training_model=None)
    with pytest.raises(
        InvalidInput, match="expected a training world of random-absorbing-3 whose states can be listed"
    ):
        load_earlier(tmp_path / "mine.policy", unknown)


def test_a_bundle_of_another_problem_or_discount_is_refused(tmp_path):
    bundles.save(sample_bundle(), tmp_path)
    with pytest.raises(InvalidInput, match="differs from"):
        load_earlier(tmp_path, make("random-absorbing-4"))
    bundles.save(sample_bundle(search=dataclasses.replace(SEARCH, discount=0.5)), tmp_path)
    with pytest.raises(InvalidInput, match="expected a bundle with the discounts"):
        load_earlier(tmp_path, TASK)


def test_columns_come_along_but_those_of_another_critic_or_with_values(policy):
    idle = steady(0.0, 0.0)
    own = ColumnSettings((1.0,), SEARCH)
    guarded = ColumnSettings((0.0,), SEARCH, "critic", (0.5,), PruningSettings(tolerance=0.04))
    valued = ColumnSettings((2.0,), SEARCH, values=True)
    columns = tuple(Column(settings, idle, idle) for settings in (own, guarded, valued))
    immediate = dataclasses.replace(guarded, guard="immediate")
    columns += (Column(immediate, idle, idle),)
    one = Earlier("one", "1", bundle=sample_bundle(columns))
    two = Earlier("two", "2", policy=policy)
    brought = brought_along([one, two, one], None, np.array([4.0]), 9)
    stricter = dataclasses.replace(immediate, pruning=PruningSettings(tolerance=0.02))
    assert brought.columns == (column_of(policy), own, stricter), "as much is tolerated, on twice the scale"
    assert list(brought.policies) == [policy.digest]
    brought = brought_along([one], one, np.array([2.0]), 9)
    assert brought.columns == (own, guarded, immediate)
    assert brought_along([one, two], None, np.array([4.0]), 1).columns == (column_of(policy),), "policies come first"


def settings(**changes):
    defaults = {
        "iterations": 16,
        "steps_per_multiplier": 100,
        "walk_steps": 200,
        "search": SEARCH,
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
    """By what it does now, not by what was once said of it, and as it was: on its own scale of costs."""
    asked = settings(frontier=FrontierSettings(columns=0))
    earlier = Earlier("runs/before", "1", bundle=sample_bundle(training={"reward_mean": 1e9}))
    played, kept_rewards = loop.Judging.earlier, loop.Judging._rewards

    def rewards(self, record):
        return kept_rewards(self, record) + (record["phase"] == "earlier") * (100.0 if better else -100.0)

    monkeypatch.setattr(loop.Judging, "earlier", lambda *what: played(*what) | {"feasible": True})
    monkeypatch.setattr(loop.Judging, "_rewards", rewards)
    run = RunFolder.create(tmp_path / "run", run_config(TASK, asked))
    outcome = train(TASK, asked, run, earlier=[earlier])
    if better:
        assert outcome.origin == outcome.bundle.training["from"] == "runs/before" and outcome.timidity is None
        kept = bundles.load(tmp_path / "run", TASK.model)
        assert (kept.cost_scale, kept.pruning, kept.search) == ((2.0,), PruningSettings(tolerance=0.04), SEARCH)
        for new, old in zip(kept.layers, earlier.bundle.layers, strict=True):
            assert all((a == b).all() for a, b in zip(new, old, strict=True))
    else:
        assert outcome.origin is None and run.find("confirm 0")["feasible"], "its own critic was confirmed, and stays"


def test_candidates_play_the_worlds_of_the_confirmation(tmp_path):
    """An earlier critic and none at all, each as it would play there by itself."""
    asked, bundle = settings(frontier=FrontierSettings(columns=0), untrained=True), sample_bundle()
    run = RunFolder.create(tmp_path / "run", run_config(TASK, asked))
    train(TASK, asked, run, earlier=[Earlier("a", "1", bundle=bundle)])
    scale = run.find("scale")["cost_scale"]
    alone = immediate_costs_only(TASK.model, tuple(scale))
    planners = {
        "earlier 0": CMCTS(TASK.model, bundle.critic, bundle.search, bundle.pruning),
        "untrained": CMCTS(TASK.model, alone, asked.search, dataclasses.replace(asked.pruning, cost_floor=True)),
    }
    attempt = run.find("confirm 0")["attempt"]
    for name, planner in planners.items():
        record = run.find(name)
        episodes, _ = episodes_on(
            None,
            planner,
            TASK.training_world,
            TASK.budget,
            episodes=record["episodes"],
            seed=stage_seed(asked.seed, CONFIRM, attempt),
            iterations=asked.iterations,
        )
        assert run.load(record["kept"])["rewards"].tolist() == episodes.rewards.tolist()


def test_a_training_from_something_resumes_to_the_same_bundle(policy, tmp_path):
    asked = settings()
    earlier = [Earlier("a", "1", bundle=sample_bundle()), Earlier("mine", policy.digest, policy=policy)]
    run = RunFolder.create(tmp_path / "run", run_config(TASK, asked))
    whole = train(TASK, asked, run, earlier=earlier)
    shutil.copytree(tmp_path / "run", tmp_path / "half")
    history = (tmp_path / "half" / "history.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "half" / "history.jsonl").write_text("".join(history[: len(history) // 2]))
    again = train(TASK, asked, RunFolder.open(tmp_path / "half"), earlier=earlier)
    assert [column.settings for column in again.bundle.columns] == [column.settings for column in whole.bundle.columns]
    for file in sorted((tmp_path / "run").glob("*.safetensors")):
        assert file.read_bytes() == (tmp_path / "half" / file.name).read_bytes()


def test_a_policy_of_other_discounts_is_refused(tmp_path):
    short = TabularPolicy.of(solve(enumerate_states(TASK.model, 0.5), TASK.budget), TASK.model)
    short.save(tmp_path / "short.policy")
    with pytest.raises(InvalidInput, match="expected a policy with the discounts"):
        load_earlier(tmp_path / "short.policy", TASK)
    with pytest.raises(InvalidInput, match="expected a policy with the discounts"):
        with_policy(sample_frontier(), short, TASK)


def test_what_a_policy_says_of_itself_is_not_believed(policy):
    """Its reward and costs are those of its decisions."""
    arrays = policy.to_arrays()
    told = json.loads(bytes(arrays["description"])) | {"reward": 1e6, "costs": [0.0]}
    arrays["description"] = np.frombuffer(json.dumps(told).encode(), np.uint8)
    boastful = TabularPolicy.from_arrays(arrays, TASK.model)
    column = with_policy(sample_frontier(), boastful, TASK, episodes=20).columns[-1]
    assert column.confirmed.reward == pytest.approx(policy.reward)
    assert column.confirmed.means[1] == pytest.approx(policy.costs[0])


def broken(policy, name):
    arrays = {key: array.copy() for key, array in policy.to_arrays().items()}
    if name == "NaN":
        arrays["states"][0] = np.nan
    elif name == "lacks":
        del arrays["reward_values"]
    elif name == "sum":
        arrays["probabilities"] *= 2
    elif name == "other":
        arrays["probabilities"] = np.roll(arrays["probabilities"], 1, axis=1)
    return arrays


@pytest.mark.parametrize(
    "name, message",
    [
        ("NaN", "expected finite states"),
        ("lacks", "expected the arrays of a policy"),
        ("sum", "expected action probabilities"),
        ("other", "expected a policy of digest"),
    ],
)
def test_a_damaged_table_in_a_bundle_is_refused(policy, tmp_path, name, message):
    frontier = with_policy(sample_frontier(), policy, TASK, episodes=20)
    bundles.save(sample_bundle(frontier.columns, {policy.digest: broken(policy, name)}), tmp_path)
    with pytest.raises(InvalidInput, match=message):
        bundles.load(tmp_path)


def test_a_bundle_with_a_policy_of_another_problem_is_refused(tmp_path):
    other = make("random-absorbing-4")
    foreign = TabularPolicy.of(solve(enumerate_states(other.model, other.discount), other.budget), other.model)
    idle = steady(0.0, 0.0)
    columns = (Column(column_of(foreign), idle, idle),)
    bundles.save(sample_bundle(columns, {foreign.digest: foreign.to_arrays()}), tmp_path)
    with pytest.raises(InvalidInput, match="expected a policy of a model of random-absorbing-3, got one"):
        load_earlier(tmp_path, TASK)
    with pytest.raises(InvalidInput, match="expected a policy of a model of random-absorbing-3, got one"):
        with_policy(sample_frontier(), foreign, TASK)


def test_a_policy_says_what_it_was_solved_for_wherever_it_is_played(policy):
    other = make("random-absorbing-4").model
    elsewhere = TabularPolicy.from_arrays(policy.to_arrays(), other, solved_elsewhere=True)
    assert elsewhere.digest == policy.digest and elsewhere.solved_for == model_digest(TASK.model)
