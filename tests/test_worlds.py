"""Any model as a world."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from cmcts.envs.safe_gridworld.model import safe_gridworld_model
from cmcts.errors import InvalidInput
from cmcts.worlds import ModelWorld
from models import random_table, table_model


def test_the_papers_worlds_are_known_to_gymnasium():
    assert {"cmcts/RockSample-v0", "cmcts/SafeGridworld-v0"} <= set(gym.registry)


def test_a_table_passes_gymnasiums_checks():
    check_env(ModelWorld(table_model(random_table(0))), skip_render_check=True)


def test_a_world_follows_its_model():
    """Frequencies of next states, rewards and costs are those of the table."""
    params = random_table(4, outcomes=3, constraints=2, terminal=1)
    params.next_states[0, 0] = [1, 2, 5]
    params.cumulative[0, 0] = [0.2, 0.7, 1.0]
    world = ModelWorld(table_model(params))
    world.reset(seed=0)
    draws, seen = 3000, {}
    for _ in range(draws):
        world._state[:] = 0.0
        observed, reward, terminated, _, info = world.step(0)
        key = (*observed.tolist(), reward, terminated, *info["cost"].tolist())
        seen[key] = seen.get(key, 0) + 1
    expected = {
        (there // 3, there % 3, params.rewards[0, 0, k], there == 5, *params.costs[0, 0, k]): chance
        for k, (there, chance) in enumerate(((1, 0.2), (2, 0.5), (5, 0.3)))
    }
    assert seen.keys() == expected.keys()
    for key, chance in expected.items():
        assert seen[key] / draws == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / draws))


def test_costs_are_a_number_or_a_vector():
    one, two = (ModelWorld(table_model(random_table(0, constraints=count))) for count in (1, 2))
    for world in (one, two):
        world.reset(seed=0)
    assert isinstance(one.step(0)[4]["cost"], float)
    costs = two.step(0)[4]["cost"]
    assert costs.shape == (2,)
    costs[:] = 99.0
    assert two.step(0)[4]["cost"].max() < 1.0, "a copy"


def test_a_world_is_cut_after_max_steps():
    params = random_table(0, terminal=0)
    world = ModelWorld(table_model(params), max_steps=7)
    world.reset(seed=0)
    assert [world.step(0)[2:4] for _ in range(7)] == [(False, False)] * 6 + [(False, True)]


def test_an_end_is_not_a_cut():
    world = ModelWorld(safe_gridworld_model(), max_steps=1)
    world.reset(seed=0)
    world._state[:] = (6.0, 6.0)
    assert world.step(1)[1:4] == (100.0, True, False)


def test_seeds_fix_an_episode():
    model = table_model(random_table(3, outcomes=3, terminal=0))

    def episode(world, seed):
        states = [world.reset(seed=seed)[0].tolist()]
        return states + [world.step(0)[0].tolist() for _ in range(30)]

    world = ModelWorld(model)
    assert episode(world, 5) == episode(ModelWorld(model), 5) == episode(world, 5)
    assert episode(world, 5) != episode(world, 6)
    following = [world.reset()[0].tolist()] + [world.step(0)[0].tolist() for _ in range(30)]
    assert following != episode(world, 6), "without a seed the stream goes on"


def test_bad_input_is_refused():
    model = table_model(random_table(0))
    world = ModelWorld(model)
    world.reset(seed=0)
    with pytest.raises(InvalidInput, match=r"^expected an action from 0 to 2, got 3$"):
        world.step(3)
    with pytest.raises(InvalidInput, match=r"^expected render_mode to be one of \[None\], got 'ansi'$"):
        ModelWorld(model, render_mode="ansi")
