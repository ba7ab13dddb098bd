"""Where a critic has data: distances by hand, the radius that held-out steps need, and what a planner does outside."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cmcts.critic.support import LEAST_VISITS, MARGIN, Support, find_support, from_arrays, to_arrays
from cmcts.errors import InvalidInput
from cmcts.evaluation.walks import walk
from cmcts.planning.agent import Agent
from cmcts.planning.planners import CMCTS
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make
from models import TableParams, lookup_critic, table_model

FEW, ENOUGH = LEAST_VISITS - 1, LEAST_VISITS


def support(radius):
    """Two points, 4 apart on the first feature; the second feature never varied, so it hardly may."""
    return Support(
        points=np.array([[0.0, 1.0], [4.0, 1.0]], np.float32),
        visits=np.array([[ENOUGH, FEW, 1], [0, 1, 1]], np.uint16),
        spread=np.array([2.0, 0.001], np.float32),
        radius=radius,
    )


@pytest.mark.parametrize(
    ("radius", "features", "known"),
    [
        (0.0, [0.0, 1.0], [0]),
        (0.0, [0.1, 1.0], []),
        (1.0, [2.0, 1.0], [0, 1]),  # both points are one spread away: three visits and one
        (0.9, [2.0, 1.0], []),
        (1.0, [2.0, 1.1], []),  # a hundred spreads off
        (9.0, [2.0, 1.0], [0, 1]),
    ],
)
def test_an_action_is_known_where_it_was_taken_often_enough(radius, features, known):
    doubt = support(radius).doubt(np.array(features, np.float32))
    assert np.flatnonzero(doubt == 0.0).tolist() == known
    assert set(doubt.tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("radius", [0.0, 0.5, 1.5])
def test_many_rows_are_doubted_as_one_by_one(radius):
    """Also on the radius itself, and at a point itself, where rounding must not decide."""
    dice = np.random.default_rng(1)
    points = dice.integers(0, 4, (40, 3)).astype(np.float32)
    spread = np.array([1.0, 2.0, 0.001], np.float32)
    found = Support(points, dice.integers(0, 5, (40, 4)).astype(np.uint16), spread, radius)
    near = np.repeat(points, 30, axis=0)
    near[400:800, 0] += np.float32(radius)
    near[800:] += (dice.normal(size=(400, 3)) * spread).astype(np.float32)
    expected = np.array([found.doubt(row) for row in near])
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(found.doubts(near), expected)


def test_few_states_are_counted():
    """One-hot features: every state is a point, nothing lies between, and the radius is 0."""
    dice = np.random.default_rng(0)
    states = np.concatenate([np.repeat([0, 1, 2], 100), [3]])  # the last state was seen once
    features = np.eye(5, dtype=np.float32)[states]
    actions = np.concatenate([dice.integers(0, 2, 300), [0]]).astype(np.int32)
    actions[200:300] = 0  # in state 2, action 1 was never tried
    held_out = np.zeros(301, np.bool_)
    held_out[:300:5] = True
    found = find_support(features, actions, held_out, 2, seed=0)
    assert found.radius == 0.0
    doubts = np.array([found.doubt(row) for row in np.eye(5, dtype=np.float32)])
    assert doubts.tolist() == [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]]
    assert sorted(found.visits.sum(axis=1).tolist()) == [1, 80, 80, 80]


def test_many_states_are_thinned_and_the_radius_is_what_held_out_steps_need():
    dice = np.random.default_rng(1)
    features = dice.normal(size=(6000, 3)).astype(np.float32) * np.array([1.0, 10.0, 0.1], np.float32)
    actions = dice.integers(0, 2, 6000).astype(np.int32)
    held_out = dice.random(6000) < 0.2
    found = find_support(features, actions, held_out, 2, seed=0)
    assert len(found.points) == 2048
    assert found.visits.sum() == (~held_out).sum()
    unknown = [found.doubt(row)[action] for row, action in zip(features[held_out], actions[held_out], strict=True)]
    assert 0.0 < found.radius < 3.0
    assert np.mean(unknown) <= 0.01
    tight = dataclasses.replace(found, radius=found.radius / MARGIN)
    needed = [tight.doubt(row)[action] for row, action in zip(features[held_out], actions[held_out], strict=True)]
    assert 0.0 < np.mean(needed) <= 0.02, "without the margin, the hundredth that needs more is unknown"
    far = np.array([8.0, 0.0, 0.0], np.float32)
    assert found.doubt(far).tolist() == [1.0, 1.0]
    again = find_support(features, actions, held_out, 2, seed=0)
    assert all((to_arrays(found)[name] == array).all() for name, array in to_arrays(again).items())


def test_a_support_survives_its_file_and_damage_is_named():
    arrays = to_arrays(support(0.5))
    again = from_arrays(arrays, 2, 3)
    assert again.radius == 0.5 and (again.visits == support(0.5).visits).all()
    for change, message in (
        ({"radius": np.array([np.nan])}, "expected a finite radius >= 0, got nan"),
        ({"radius": np.array([1.0, 2.0])}, r"expected one radius, got \(2,\)"),
        ({"spread": np.array([1.0, 0.0], np.float32)}, "expected a spread > 0"),
        ({"points": np.full((2, 2), np.inf, np.float32)}, "expected finite points"),
        ({"visits": arrays["visits"].astype(np.int64)}, "expected visits of uint16, got"),
        ({"visits": arrays["visits"][:1]}, r"expected visits of 2 points, got \(1, 3\)"),
        ({"more": np.zeros(1)}, "expected arrays points, visits, spread, radius of a support"),
    ):
        with pytest.raises(InvalidInput, match=message):
            from_arrays({**arrays, **change}, 2, 3)
    with pytest.raises(InvalidInput, match=r"expected a support of \(2, 4\), as its critic, got \(2, 3\)"):
        from_arrays(arrays, 2, 4)


def planner(known, unsure="refuse", sigma_max=0.5):
    """Two squares that lead to each other; action 1 earns more, and is known where `known` says so."""
    params = TableParams(
        next_states=np.array([[[1]] * 2, [[0]] * 2]),
        cumulative=np.ones((2, 2, 1)),
        rewards=np.array([[[1.0], [2.0]]] * 2),
        costs=np.zeros((2, 2, 1, 1)),
        legal=np.ones((2, 2), np.bool_),
        terminal=np.zeros(2, np.bool_),
    )
    model = table_model(params)
    model.verdict.fault = "run uncompiled: it is not worth a compilation"
    points = np.stack([model.feature_vector([0.0, float(square)]) for square in (0, 1)])
    where = Support(points, np.array(known, np.uint16), np.ones(points.shape[1], np.float32), 0.0)
    critic = dataclasses.replace(lookup_critic(model, np.zeros((2, 2)), np.zeros((2, 2))), support=where)
    settings = SearchSettings(discount=0.5, exploration=1.0, horizon=4)
    return CMCTS(model, critic, settings, PruningSettings(unsure=unsure, sigma_max=sigma_max))


def test_unknown_actions_are_refused_at_the_root_and_only_there():
    decision = planner([[9, 0], [9, 0]]).plan([0.0, 0.0], 1.0, iterations=30, keep_tree=True)
    assert decision.action == 0
    assert decision.critic_sigma[:, 0].tolist() == [0.0, 1.0]
    assert decision.reason(1) == "critic is unsure, 0 ± 1"
    assert decision.tree.critic_sigma[1].tolist() == [0.0, 0.0]
    assert planner([[9, 9], [9, 0]]).plan([0.0, 0.0], 1.0, iterations=30).action == 1
    assert planner([[9, 0], [9, 0]], unsure="floor").plan([0.0, 0.0], 1.0, iterations=30).action == 1
    assert planner([[9, 0], [9, 0]], sigma_max=1.0).plan([0.0, 0.0], 1.0, iterations=30).action == 1


def test_where_nothing_is_known_the_decision_says_so():
    decision = planner([[0, 0], [9, 9]]).plan([0.0, 0.0], 1.0, iterations=30)
    assert decision.nothing_safe and decision.assurance == "none"


def test_a_reused_tree_doubts_its_new_root():
    agent = Agent(planner([[9, 9], [9, 0]]), 1.0, iterations=30, reuse_tree=True)
    first = agent.act([0.0, 0.0])
    assert first.action == 1
    agent.observe(0.0)
    second = agent.act([0.0, 1.0])
    assert second.tree_size > 1 and second.critic_sigma[:, 0].tolist() == [0.0, 1.0]
    assert second.action == 0


def test_a_map_of_which_half_is_withheld_is_doubted_there():
    """Safe Gridworld, with no data from its right half: all of that is flagged, and hardly anything on the left."""
    task = make("safe-gridworld")
    steps = walk(task.model, task.training_world, 0, 14_000)
    seen = steps.states[:, 0] < 4
    features = np.stack([task.model.feature_vector(state) for state in steps.states[seen]])
    actions, held_out = steps.actions[seen], (np.cumsum(steps.last) % 10 == 0)[seen]
    found = find_support(features, actions, held_out, task.model.action_count, seed=0)
    squares = [(x, y) for x in range(8) for y in range(8) if (x, y) != (7, 7)]
    doubts = {square: found.doubt(task.model.feature_vector(square)) for square in squares}
    withheld = [doubts[square][task.model.legal(square)].all() for square in squares if square[0] >= 4]
    assert np.mean(withheld) >= 0.95
    tried = zip(steps.states[seen][held_out], actions[held_out], strict=True)
    assert np.mean([doubts[tuple(state)][action] for state, action in tried]) <= 0.03
    known = [doubts[square][task.model.legal(square)].any() for square in squares if square[0] < 4]
    assert np.mean(known) <= 0.03
