"""A world that was learnt: what its numbers mean, and that it can be learnt, written, read and planned on."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest

import cmcts
from cmcts.errors import InvalidInput
from cmcts.model import surrogate
from cmcts.model.surrogate import Description, HeldOut, SurrogateParams, surrogate_model
from cmcts.model.worlds import ObservedWorld, world_of
from test_from_env import Numbered


class Sled(gymnasium.Env):
    """Push, coast or brake; the end of the slope pays 5, and whoever is fast there crashes."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed = float(self.np_random.uniform(0.0, 1.0)), 0.0
        return np.array([self.place, self.speed]), {}

    def step(self, action):
        self.speed = 0.9 * self.speed + 0.2 * (action - 1.0)
        self.place += self.speed
        end = self.place > 3.0
        cost = float(end and self.speed > 0.6)
        return np.array([self.place, self.speed]), (5.0 if end else -0.2), end, self.place < -3.0, {"cost": cost}


def go_to(env, state):
    env.place, env.speed = state


slow = cmcts.Model.from_env(
    Sled, get_state=lambda env: (env.place, env.speed), set_state=go_to, action_names=("brake", "coast", "push")
)
HELD = HeldOut(0.9, 0.8, (0.1,), 0.7, 50)
DESCRIBED = Description(surrogate.FORMAT, "sled", 3, 1, 500, HELD)


def by_hand(log_odds=0.0):
    """Two members that ignore their inputs: one foresees a change of 1, the other of 2."""
    nothing = np.zeros((2, 5, 4), np.float32), np.zeros((2, 4), np.float32)
    biases = np.tile(np.array([1.0, 0.5, -1.0, 0.1, 3.0, 0.9, log_odds], np.float32), (2, 1))
    biases[1, 0] = 2.0
    return SurrogateParams(
        *nothing,
        np.zeros((2, 4, 4), np.float32),
        np.zeros((2, 4), np.float32),
        np.zeros((2, 4, 7), np.float32),
        biases,
        mean=np.zeros(2, np.float32),
        scale=np.full(2, 2.0, np.float32),
        output_mean=np.zeros(7, np.float32),
        output_scale=np.ones(7, np.float32),
        low=np.array([-9.0, -9.0, -5.0, 0.0]),
        high=np.array([9.0, 0.25, 5.0, 0.5]),
        starts=np.array([[4.0, 0.0], [6.0, 0.0]]),
    )


def test_a_step_is_what_a_member_foresees():
    model = surrogate_model(by_hand(), slow)
    rng, seen = cmcts.stream(0), set()
    with np.errstate(over="ignore"):
        for _ in range(200):
            next_state, costs = np.zeros(2), np.zeros(1)
            reward, end = model.uncompiled.step(model.params, np.array([1.0, 0.0]), 0, rng, next_state, costs)
            seen.add((float(next_state[0]), float(next_state[1]), reward, round(float(costs[0]), 6), bool(end)))
    # Going on costs 0.1 and earns -1; the end earns 3, and its cost of 0.9 is more than was ever seen: 0.5.
    assert seen == {(to, 0.25, *paid) for to in (2.0, 3.0) for paid in ((-1.0, 0.1, False), (3.0, 0.5, True))}
    out = np.zeros(1)
    model.uncompiled.expected_costs(model.params, np.array([1.0, 0.0]), 0, out)
    assert out[0] == pytest.approx(0.5 * 0.1 + 0.5 * 0.5)
    assert {model.start_state(seed)[0] for seed in range(20)} == {4.0, 6.0}
    assert model.feature_vector([4.0, -1.0]).tolist() == [2.0, -0.5]


