"""Tasks by name: their models, worlds and budgets are the paper's."""

from __future__ import annotations

import re

import pytest

from cmcts.errors import InvalidInput
from cmcts.tasks import NAMES, make


@pytest.mark.parametrize("name", NAMES)
def test_named_tasks(name):
    task = make(name)
    assert task.name == name
    assert task.discount == 0.95
    world = task.real_world()
    state, _ = world.reset(seed=0)
    assert task.model.validate_state(state).tolist() == state.tolist()
    assert world.action_space.n == task.model.action_count


def test_rocksample():
    task = make("rocksample-7-8")
    assert task.budget == (1.0,)
    assert (task.model.state_size, task.model.action_count, task.model.feature_count) == (10, 13, 18)
    for world in (task.training_world(), task.real_world()):
        assert world.params.accuracy.tolist() == task.model.params.accuracy.tolist()
    assert make("rocksample-4-3").model.params.rocks.shape == (3, 2)


def test_a_better_sensor_in_training_is_a_worse_one_in_reality():
    """The accuracy ablation: planner and training world believe in d0 = 60, the real world has 20."""
    task = make("rocksample-7-8-d60")
    assert task.name == "rocksample-7-8-d60"
    accuracies = [
        params.accuracy[0, 7] for params in (task.model.params, task.training_world().params, task.real_world().params)
    ]
    distance = (1 + 6**2) ** 0.5  # of rock 7 at (1, 6) from (0, 0)
    assert accuracies == pytest.approx([(1 + 2 ** (-distance / d0)) / 2 for d0 in (60, 60, 20)])


def test_safe_gridworld():
    task = make("safe-gridworld")
    assert task.budget == (0.0,)
    winds = [model.params.wind for model in (task.model, task.training_world().model, task.real_world().model)]
    assert winds == [0.0, 0.25, 0.3]


@pytest.mark.parametrize("name", ["", "rocksample", "rocksample-7", "rocksample-7-8-9", "Safe-Gridworld", "chess"])
def test_unknown_tasks_are_refused(name):
    with pytest.raises(
        InvalidInput, match=rf"^expected a task: one of .*rocksample-7-8.*; got {re.escape(repr(name))}$"
    ):
        make(name)


def test_impossible_maps_are_refused():
    with pytest.raises(InvalidInput, match=r"^expected from 1 to 9 rocks on a 3 x 3 grid, got 10$"):
        make("rocksample-3-10")
