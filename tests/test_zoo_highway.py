"""Driving: the compiled model by hand, and against highway-env where that is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cmcts
from cmcts.zoo.highway import ACTION_NAMES, FASTER, HEAD, IDLE, LEFT, RIGHT, ROW, SLOWER, VX, X, Y, highway_model

ROOT = Path(__file__).parent.parent
INSTALLED = importlib.util.find_spec("highway_env") is not None


def needs_highway_env(test):
    return pytest.mark.extras(pytest.mark.skipif(not INSTALLED, reason="needs highway-env")(test))


@pytest.fixture(scope="module")
def model():
    return highway_model(constraints=2)


def road(lane=2, number=1, speed=25.0, others=()):
    """A state with others at (x, lane, speed)."""
    state = np.zeros(highway_model().state_size)
    state[:2] = lane, number
    state[HEAD : HEAD + ROW] = 1.0, 0.0, 4.0 * lane, speed, 0.0
    for k, (x, their_lane, their_speed) in enumerate(others, 1):
        state[HEAD + k * ROW : HEAD + (k + 1) * ROW] = 1.0, x, 4.0 * their_lane, their_speed, 0.0
    return state


def drive(model, state, action, seed=0):
    after, costs = np.zeros(model.state_size), np.zeros(model.cost_count)
    with np.errstate(over="ignore"):
        reward, ended = model.uncompiled.step(model.params, state, action, cmcts.stream(seed), after, costs)
    return after, float(reward), bool(ended), costs


def test_an_empty_road_by_hand(model):
    """A third of what is missing in each of five frames; the reward is highway-env's formula."""
    after, reward, ended, costs = drive(model, road(), FASTER)
    speed = 30.0 - 5.0 * (2 / 3) ** 5
    assert after[HEAD + VX] == pytest.approx(speed) and after[1] == 2.0 and not ended
    assert reward == pytest.approx((1.0 + 0.4 * (speed - 20.0) / 10.0 + 0.1) / 1.5)
    assert costs.tolist() == [0.0, 0.0]


def test_who_brakes_too_late_crashes(model):
    """30 m/s behind 20 m/s with 3 m between them."""
    near = road(number=2, speed=30.0, others=[(8.0, 2, 20.0)])
    _, reward, ended, costs = drive(model, near, SLOWER)
    assert ended and costs[0] == 1.0 and reward < 0.34
    out = np.zeros(2)
    model.uncompiled.expected_costs(model.params, near, SLOWER, out)
    assert out[0] == pytest.approx(1.0)
    assert not drive(model, road(number=2, speed=30.0, others=[(8.0, 1, 20.0)]), SLOWER)[2]  # on the other lane


def test_a_lane_change_and_what_it_costs(model):
    after, _, _, costs = drive(model, road(), LEFT)
    assert after[0] == 1.0 and 4.0 < after[HEAD + Y] < 6.0 and costs[1] == 1.0
    back, _, _, costs = drive(model, after, RIGHT)
    assert back[0] == 2.0 and back[HEAD + Y] > after[HEAD + Y]


def test_what_is_legal(model):
    named = [{ACTION_NAMES[a] for a in model.legal(state)} for state in (road(), road(lane=0, number=0, speed=20.0))]
    assert named == [{"left", "idle", "faster", "slower"}, {"right", "idle", "faster"}]
    with pytest.raises(cmcts.InvalidInput, match="expected a lane and a speed of 0, 1 or 2, got 3 and 1"):
        model.validate_state(road(lane=3))


def test_a_driver_who_is_held_up_changes_lanes(model):
    """15 m behind a slow one, with nobody beside: with the chance that the planner supposes."""
    held_up = road(lane=0, others=[(30.0, 2, 23.0), (45.0, 2, 18.0)])
    moved = [drive(model, held_up, IDLE, seed)[0][HEAD + ROW + Y] < 7.0 for seed in range(200)]
    assert 0.72 < np.mean(moved) < 0.88


def test_a_second_car_is_seen_from_where_the_own_one_is(model):
    after, *_ = drive(model, road(others=[(100.0, 0, 22.5)]), IDLE)
    assert after[HEAD + ROW + X] == pytest.approx(100.0 - 25.0 + 22.5)


