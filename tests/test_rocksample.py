"""RockSample: its rules by hand, the planning model against the world, and that nothing hidden leaks to a planner."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cmcts.model.worlds  # noqa: F401 - makes the worlds known to Gymnasium
from cmcts.compilation.content import uncompiled
from cmcts.critic.ensemble import immediate_costs_only
from cmcts.envs.drawing import CELL, GROUND, ROVER
from cmcts.envs.rocksample.model import (
    EAST,
    NORTH,
    SAMPLE,
    SENSE,
    SOUTH,
    WEST,
    bayes,
    rocksample_model,
    rocksample_params,
)
from cmcts.envs.rocksample.world import RockSampleWorld
from cmcts.errors import InvalidInput
from cmcts.planning.agent import Agent
from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS
from cmcts.random import stream
from cmcts.search.settings import SearchSettings
from models import random_ensemble

BAYES = uncompiled(bayes)


def act(model, state, action, rng=None):
    """One step of the model: (next state, reward, terminal, cost)."""
    next_state, costs = np.full(model.state_size, np.nan), np.full(1, np.nan)
    before = np.array(state, np.float64)
    with np.errstate(over="ignore"):
        reward, terminal = uncompiled(model.step)(
            model.params, before, action, stream(0) if rng is None else rng, next_state, costs
        )
    assert before.tolist() == list(state), "a step must not write to its state"
    return next_state, float(reward), bool(terminal), float(costs[0])


def world_at(state, good=None, **options):
    world = RockSampleWorld(5, 7, **options)
    world.reset(seed=0)
    world._state[:] = state
    if good is not None:
        world._good[:] = good
    return world


class Rigged:
    """Stands in for a world's random numbers, and gives the readings it is told, whatever is hidden."""

    def __init__(self, world, readings):
        self.world, self.readings, self.rock = world, iter(readings), None

    def random(self):
        return 0.0 if bool(self.world._good[self.rock]) == next(self.readings) else 1.0


def test_the_world_passes_gymnasiums_checks():
    world = gym.make("cmcts/RockSample-v0", n=5, m=7, render_mode="rgb_array").unwrapped
    assert isinstance(world, RockSampleWorld)
    assert world.params.n == 5
    check_env(world)


# The map.


def test_the_maps_of_the_paper():
    five = rocksample_params(5, 7)
    assert five.rocks.tolist() == [[1, 0], [2, 1], [1, 2], [2, 2], [4, 2], [0, 3], [3, 4]]
    assert five.start_y == 2
    seven = rocksample_params(7, 8)
    assert seven.rocks.tolist() == [[2, 0], [0, 1], [3, 1], [6, 3], [2, 4], [3, 4], [5, 5], [1, 6]]
    assert seven.start_y == 3
    eleven = rocksample_params(11, 11)
    assert eleven.rocks[[0, 10]].tolist() == [[0, 3], [9, 9]]
    assert eleven.start_y == 5
    assert seven.rock_at[6 * 7 + 3] == 3
    assert (seven.rock_at >= 0).sum() == 8


def test_other_maps_have_one_layout_for_each_name():
    fifteen, again = rocksample_params(15, 15), rocksample_params(15, 15)
    assert fifteen.rocks.tolist() == again.rocks.tolist()
    assert len({tuple(rock) for rock in fifteen.rocks}) == 15
    assert fifteen.rocks.min() >= 0
    assert fifteen.rocks.max() <= 14
    assert fifteen.start_y == 7
    assert rocksample_params(15, 15, layout_seed=1).rocks.tolist() != fifteen.rocks.tolist()
    assert rocksample_params(5, 7, layout_seed=1).rocks.tolist() != rocksample_params(5, 7).rocks.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 1), "expected a grid size n from 2 to 1000, got 1"),
        ((3, 10), "expected from 1 to 9 rocks on a 3 x 3 grid, got 10"),
        ((3, 0), "expected from 1 to 9 rocks on a 3 x 3 grid, got 0"),
        ((3, 2, 0.0), "expected a sensor constant d0 > 0, got 0.0"),
        ((3, 2, float("nan")), "expected a sensor constant d0 > 0, got nan"),
    ],
)
def test_bad_maps_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        rocksample_model(*arguments)


