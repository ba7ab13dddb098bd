"""Leaf values: what they are read as, what they learn from, how well, and how they lie in a bundle."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numba import config

import cmcts
from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.critic.columns import Column, ColumnSettings, Sample
from cmcts.critic.ensemble import immediate_costs_only
from cmcts.critic.identity import model_digest
from cmcts.critic.values import LeafValues, from_arrays, to_arrays
from cmcts.errors import InvalidInput, ModelError
from cmcts.evaluation.episodes import Transitions, run_episodes
from cmcts.evaluation.tabulated import exact_values
from cmcts.exact.random_problems import random_problem
from cmcts.frontier import Frontier, FrontierSettings
from cmcts.frontier.lessons import lessons_of
from cmcts.model.worlds import world_of
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.random import stream
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.search.tree import ROOT
from models import random_values

TASK = cmcts.make("random-absorbing-3")
SEARCH = SearchSettings(discount=0.9, exploration=1.0, horizon=12, iterations=16)


def constant_values(model, reward, costs, doubt=np.inf, spread=0.0):
    """Two members that say the same everywhere, but for `spread`."""
    shape = (2, model.feature_count + model.cost_count, 1 + model.cost_count)
    biases = np.array([[reward - spread, *costs], [reward + spread, *costs]], np.float32)
    return LeafValues(((np.zeros(shape, np.float32), biases),), (1.0,) * model.cost_count, doubt)


def test_the_first_leaf_is_worth_what_the_values_say():
    """Two simulations: the root's own, then one action's, whose value is r + gamma V."""
    model = TASK.model
    planner = PenalizedMCTS(model, 0.5, SEARCH, values=constant_values(model, 7.0, [-3.0]))
    tree = planner.plan(model.start_state(), 0.0, iterations=2, keep_tree=True).tree
    action = int(np.flatnonzero(tree.action_visits[ROOT] > 0)[0])
    ahead = 0.0 if tree.terminal[1] else 0.9 * 7.0
    assert tree.reward_values[ROOT, action] == pytest.approx(tree.reward[1] + ahead)
    assert tree.cost_values[ROOT, action] == pytest.approx(tree.costs[1, 0]), "no cost to go is below 0"


def test_values_are_told_the_price_of_every_plan():
    """What they said of a state at one price is not remembered at another."""
    model = TASK.model
    weights = np.zeros((1, model.feature_count + 1, 2), np.float32)
    weights[0, -1, 0] = 1.0  # the reward to go is log(1 + price)
    planner = PenalizedMCTS(model, 1.0, SEARCH, values=LeafValues(((weights, np.zeros((1, 2), np.float32)),), (1.0,)))
    session = planner.session()
    for price in (1.0, 3.0, 1.0):
        session.begin(model.start_state(), np.zeros(1), np.array([price]), stream(0), 8)
        session.run(2)
        tree = session.tree
        action = int(np.flatnonzero(tree.action_visits[ROOT] > 0)[0])
        ahead = 0.0 if tree.terminal[1] else 0.9 * np.log1p(price)
        assert tree.reward_values[ROOT, action] == pytest.approx(tree.reward[1] + ahead)


def test_a_rollout_has_its_say_only_where_the_members_disagree():
    model = TASK.model
    plain = PenalizedMCTS(model, 0.0, SEARCH)
    draws = {}
    for name, doubt in (("sure", 0.3), ("unsure", 0.1)):
        planner = PenalizedMCTS(model, 0.0, SEARCH, values=constant_values(model, 1.0, [0.0], doubt, spread=0.2))
        draws[name] = planner.plan(model.start_state(), 0.0, iterations=200).reward_values.max()
    rolled = plain.plan(model.start_state(), 0.0, iterations=200).reward_values.max()
    assert abs(draws["unsure"] - rolled) < abs(draws["sure"] - rolled)


def test_values_that_overflow_are_a_fault():
    model = TASK.model
    layers = tuple((w.copy(), b) for w, b in random_values(model, 0).layers)
    layers[0][0][:], layers[1][0][:] = 3e38, 3e38
    planner = PenalizedMCTS(model, 0.5, SEARCH, values=LeafValues(layers, (1.0,)))
    with pytest.raises(ModelError, match=r"expected finite leaf values for model .* in state"):
        planner.plan(model.start_state(), 0.0)


def test_values_go_with_their_model():
    model, other = TASK.model, cmcts.make("rocksample-3-2").model
    with pytest.raises(InvalidInput, match=r"expected leaf values of \d+ features and 1 prices .* got 8 and 1"):
        PenalizedMCTS(other, 0.0, SEARCH, values=random_values(model, 0))
    with pytest.raises(InvalidInput, match="the same discount of rewards and costs with leaf values"):
        PenalizedMCTS(model, 0.0, dataclasses.replace(SEARCH, cost_discounts=0.5), values=random_values(model, 0))


def test_a_guard_prunes_what_values_think_well_of():
    """Values that know no cost and love every leaf open no action that the guard refuses."""
    model = TASK.model
    guard, rosy = immediate_costs_only(model), constant_values(model, 50.0, [0.0])
    bare = CMCTS(model, guard, SEARCH).plan(model.start_state(), 0.0)
    valued = CMCTS(model, guard, SEARCH, values=rosy).plan(model.start_state(), 0.0)
    assert bare.pruned.any() and not bare.pruned.all()
    np.testing.assert_array_equal(valued.pruned, bare.pruned)
    assert (valued.reward_values[valued.visits > 0] > bare.reward_values[valued.visits > 0] + 10.0).all()


def test_a_guarded_planner_with_values_travels():
    model = TASK.model
    planner = CMCTS(model, immediate_costs_only(model), SEARCH, values=random_values(model, 0))
    ours = planner.plan(model.start_state(), 0.5, rng=1)
    theirs = pickle.loads(pickle.dumps(planner)).plan(model.start_state(), 0.5, rng=1)
    np.testing.assert_array_equal(ours.reward_values, theirs.reward_values)


def test_a_search_with_values_is_refused_on_a_gpu_and_planned_on_the_cpu(monkeypatch):
    from cmcts.planning import gpu

    monkeypatch.setattr(gpu, "validate_device_for", lambda planner, device: None)  # as if there were one
    model = TASK.model
    planner = CMCTS(model, immediate_costs_only(model), SEARCH, values=random_values(model, 0))
    with pytest.raises(InvalidInput, match=r'a search without leaf values on a GPU, .*use device "cpu"'):
        planner.lanes  # noqa: B018
    states = np.tile(model.start_state(), (3, 1))
    here, there = (planner.plan_batch(states, np.zeros(3), rngs=[1, 2, 3], device=d) for d in ("cpu", "cuda"))
    assert [d.action for d in here] == [d.action for d in there]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"doubt": np.array([-1.0])}, "doubt >= 0"),
        ({"doubt": np.array([1.0, 2.0])}, "one number of doubt"),
        ({"doubt": np.array([np.nan])}, "doubt >= 0"),
        ({"price_units": np.array([0.0])}, "price_units > 0"),
        ({"price_units": np.array([1.0, 1.0])}, "3 outputs, the reward and each cost to go"),
        ({"price_units": np.array([1.0], np.float32)}, "price_units as a row of float64"),
        ({"price_units": None}, "an array price_units"),
        ({"weights.0": np.full((3, 9, 5), np.nan, np.float32)}, "finite weights in layer 0"),
        ({"weights.9": np.zeros((3, 9, 5), np.float32)}, "arrays weights.0"),
    ],
)
def test_damaged_values_are_refused_by_name(change, message):
    arrays = {**to_arrays(random_values(TASK.model, 0, doubt=0.5)), **change}
    with pytest.raises(InvalidInput, match=message):
        from_arrays({name: array for name, array in arrays.items() if array is not None})


def valued_bundle():
    sample, poorer = (Sample(np.array([low, low + 1.0]), np.zeros((2, 1))) for low in (1.0, 0.0))
    return Bundle(
        task=TASK.name,
        model_digest=model_digest(TASK.model),
        feature_description="",
        layers=None,
        cost_count=1,
        search=SEARCH,
        pruning=PruningSettings(),
        budget=TASK.budget,
        training={},
        library="0",
        columns=(
            Column(ColumnSettings((0.5,), SEARCH, values=True), sample, sample),
            Column(ColumnSettings((0.0,), SEARCH, "immediate", (0.0,), PruningSettings(), True), poorer, poorer),
        ),
        values=random_values(TASK.model, 0, doubt=0.5),
    )


def test_a_bundle_keeps_its_values_and_hands_them_to_its_planners(tmp_path):
    bundle = valued_bundle()
    bundles.save(bundle, tmp_path)
    frontier = Frontier.load(tmp_path, TASK.model)
    assert frontier.columns[0].settings.name == "lambda 0.5, 16 simulations with values"
    ours = frontier.at(5.0).plan(TASK.model.start_state(), rng=3)
    theirs = PenalizedMCTS(TASK.model, 0.5, SEARCH, values=bundle.values).plan(TASK.model.start_state(), 0.0, rng=3)
    np.testing.assert_array_equal(ours.reward_values, theirs.reward_values)
    guarded = frontier.planners[1]
    assert frontier.columns[1].settings.name == "no critic at 0 with values" and isinstance(guarded, CMCTS)
    ours = guarded.plan(TASK.model.start_state(), 0.0, rng=3)
    theirs = CMCTS(TASK.model, immediate_costs_only(TASK.model), SEARCH, values=bundle.values)
    np.testing.assert_array_equal(ours.reward_values, theirs.plan(TASK.model.start_state(), 0.0, rng=3).reward_values)
    path = tmp_path / bundles.VALUES_FILE
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"values\.safetensors with digest"):
        bundles.load(tmp_path)
    path.unlink()
    with pytest.raises(InvalidInput, match=r"cannot read .*values\.safetensors"):
        bundles.load(tmp_path)


def test_a_bundle_with_values_that_do_not_fit_is_refused(tmp_path):
    bundles.save(dataclasses.replace(valued_bundle(), values=None), tmp_path / "none")
    with pytest.raises(InvalidInput, match="leaf values, which a column judges leaves by"):
        bundles.load(tmp_path / "none")
    with pytest.raises(InvalidInput, match=r"leaf values for the column 'lambda 0\.5, 16 simulations with values'"):
        Frontier.of(dataclasses.replace(valued_bundle(), values=None), TASK.model).at(5.0)
    other = random_values(cmcts.make("rocksample-3-2").model, 0)
    bundles.save(dataclasses.replace(valued_bundle(), values=other), tmp_path / "other")
    with pytest.raises(InvalidInput, match="expected leaf values of 8 features"):
        bundles.load(tmp_path / "other", TASK.model)


def test_a_bundle_with_values_loads_without_jax(tmp_path):
    bundles.save(valued_bundle(), tmp_path)
    script = f"""
