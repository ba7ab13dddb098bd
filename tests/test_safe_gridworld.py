"""Safe Gridworld: its rules by hand, in the planning model and in the world."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cmcts.model.worlds  # noqa: F401 - makes the worlds known to Gymnasium
from cmcts.compilation.content import uncompiled
from cmcts.envs.drawing import CELL, GROUND, ROVER
from cmcts.envs.safe_gridworld.model import ACTION_NAMES, STAY, UNSAFE_SQUARES, WINDY_SQUARES, safe_gridworld_model
from cmcts.envs.safe_gridworld.world import SafeGridworldWorld
from cmcts.errors import InvalidInput
from cmcts.random import stream

ACTION = {name: number for number, name in enumerate(ACTION_NAMES)}


def act(model, state, action, rng=None):
    """One step of the model: (square, reward, terminal, cost)."""
    next_state, costs = np.full(2, np.nan), np.full(1, np.nan)
    with np.errstate(over="ignore"):
        reward, terminal = uncompiled(model.step)(
            model.params, np.array(state, np.float64), action, stream(0) if rng is None else rng, next_state, costs
        )
    return tuple(next_state.tolist()), float(reward), bool(terminal), float(costs[0])


def world_at(square, wind=0.3, **options):
    world = SafeGridworldWorld(wind, **options)
    world.reset(seed=0)
    world._state[:] = square
    return world


def test_the_world_passes_gymnasiums_checks():
    world = gym.make("cmcts/SafeGridworld-v0", wind=0.25, render_mode="ansi").unwrapped
    assert isinstance(world, SafeGridworldWorld)
    assert world.model.params.wind == 0.25
    assert (world.observation_space.low.tolist(), world.observation_space.high.tolist()) == ([0, 0], [7, 7])
    check_env(world)


def test_the_map():
    assert set(UNSAFE_SQUARES) == {(2, 5), (3, 5), (4, 5), (5, 5), (5, 4), (5, 3), (5, 2)}
    assert set(WINDY_SQUARES) == {(x, y) for x in (2, 3, 4, 5) for y in (6, 7)}
    params = safe_gridworld_model().params
    assert {tuple(square) for square in np.argwhere(params.unsafe).tolist()} == set(UNSAFE_SQUARES)
    assert {tuple(square) for square in np.argwhere(params.windy).tolist()} == set(WINDY_SQUARES)


@pytest.mark.parametrize(
    ("name", "square"),
    [
        ("north", (1, 2)),
        ("north-east", (2, 2)),
        ("east", (2, 1)),
        ("south-east", (2, 0)),
        ("south", (1, 0)),
        ("south-west", (0, 0)),
        ("west", (0, 1)),
        ("north-west", (0, 2)),
        ("stay", (1, 1)),
    ],
)
def test_moving(name, square):
    assert act(safe_gridworld_model(), (1, 1), ACTION[name]) == (square, -1.0, False, 0.0)
    observed, reward, terminated, truncated, info = world_at((1, 1)).step(ACTION[name])
    assert (tuple(observed), reward, terminated, truncated, info) == (square, -1.0, False, False, {"cost": 0.0})


def test_the_goal_ends():
    model = safe_gridworld_model()
    for square, name in (((6, 6), "north-east"), ((6, 7), "east"), ((7, 6), "north")):
        assert act(model, square, ACTION[name]) == ((7, 7), 100.0, True, 0.0)
        observed, reward, terminated, _, info = world_at(square).step(ACTION[name])
        assert (tuple(observed), reward, terminated, info["cost"]) == ((7, 7), 100.0, True, 0.0)


@pytest.mark.parametrize(
    ("square", "name"),
    [((0, 3), "west"), ((7, 3), "east"), ((7, 3), "north-east"), ((3, 0), "south"), ((0, 7), "north")],
)
def test_leaving_the_grid_ends(square, name):
    assert act(safe_gridworld_model(), square, ACTION[name]) == (square, -1000.0, True, 0.0)
    assert world_at(square).step(ACTION[name])[1:3] == (-1000.0, True)


def test_entering_an_unsafe_square_costs_one():
    model = safe_gridworld_model()
    for x, y in UNSAFE_SQUARES:
        assert act(model, (x - 1, y), ACTION["east"]) == ((x, y), -1.0, False, 1.0)
    assert act(model, (5, 5), STAY)[3] == 1.0, "staying enters again"
    assert act(model, (5, 5), ACTION["east"])[3] == 0.0, "leaving costs nothing"
    assert world_at((4, 4)).step(ACTION["north"])[4] == {"cost": 1.0}


def test_legal_actions_stay_on_the_grid():
    model = safe_gridworld_model()

    def legal(x, y):
        return [ACTION_NAMES[action] for action in model.legal([x, y])]

    assert legal(0, 0) == ["north", "north-east", "east", "stay"]
    assert legal(7, 0) == ["north", "west", "north-west", "stay"]
    assert legal(3, 7) == ["east", "south-east", "south", "south-west", "west", "stay"]
    assert legal(3, 3) == list(ACTION_NAMES)


def test_wind_blows_down_on_windy_squares_only():
    model, rng, draws = safe_gridworld_model(0.3), stream(2), 4000
    landed = [act(model, (3, 7), ACTION["east"], rng)[0] for _ in range(draws)]
    assert set(landed) == {(4, 7), (3, 6)}
    blown = np.mean([square == (3, 6) for square in landed])
    assert blown == pytest.approx(0.3, abs=4 * np.sqrt(0.3 * 0.7 / draws))
    for square in ((1, 6), (6, 7), (3, 5)):
        calm = {act(model, square, STAY, rng)[0] for _ in range(200)}
        assert calm == {square}
    assert {act(safe_gridworld_model(0.0), (3, 7), STAY, rng)[0] for _ in range(200)} == {(3, 7)}
    assert {act(safe_gridworld_model(1.0), (3, 7), STAY, rng)[0] for _ in range(200)} == {(3, 6)}


def test_wind_over_the_wall_costs():
    assert act(safe_gridworld_model(1.0), (4, 6), ACTION["east"]) == ((4, 5), -1.0, False, 1.0)


def test_outcomes_are_what_the_world_does():
    """Every square and legal action of the world, against the enumeration, by sampling where the wind blows."""
    world, model = SafeGridworldWorld(0.3), safe_gridworld_model(0.3)
    world.reset(seed=1)
    for square in np.ndindex(8, 8):
        if square == (7, 7):
            continue
        for action in model.legal(square):
            chances, squares, rewards, costs, ends = model.outcomes(model.params, np.array(square, float), int(action))
            expected = {}
            for k, chance in enumerate(chances):
                key = (*squares[k].tolist(), float(rewards[k]), bool(ends[k]), float(costs[k, 0]))
                expected[key] = expected.get(key, 0.0) + chance
            windy = square in WINDY_SQUARES
            assert chances.tolist() == ([0.7, 0.3] if windy else [1.0])
            draws = 60 if windy else 1
            seen = {}
            for _ in range(draws):
                world._state[:], world._steps = square, 0
                observed, reward, terminated, _, info = world.step(action)
                key = (*observed.tolist(), reward, terminated, info["cost"])
                seen[key] = seen.get(key, 0) + 1 / draws
            assert seen.keys() <= expected.keys()
            for key, chance in expected.items():
                assert seen.get(key, 0.0) == pytest.approx(chance, abs=5 * np.sqrt(0.21 / draws) if windy else 1e-9)


def test_expected_costs_are_those_of_the_outcomes():
    for wind in (0.0, 0.3):
        model = safe_gridworld_model(wind)
        for square in np.ndindex(8, 8):
            for action in model.legal(square):
                out = np.full(1, np.nan)
                uncompiled(model.expected_costs)(model.params, np.array(square, float), int(action), out)
                chances, _, _, costs, _ = model.outcomes(model.params, np.array(square, float), int(action))
                assert out == pytest.approx(chances @ costs), (square, action)
    out = np.zeros(1)
    uncompiled(model.expected_costs)(model.params, np.array([3.0, 6.0]), ACTION["south"], out)
    assert out[0] == pytest.approx(1.0), "down by will or by wind"
    uncompiled(model.expected_costs)(model.params, np.array([3.0, 6.0]), ACTION["north"], out)
    assert out[0] == pytest.approx(0.3)


def test_starts_are_uniform_over_the_corner():
    model = safe_gridworld_model()
    counts = np.zeros((3, 3))
    for seed in range(1800):
        x, y = model.start_state(seed)
        counts[int(x), int(y)] += 1
    assert counts.min() > 200 - 4 * np.sqrt(200)
    assert counts.max() < 200 + 4 * np.sqrt(200)


def test_the_directed_rollout_goes_north_east():
    model = safe_gridworld_model()
    rng = stream(3)

    def choices(x, y):
        with np.errstate(over="ignore"):
            return {
                ACTION_NAMES[uncompiled(model.rollout_action)(model.params, np.array([x, y], float), rng)]
                for _ in range(60)
            }

    assert choices(3, 3) == {"north", "north-east", "east"}
    assert choices(7, 3) == {"north"}
    assert choices(3, 7) == {"east"}


def test_features_name_the_square():
    features = safe_gridworld_model().feature_vector([2.0, 5.0])
    assert features.shape == (64,)
    assert np.flatnonzero(features).tolist() == [2 * 8 + 5]
    assert features.sum() == 1.0


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([8.0, 0.0], "expected x to be an integer from 0 to 7, got 8.0"),
        ([0.0, 0.5], "expected y to be an integer from 0 to 7, got 0.5"),
        ([7.0, 7.0], "the goal is reached"),
    ],
)
def test_impossible_states_are_refused(state, message):
    with pytest.raises(InvalidInput, match=f"^illegal state for model 'safe-gridworld': {message}$"):
        safe_gridworld_model().validate_state(state)


@pytest.mark.parametrize("wind", [-0.1, 1.1, float("nan")])
def test_bad_winds_are_refused(wind):
    with pytest.raises(InvalidInput, match=rf"^expected a wind probability in \[0, 1\], got {wind}$"):
        safe_gridworld_model(wind)


def test_ansi():
    assert world_at((1, 2), render_mode="ansi").render().split("\n") == [
        ". . ~ ~ ~ ~ . G",
        ". . ~ ~ ~ ~ . .",
        ". . # # # # . .",
        ". . . . . # . .",
        ". . . . . # . .",
        ". A . . . # . .",
        ". . . . . . . .",
        ". . . . . . . .",
    ]


def test_rgb_array():
    picture = world_at((1, 2), render_mode="rgb_array").render()
    assert picture.shape == (8 * CELL, 8 * CELL, 3)
    assert picture.dtype == np.uint8

    def middle(x, y):
        return tuple(picture[(7 - y) * CELL + CELL // 2, x * CELL + CELL // 2].tolist())

    assert middle(1, 2) == ROVER
    assert middle(0, 0) == GROUND
    colours = {middle(*square) for square in UNSAFE_SQUARES}, {middle(*square) for square in WINDY_SQUARES}
    assert [len(colour) for colour in colours] == [1, 1]
    assert len({*colours[0], *colours[1], middle(7, 7), GROUND, ROVER}) == 5