def test_sensor_accuracy():
    accuracy = rocksample_params(7, 8).accuracy
    assert accuracy[2 * 7 + 0, 0] == 1.0  # on rock 0 at (2, 0)
    assert accuracy[5 * 7 + 4, 0] == pytest.approx((1 + 2 ** (-5 / 20)) / 2)  # 3 right, 4 up: distance 5
    assert rocksample_params(41, 1).accuracy.min() >= 0.5
    assert rocksample_params(7, 8, d0=5.0).accuracy[5 * 7 + 4, 0] == pytest.approx(0.75)


# The rules, in the model and in the world.

MIDDLE = [0.5, 0.5, 0.9, 0.5, 0.5, 0.2, 0.5]


@pytest.mark.parametrize("kind", ["model", "world"])
@pytest.mark.parametrize("row", range(5))
def test_leaving(kind, row):
    """East pays 10 from every row, the top one included; every other side pays -100."""

    def leave(x, y, action):
        state = [x, y, *MIDDLE]
        if kind == "model":
            _, reward, terminal, cost = act(rocksample_model(5, 7), state, action)
        else:
            _, reward, terminal, truncated, info = world_at(state).step(action)
            assert not truncated
            cost = info["cost"]
        assert terminal
        assert cost == 0.0
        return reward

    assert leave(4, row, EAST) == 10.0
    assert leave(0, row, WEST) == -100.0
    assert leave(row, 4, NORTH) == -100.0
    assert leave(row, 0, SOUTH) == -100.0


@pytest.mark.parametrize(("action", "square"), [(NORTH, (2, 3)), (EAST, (3, 2)), (SOUTH, (2, 1)), (WEST, (1, 2))])
def test_moving(action, square):
    state = [2.0, 2.0, *MIDDLE]
    after, reward, terminal, cost = act(rocksample_model(5, 7), state, action)
    assert after.tolist() == [*square, *MIDDLE]
    assert (reward, terminal, cost) == (0.0, False, 0.0)
    observed, reward, terminal, truncated, info = world_at(state).step(action)
    assert observed.tolist() == [*square, *MIDDLE]
    assert (reward, terminal, truncated, info) == (0.0, False, False, {"cost": 0.0})


def test_sampling():
    """Rock 2 lies on (1, 2) and is good with probability 0.9: 10 (2 * 0.9 - 1) = 8 on average."""
    state = [1.0, 2.0, *MIDDLE]
    collected = [1.0, 2.0, 0.5, 0.5, -1.0, 0.5, 0.5, 0.2, 0.5]
    after, reward, terminal, cost = act(rocksample_model(5, 7), state, SAMPLE)
    assert after.tolist() == collected
    assert (reward, terminal, cost) == (pytest.approx(8.0), False, 0.0)
    rewards = []
    for good in (True, False):
        observed, reward, terminal, _, info = world_at(state, good).step(SAMPLE)
        assert observed.tolist() == collected
        assert (terminal, info["cost"]) == (False, 0.0)
        rewards.append(reward)
    assert rewards == [10.0, -10.0]
    assert 0.9 * rewards[0] + 0.1 * rewards[1] == pytest.approx(8.0)


@pytest.mark.parametrize("state", [[0.0, 0.0, *MIDDLE], [1.0, 2.0, 0.5, 0.5, -1.0, 0.5, 0.5, 0.2, 0.5]])
def test_sampling_nothing(state):
    """Neither where there is no rock, nor where it was collected."""
    assert act(rocksample_model(5, 7), state, SAMPLE)[1:] == (-100.0, False, 0.0)
    observed, reward, terminal, _, info = world_at(state).step(SAMPLE)
    assert observed.tolist() == state
    assert (reward, terminal, info["cost"]) == (-100.0, False, 0.0)


