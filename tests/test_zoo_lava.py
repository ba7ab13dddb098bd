"""MiniGrid's LavaCrossing: the layout is MiniGrid's, the slips are ours, and the tables are exactly what happens."""

from __future__ import annotations

import importlib.util

import gymnasium
import pytest

import cmcts
from cmcts.tasks.check import check_worlds
from cmcts.tasks.optimum import solve_task

pytestmark = pytest.mark.extras
if importlib.util.find_spec("minigrid") is None:
    pytest.skip("needs MiniGrid", allow_module_level=True)


@pytest.fixture(scope="module")
def task():
    return cmcts.make("lava-crossing")


def test_the_optimum(task):
    assert "112 states" in task.model.origin and "336 from the model's outcomes" in task.model.origin
    assert solve_task(task).reward_lower == pytest.approx(0.3578, abs=5e-5)
    careful = solve_task(task, [0.0])  # there is a way without any risk: by slips alone
    assert careful.reward_lower == pytest.approx(0.0848, abs=5e-5)


def test_without_slips_it_is_the_shortest_way(monkeypatch):
    """South to the last row, then east along it."""
    from cmcts.zoo import lava

    monkeypatch.setattr(lava, "SLIP", 0.0)
    sure = solve_task(lava.lava_task(), [0.0])
    assert sure.reward_lower == pytest.approx(0.99**13)  # one turn right, six steps, one turn left, six steps
    assert sure.costs[0] == 0.0


def test_steps_slip_as_often_as_the_tables_say(task):
    """East of the start there is floor, south too; north is the wall."""
    from cmcts.zoo.lava import FORWARD, SlipperyLava

    env, seen = SlipperyLava(), []
    env.reset(seed=0)
    for _ in range(2000):
        env.set_state((2, 2, 0))
        seen.append(tuple(env.step(FORWARD)[0].astype(int)))
    shares = {place: seen.count(place) / len(seen) for place in set(seen)}
    assert shares == pytest.approx({(3, 2, 0): 0.9, (2, 3, 0): 0.05, (2, 1, 0): 0.05}, abs=0.02)


def test_lava_costs_and_the_goal_pays():
    from cmcts.zoo.lava import FORWARD, SlipperyLava

    env = SlipperyLava()
    env.reset(seed=0)
    env.set_state((2, 3, 1))  # above the first river, facing it
    _, reward, ended, _, info = env.slide(FORWARD, 0)
    assert (reward, ended, info["cost"]) == (0.0, True, 1.0)
    env.set_state((6, 7, 0))
    _, reward, ended, _, info = env.slide(FORWARD, 0)
    assert (reward, ended, info["cost"]) == (1.0, True, 0.0)


def test_the_layout_is_minigrid_s(task):
    own = gymnasium.make("MiniGrid-LavaCrossingS9N3-v0").unwrapped
    own.reset(seed=3)
    lava = [(x, y) for x in range(9) for y in range(9) if getattr(own.grid.get(x, y), "type", "") == "lava"]
    assert (2, 4) in lava and (1, 4) not in lava and len(lava) == 16


def test_episodes_differ_by_their_slips_alone(task):
    assert check_worlds(task) == []
    world = task.real_world()
    assert len({tuple(world.reset(seed=seed)[0]) for seed in range(5)}) == 1


def test_the_model_keeps_its_word(task):
    assert cmcts.check_model(task.model, states=20) == []


def test_deaths_in_minigrid_itself_are_those_of_the_tables(task):
    """The exact policy, played in the environment."""
    from cmcts.evaluation.episodes import run_episodes
    from cmcts.tasks.optimum import exact_policy

    seen = run_episodes(exact_policy(task), task.real_world, task.budget, episodes=400, seed=0)[0].summary()
    assert abs(seen.cost_mean - 0.1) < 3 * seen.cost_se + 0.005
    assert abs(seen.reward_mean - 0.3578) < 3 * seen.reward_se + 0.01