import sys, cmcts
task = cmcts.make({TASK.name!r})
cmcts.Frontier.load({str(tmp_path)!r}, task.model).at(5.0)
assert not [name for name in ("jax", "equinox", "optax") if name in sys.modules]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_lessons_are_returns_to_go_with_their_price():
    model = TASK.model
    search = dataclasses.replace(SEARCH, discount=0.5, cost_discounts=0.25)
    planner = PenalizedMCTS(model, 2.0, search)
    count = 7  # two steps to the end, then five until an episode is truncated
    steps = Transitions(
        states=np.repeat(model.start_state()[None], count, axis=0),
        actions=np.zeros(count, np.int32),
        costs=np.ones((count, 1)),
        rewards=np.arange(1.0, count + 1),
        next_states=np.repeat(model.start_state()[None], count, axis=0),
        next_actions=np.zeros(count, np.int32),
        terminal=np.arange(count) == 1,
        last=np.isin(np.arange(count), [1, 6]),
    )
    lessons = lessons_of(planner, steps, [0.5])
    # Of the truncated episode only the first step is kept: what follows the fifth weighs 0.5^5 < 0.05 there.
    expected = [[1 + 0.5 * 2, 1 + 0.25], [2.0, 1.0], [3 + 4 / 2 + 5 / 4 + 6 / 8 + 7 / 16, 1 + 1 / 4 + 1 / 16 + 5 / 256]]
    np.testing.assert_allclose(lessons.targets, expected)
    np.testing.assert_allclose(lessons.inputs[:, -1], np.log1p([4.0, 4.0, 4.0]), rtol=1e-6)
    np.testing.assert_array_equal(lessons.inputs[0, :-1], model.feature_vector(model.start_state()))


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="plays many episodes")
def test_a_fit_finds_what_searches_at_two_prices_are_truly_worth():
    pytest.importorskip("jax")
    from cmcts.training.values import fit_values

    problem = random_problem(3, "absorbing", start_states=8)
    parts, exact = [], {}
    for price in (0.0, 4.0):
        planner = PenalizedMCTS(problem.model, price, dataclasses.replace(SEARCH, iterations=64))
        _, steps = run_episodes(planner, lambda: world_of(problem.model), 1.0, episodes=1500, seed=1)
        parts.append(lessons_of(planner, steps, [1.0]))
        exact[price] = exact_values(planner, problem.cmdp, seeds=40)
    inputs, targets = (np.concatenate(column) for column in zip(*parts, strict=True))
    layers, loss = fit_values(inputs, targets, 1500, 0)
    again, _ = fit_values(inputs, targets, 1500, 0)
    np.testing.assert_array_equal(layers[0][0], again[0][0])
    assert 0 < loss < 1
    network = LeafValues(layers, (1.0,)).network
    for price, values in exact.items():
        truth = np.column_stack([values.reward_values, values.cost_values])
        features = [problem.model.feature_vector(state) for state in problem.cmdp.states]
        learned = np.array([network(np.append(row, np.log1p(price)))[0].ravel() for row in features])
        np.testing.assert_allclose(learned, truth, atol=0.15 * targets.std(axis=0).max() + 0.02)
    assert np.abs(exact[0.0].cost_values - exact[4.0].cost_values).max() > 0.2, (
        "prices must matter for this to say much"
    )


@pytest.mark.parametrize("changes", [{"value_steps": 0}, {"value_doubt": -0.1}])
def test_settings_of_values_are_checked(changes):
    with pytest.raises(InvalidInput, match="expected value_"):
        FrontierSettings(**changes)