@pytest.mark.parametrize(
    ("prior", "accuracy", "says_good", "says_bad"),
    [
        (0.5, 0.9, 0.9, 0.1),
        (0.9, 0.8, 0.72 / 0.74, 0.18 / 0.26),
        (0.2, 0.75, 0.15 / 0.35, 0.05 / 0.65),
        (0.3, 0.5, 0.3, 0.3),
        (0.5, 1.0, 1.0, 0.0),
        (1.0, 0.8, 1.0, 1.0),
        (0.0, 0.8, 0.0, 0.0),
    ],
)
def test_bayes_rule(prior, accuracy, says_good, says_bad):
    assert BAYES(prior, accuracy, True) == pytest.approx(says_good)
    assert BAYES(prior, accuracy, False) == pytest.approx(says_bad)


def test_a_reading_in_the_world():
    """From (2, 2), rock 0 at (1, 0) is sqrt(5) away; its accuracy decides where 'correct' ends."""
    accuracy = (1 + 2 ** (-np.sqrt(5) / 20)) / 2
    prior = 0.3
    for good, right in itertools.product((True, False), (True, False)):
        world = world_at([2.0, 2.0, prior, *MIDDLE[1:]], good)
        draw = accuracy - 1e-12 if right else accuracy + 1e-12
        world.np_random = type("Fixed", (), {"random": lambda self, draw=draw: draw})()
        observed, reward, terminal, _, info = world.step(SENSE)
        assert (reward, terminal, info["cost"]) == (0.0, False, 1.0)
        reads_good = good == right
        likelihood = accuracy if reads_good else 1 - accuracy
        posterior = prior * likelihood / (prior * likelihood + (1 - prior) * (1 - likelihood))
        assert observed[2] == pytest.approx(posterior)
        assert observed[[0, 1, *range(3, 9)]].tolist() == [2.0, 2.0, *MIDDLE[1:]]


def test_readings_of_the_model_are_those_of_the_world():
    """Averaged over what may be hidden, the world reads "good" with p e + (1 - p)(1 - e), as the model does."""
    model = rocksample_model(5, 7, d0=1.0)  # so bad a sensor that readings follow the prior loosely
    prior, rng, draws = 0.1, stream(1), 4000
    state = [2.0, 2.0, prior, *MIDDLE[1:]]
    accuracy = model.params.accuracy[2 * 5 + 2, 0]
    chance = prior * accuracy + (1 - prior) * (1 - accuracy)
    outcomes = [act(model, state, SENSE, rng) for _ in range(draws)]
    beliefs = np.array([after[2] for after, *_ in outcomes])
    good, bad = BAYES(prior, accuracy, True), BAYES(prior, accuracy, False)
    assert set(beliefs.tolist()) == {good, bad}
    assert np.mean(beliefs == good) == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / draws))
    assert {outcome[1:] for outcome in outcomes} == {(0.0, False, 1.0)}
    assert chance * good + (1 - chance) * bad == pytest.approx(prior), "a reading changes no expectation"
    probabilities, next_states, rewards, costs, terminals = model.outcomes(model.params, np.array(state), SENSE)
    assert dict(zip(next_states[:, 2], probabilities, strict=True)) == pytest.approx({good: chance, bad: 1 - chance})
    assert (rewards.tolist(), costs.tolist(), terminals.tolist()) == ([0.0] * 2, [[1.0]] * 2, [False] * 2)


def test_measuring_a_collected_rock_costs_and_says_nothing():
    state = [2.0, 2.0, -1.0, *MIDDLE[1:]]
    after, *rest = act(rocksample_model(5, 7), state, SENSE)
    assert after.tolist() == state
    assert rest == [0.0, False, 1.0]
    observed, _, _, _, info = world_at(state).step(SENSE)
    assert observed.tolist() == state
    assert info["cost"] == 1.0