@needs_highway_env
def test_alone_the_model_is_highway_env(model):
    """Every action, one after the other, with nobody else on the road."""
    from cmcts.zoo.highway_world import HighwayWorld

    world, dice = HighwayWorld(constraints=2), np.random.default_rng(0)
    world.reset(seed=0)
    world.highway.road.vehicles = [world.highway.vehicle]
    state, *_ = world.step(IDLE)
    for _ in range(25):
        action = int(dice.choice(model.legal(state)))
        after, reward, ended, costs = drive(model, state, action)
        state, seen_reward, crashed, _, info = world.step(action)
        assert after == pytest.approx(state, abs=5e-3)
        assert (reward, ended) == (pytest.approx(seen_reward, abs=1e-4), crashed)
        assert costs.tolist() == info["cost"].tolist()


@needs_highway_env
def test_in_traffic_the_model_foresees_crashes(model):
    """It misses hardly any of the next second, and is seldom afraid of nothing."""
    from cmcts.zoo.highway import quick_guess
    from cmcts.zoo.highway_world import HighwayWorld

    world, dice, guess = HighwayWorld(), np.random.default_rng(1), quick_guess(1)
    missed = alarms = crashes = steps = 0
    errors = []
    for seed in range(20):
        state, _ = world.reset(seed=seed)
        ended = False
        while not ended:
            action = guess(state) if dice.random() < 0.6 else int(dice.choice(model.legal(state)))
            expected, out = drive(model, state, action)[0], np.zeros(2)
            model.uncompiled.expected_costs(model.params, state, action, out)
            state, _, crashed, truncated, _ = world.step(action)
            ended = crashed or truncated
            missed += crashed and out[0] == 0.0
            alarms += not crashed and out[0] > 0.5
            crashes, steps = crashes + crashed, steps + 1
            if not crashed:
                errors.append(abs(expected[HEAD + VX] - state[HEAD + VX]))
    assert crashes >= 5 and missed <= 1 and alarms <= 0.03 * steps
    assert np.median(errors) < 1e-3


@needs_highway_env
def test_the_worlds_fit_the_tasks():
    from cmcts.tasks.check import check_worlds

    for name in ("highway", "highway-two"):
        assert check_worlds(cmcts.make(name)) == []


@needs_highway_env
def test_the_world_draws_itself():
    world = cmcts.make("highway").real_world(render_mode="rgb_array")
    world.reset(seed=0)
    picture = world.render()
    assert picture.shape == (150, 600, 3) and len(np.unique(picture.reshape(-1, 3), axis=0)) > 4  # cars and lanes


@needs_highway_env
def test_highway_env_s_own_driver_takes_the_wheel():
    """He minds no actions, and brakes below 20 m/s, which the actions cannot."""
    from cmcts.zoo.highway_world import HighwayWorld

    ends = []
    for action in (FASTER, SLOWER):
        world = HighwayWorld()
        world.reset(seed=3)
        world.hand_over(25.0)
        states = [world.step(action)[0] for _ in range(30)]
        ends.append(states[-1])
    assert ends[0].tolist() == ends[1].tolist()
    assert min(state[HEAD + VX] for state in states) < 20.0


@needs_highway_env
def test_the_benchmark_goes_on_where_it_stopped(tmp_path):
    script = [sys.executable, str(ROOT / "benchmarks/driving.py"), "--out", str(tmp_path), "--only", "idle", "idm"]
    for episodes in ("1", "2"):
        done = subprocess.run([*script, "--episodes", episodes], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "idm.csv").read_text().count("\n") == 1 + int(episodes)
    assert "idm: reward" in done.stdout and "0 crashes in 2 (0.0 to 84.2 %)" in done.stdout
    assert (tmp_path / "table.csv").read_text().startswith("policy,episodes,reward,")


@needs_highway_env
def test_the_example_runs():
    script = [sys.executable, str(ROOT / "examples/driving.py")]
    done = subprocess.run(script, capture_output=True, text=True, timeout=600)
    assert "IDM: " in done.stdout and "search: " in done.stdout, done.stderr
