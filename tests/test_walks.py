"""Walks that nobody planned: whole episodes, the same for the same seed, and far enough."""

from __future__ import annotations

import numpy as np

from cmcts.evaluation.walks import LONGEST, rollout_policy, walk
from cmcts.tasks.registry import make


def test_walks_are_whole_episodes_and_follow_from_the_seed():
    task = make("rocksample-4-2")
    steps = walk(task.model, task.training_world, 3, 500, rollout_policy(task.model, 3))
    assert len(steps) >= 500 and steps.last[-1]
    inside = ~steps.last[:-1]
    np.testing.assert_array_equal(steps.next_states[:-1][inside], steps.states[1:][inside])
    np.testing.assert_array_equal(steps.next_actions[:-1][inside], steps.actions[1:][inside])
    assert (steps.next_actions[steps.terminal] == -1).all()
    assert (steps.next_actions[steps.last & ~steps.terminal] >= 0).all()
    assert np.diff(np.flatnonzero(steps.last), prepend=-1).max() <= LONGEST
    for state, action in zip(steps.states, steps.actions, strict=True):
        assert action in task.model.legal(state)
    again = walk(task.model, task.training_world, 3, 500, rollout_policy(task.model, 3))
    for name, column in vars(steps).items():
        np.testing.assert_array_equal(column, getattr(again, name))
    other = walk(task.model, task.training_world, 4, 500)
    assert (other.states[:100] != steps.states[:100]).any()


def test_walks_go_where_a_planner_does_not():
    """All squares of Safe Gridworld, those of the wall and behind it as well."""
    task = make("safe-gridworld")
    steps = walk(task.model, task.training_world, 0, 4000)
    assert len(np.unique(steps.states, axis=0)) == 63


def test_walks_stray_from_the_policy_they_follow():
    task = make("safe-gridworld")
    east, plain = 2, walk(task.model, task.training_world, 1, 1000)
    steps = walk(task.model, task.training_world, 1, 1000, lambda state: east)
    share = (steps.actions == east).mean()
    assert (plain.actions == east).mean() < 0.25 < share < 0.75