def test_legal_actions():
    model = rocksample_model(5, 7)
    everything = [SENSE + i for i in range(7)]

    def legal(x, y, *rocks):
        return sorted(model.legal([x, y, *rocks]).tolist())

    assert legal(0, 0, *MIDDLE) == [NORTH, EAST, *everything]
    assert legal(4, 4, *MIDDLE) == [EAST, SOUTH, WEST, *everything]
    assert legal(0, 2, *MIDDLE) == [NORTH, EAST, SOUTH, *everything]
    assert legal(1, 2, *MIDDLE) == [NORTH, EAST, SOUTH, WEST, SAMPLE, *everything]
    assert legal(1, 2, 0.5, 0.5, -1.0, 0.5, -1.0, 0.5, 0.5) == [NORTH, EAST, SOUTH, WEST, 5, 6, 8, 10, 11]
    assert legal(2, 3, *[-1.0] * 7) == [NORTH, EAST, SOUTH, WEST]


def test_the_directed_rollout():
    model = rocksample_model(5, 7)

    def choice(x, y, **promising):
        rocks = [0.5] * 7
        for name, p in promising.items():
            rocks[int(name[1:])] = p
        return int(uncompiled(model.rollout_action)(model.params, np.array([x, y, *rocks], np.float64), stream(0)))

    assert choice(2, 3) == EAST, "nothing is promising at 1/2"
    assert choice(2, 3, r0=0.55) == EAST, "nor at 0.55 itself"
    assert choice(2, 3, r0=0.56) == WEST  # rock 0 at (1, 0)
    assert choice(1, 3, r0=0.9) == SOUTH
    assert choice(0, 0, r5=0.9) == NORTH  # rock 5 at (0, 3)
    assert choice(1, 0, r0=0.9) == SAMPLE
    assert choice(3, 2, r4=0.6, r0=0.99) == EAST, "the nearer rock 4 at (4, 2), not the better one"
    assert choice(2, 3, r0=-1.0) == EAST


def test_features_and_expected_costs():
    model = rocksample_model(5, 7)
    features = model.feature_vector([0.0, 4.0, 0.5, -1.0, 0.9, 0.0, 1.0, 0.25, 0.5])
    assert features[:9].tolist() == pytest.approx([-1, 1, 0, 0, 0.8, -1, 1, -0.5, 0])
    assert features[9:].tolist() == [1, 0, 1, 1, 1, 1, 1]
    costs = []
    for action in range(12):
        out = np.full(1, np.nan)
        uncompiled(model.expected_costs)(model.params, model.start_state(), action, out)
        costs.append(out[0])
    assert costs == [0.0] * 5 + [1.0] * 7
    assert model.start_state().tolist() == [0.0, 2.0, *[0.5] * 7]
    assert model.action_names[:6] == ("north", "east", "south", "west", "sample", "sense 0")


# The world as a Gymnasium environment.


def test_the_world_is_cut_after_a_hundred_steps():
    world = RockSampleWorld(5, 7)
    world.reset(seed=0)
    steps = [world.step(SENSE) for _ in range(100)]
    assert [truncated for _, _, _, truncated, _ in steps] == [False] * 99 + [True]
    assert not any(terminated for _, _, terminated, _, _ in steps)
    world.reset()
    assert not world.step(SENSE)[3], "the count starts anew"


def test_an_end_is_not_a_cut():
    world = RockSampleWorld(5, 7, max_steps=5)
    world.reset(seed=0)
    steps = [world.step(EAST) for _ in range(5)]
    assert steps[-1][1:4] == (10.0, True, False)


def test_seeds_fix_what_is_hidden():
    world, other = RockSampleWorld(5, 7), RockSampleWorld(5, 7)

    def history(world, seed):
        world.reset(seed=seed)
        return [world.step(SENSE + k % 7)[0].tolist() for k in range(20)]

    assert history(world, 3) == history(other, 3)
    assert history(world, 3) != history(other, 4)
    shares = []
    for seed in range(300):
        world.reset(seed=seed)
        shares.append(world._good.mean())
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)  # 4.6 standard deviations of 2100 coins


def test_readings_follow_the_hidden_values():
    """On the rock a reading is always right."""
    for good in (True, False):
        world = world_at([1.0, 2.0, *[0.5] * 7], good)
        observed = world.step(SENSE + 2)[0]
        assert observed[4] == float(good)


