"""RockSample with the hidden values in the state: what it tells the planner, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from cmcts import check_model
from cmcts.compilation.content import python_function
from cmcts.envs.rocksample.leak import leaking_model, step
from cmcts.envs.rocksample.model import SAMPLE, SENSE
from cmcts.errors import InvalidInput
from cmcts.random import stream
from cmcts.tasks.registry import make

MODEL = leaking_model(7, 8)


def on_rock(rock, good):
    """A state on a rock, all hidden values alike; there the sensor is never wrong."""
    x, y = MODEL.params.rocks[rock]
    return np.array([x, y, *[0.5] * 8, *[good] * 8])


def test_the_model_is_sound():
    assert check_model(MODEL) == []


@pytest.mark.parametrize("good", [0.0, 1.0])
def test_a_measurement_foretells_the_hidden_value(good):
    state, next_state, costs = on_rock(3, good), np.zeros(18), np.zeros(1)
    for seed in range(10):
        reward, terminal = python_function(step)(MODEL.params, state, SENSE + 3, stream(seed), next_state, costs)
        assert (reward, bool(terminal), costs[0], next_state[5]) == (0.0, False, 1.0, good)
        assert next_state[10:].tolist() == [good] * 8


@pytest.mark.parametrize("good", [0.0, 1.0])
def test_sampling_pays_what_the_belief_promises(good):
    next_state = np.zeros(18)
    reward, _ = python_function(step)(MODEL.params, on_rock(3, good), SAMPLE, stream(0), next_state, np.zeros(1))
    assert (reward, next_state[5]) == (0.0, -1.0)


def test_the_world_is_the_honest_one_with_its_secret_told():
    task, honest = make("rocksample-7-8-leak"), make("rocksample-7-8").real_world()
    world = task.real_world()
    state, _ = world.reset(seed=4)
    assert world.observation_space.contains(state)
    assert task.model.validate_state(state).tolist() == state.tolist()
    assert state[:10].tolist() == honest.reset(seed=4)[0].tolist()
    assert state[10:].tolist() == honest._good.astype(float).tolist()
    for action in (SENSE + 2, 1, SENSE + 5):
        seen, expected = world.step(action), honest.step(action)
        assert seen[0][:10].tolist() == expected[0].tolist()
        assert seen[1:] == expected[1:]


def test_a_hidden_value_that_is_none_is_refused():
    state = on_rock(0, 1.0)
    state[12] = 0.5
    with pytest.raises(InvalidInput, match=r"hidden value of rock 2 to be 0 or 1, got 0\.5"):
        MODEL.validate_state(state)