def test_it_is_written_and_read_and_refused_if_damaged(tmp_path):
    surrogate.save(tmp_path / "mine", by_hand(), DESCRIBED)
    model = cmcts.Model.learned(tmp_path / "mine", slow)
    for ours, theirs in zip(model.params, by_hand(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (model.name, model.action_name(2), model.compilable) == ("Sled-learnt", "push", True)
    assert model.origin == (
        "learnt from 500 steps of sled; of 50 held out it explains 90 % of the changes, 80 % of the rewards and 70 % "
        "of the ends; error of costs 0.1"
    )
    with pytest.raises(InvalidInput, match=r"expected a learnt model of 1 numbers a state, got 2"):
        cmcts.Model.learned(tmp_path / "mine", cmcts.Model.from_env(Unmasked))
    with pytest.raises(InvalidInput, match="expected an environment without an action mask, got"):
        cmcts.Model.learned(tmp_path / "mine", cmcts.Model.from_env(Numbered))
    with pytest.raises(InvalidInput, match=r"expected a model made by Model.from_env, got 'safe-gridworld'"):
        cmcts.Model.learned(tmp_path / "mine", cmcts.make("safe-gridworld").model)
    broken = by_hand()._replace(mean=np.zeros(3, np.float32))
    surrogate.save(tmp_path / "broken", broken, DESCRIBED)
    with pytest.raises(InvalidInput, match=r"expected weights1 of shape \(2, 6, 4\), finite, in .*, got \(2, 5, 4\)"):
        surrogate.load(tmp_path / "broken")
    (tmp_path / "mine" / surrogate.WEIGHTS).write_bytes(b"nonsense")
    with pytest.raises(InvalidInput, match=r"expected the weights that .*model.json was written with, got others"):
        surrogate.load(tmp_path / "mine")
    with pytest.raises(InvalidInput, match="cannot read"):
        surrogate.load(tmp_path / "nowhere")


class Unmasked(Numbered):
    def reset(self, **arguments):
        return super().reset(**arguments)[0], {}


def test_its_world_is_the_environment():
    world = world_of(surrogate_model(by_hand(), slow))
    assert isinstance(world, ObservedWorld)
    state, _ = world.reset(seed=1)
    assert state.shape == (2,) and state[1] == 0.0
    following, reward, ended, _, info = world.step(2)
    assert following.tolist() == pytest.approx([state[0] + 0.2, 0.2])
    assert (reward, ended, info["cost"]) == (-0.2, False, 0.0)


@pytest.mark.slow
def test_a_world_is_learnt_from_its_own_steps(tmp_path, monkeypatch):
    pytest.importorskip("jax")
    from cmcts.training import surrogate as learning
    from cmcts.training.surrogate import SurrogateSettings, learn

    task = cmcts.Task("sled", slow, budget=0.1)
    settings = SurrogateSettings(steps=1500, rounds=1, updates=1500, hidden=32, members=3)
    params, description = learn(task, settings, folder=tmp_path)
    assert description.steps == 1500 and params.starts.shape[1] == 2
    assert description.held_out.state_explained > 0.95 and description.held_out.reward_explained > 0.8
    model = surrogate_model(params, slow)
    state, ours, costs = np.array([0.5, 0.2]), [], np.zeros(1)
    with np.errstate(over="ignore"):
        for seed in range(20):
            next_state = np.zeros(2)
            model.uncompiled.step(model.params, state, 2, cmcts.stream(seed), next_state, costs)
            ours.append(next_state)
    assert np.mean(ours, axis=0) == pytest.approx([0.5 + 0.38, 0.38], abs=0.05)
    first = learning._Memory(tmp_path, task, settings)
    assert sorted(first.units) == list(range(15))
    alone = learning._wander(task, None, settings, [3], 0)  # a unit of steps depends on its number alone
    np.testing.assert_array_equal(first.units[3].states, alone.states)
    monkeypatch.setattr(learning, "_wander", None)
    again, _ = learn(task, settings, folder=tmp_path)  # no step is taken twice
    np.testing.assert_array_equal(again.weights3, params.weights3)
    assert learning._Memory(tmp_path, task, dataclasses.replace(settings, seed=1)).units == {}
    with pytest.raises(InvalidInput, match="expected steps >= 20, got 15"):
        SurrogateSettings(steps=15)