@pytest.mark.parametrize("action", [-1, 12, 99])
def test_bad_actions_are_refused(action):
    world = world_at([0.0, 0.0, *MIDDLE])
    with pytest.raises(InvalidInput, match=f"^expected an action from 0 to 11, got {action}$"):
        world.step(action)


def test_the_world_hands_out_copies():
    world = world_at([0.0, 0.0, *MIDDLE])
    observed = world.step(EAST)[0]
    observed[:] = 77.0
    assert world.step(EAST)[0][0] == 2.0


# Honesty.


@pytest.mark.parametrize("name", ["cmcts", "cmcts, learned", "ccmcp", "penalized"])
def test_hidden_values_change_no_decision(name):
    """For the same readings, worlds that hide opposite rocks get the same decisions to the end of the episode."""
    model = rocksample_model(5, 7)
    search = SearchSettings(horizon=20)
    planner = {
        "cmcts": lambda: CMCTS(model, immediate_costs_only(model), search),
        "cmcts, learned": lambda: CMCTS(model, random_ensemble(model, 0, scale=0.2, offset=0.4), search),
        "ccmcp": lambda: CCMCP(model, search),
        "penalized": lambda: PenalizedMCTS(model, 0.1, search),
    }[name]()

    def episode(good):
        world = RockSampleWorld(5, 7)
        state, _ = world.reset(seed=0)
        world._good[:] = good
        world.np_random = Rigged(world, itertools.cycle([True, True, False]))
        agent = Agent(planner, 3.0, rng=5, iterations=120)
        history, rewards = [], []
        for _ in range(25):
            decision = agent.act(state)
            world.np_random.rock = decision.action - SENSE
            state, reward, terminated, _, info = world.step(decision.action)
            agent.observe(info["cost"])
            history.append((decision.action, decision.visits.tolist(), decision.reward_values.tolist(), state.tolist()))
            rewards.append(reward)
            if terminated:
                break
        return history, rewards

    hidden = np.array([True, False, True, True, False, False, True])
    one, rewards = episode(hidden)
    other, other_rewards = episode(~hidden)
    assert one == other
    actions = [action for action, *_ in one]
    assert max(actions) >= SENSE, "the episode must hold a reading"
    if SAMPLE in actions:
        assert rewards != other_rewards, "sampling is where the worlds differ"


# Pictures.


def test_ansi():
    world = world_at([1.0, 2.0, 0.5, -1.0, 0.25, 0.5, 0.5, 1.0, 0.5], render_mode="ansi")
    assert world.render().split() == [
        *(".", ".", ".", "0.50", "."),
        *("1.00", ".", ".", ".", "."),
        *(".", "[0.25]", "0.50", ".", "0.50"),
        *(".", ".", "x", ".", "."),
        *(".", "0.50", ".", ".", "."),
    ]
    world.step(SOUTH)
    rows = world.render().split("\n")
    assert "[  ]" in rows[3]
    assert "[" not in rows[2]


def test_rgb_array():
    world = world_at([1.0, 2.0, 0.5, -1.0, 0.25, 0.5, 0.5, 1.0, 0.5], render_mode="rgb_array")
    picture = world.render()
    assert picture.shape == (5 * CELL, 5 * CELL, 3)
    assert picture.dtype == np.uint8

    def middle(x, y):
        return tuple(picture[(4 - y) * CELL + CELL // 2, x * CELL + CELL // 2].tolist())

    assert middle(1, 2) == ROVER
    assert middle(0, 3) == (95, 200, 110), "a rock that is surely good"
    assert middle(2, 2) == (155, 160, 110), "a rock at 1/2"
    assert middle(2, 1) == GROUND, "a collected rock"
    assert middle(0, 0) == GROUND


def test_render_modes():
    assert world_at([0.0, 0.0, *MIDDLE]).render() is None
    with pytest.raises(
        InvalidInput, match=r"^expected render_mode to be one of \[None, 'ansi', 'rgb_array', 'svg'\], got 'hd'$"
    ):
        RockSampleWorld(render_mode="hd")
