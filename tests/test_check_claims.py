"""What `check` finds besides: claims that steps contradict, environments that do not come back, costs never seen."""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import cmcts
from cmcts import cli
from cmcts.errors import InvalidInput, shown
from cmcts.exact.finite import enumerate_states
from cmcts.model.check import examine
from test_from_env import Dice, Numbered, by_square, hole, lake

EXAMPLES = Path(__file__).parent.parent / "examples"
QUEUE = cmcts.make(f"{EXAMPLES}/queue_control.py:task").model


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("cmcts.model.check._Checker.check_compiles", lambda self: None)  # slow, and tested elsewhere
    monkeypatch.setattr("cmcts.model.check._SAMPLES", 400)


def outcomes_with(change):
    """The queue's outcomes, one part of them changed."""

    def outcomes(params, state, action):
        return change(*QUEUE.outcomes(params, state, action))

    return outcomes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, s, r, c, e: (p, s, r + 5.0, c, e), "expected the mean reward of step, .*, got .* for action . in "),
        (lambda p, s, r, c, e: (p, s, r, c + 0.5, e), "expected the mean cost of step, "),
        (
            lambda p, s, r, c, e: (p[::-1], s, r, c, e),
            r"expected \[.*\] as often as it happens, 0.*, got probability 0",
        ),
        (lambda p, s, r, c, e: (p, s + 1.0, r, c, e), r"expected all that happens, got no \[.*\] among \d+ states"),
        (lambda p, s, r, c, e: (p, s, r, c, ~e), "expected all that happens, got no "),
        (lambda p, s, r, c, e: (p / 2, s, r, c, e), r"expected probabilities >= 0 with sum 1, got \[.*\] with sum 0.5"),
        (lambda p, s, r, c, e: (p, s[:, :1], r, c, e), r"expected next states of shape \(\d+, 2\), got \(\d+, 1\)"),
        (lambda p, s, r, c, e: (p, s, r, c[:, 0], e), r"expected costs of shape \(\d+, 1\), got \(\d+,\)"),
        (lambda p, s, r, c, e: (p, s, r), "expected .probabilities, next_states, rewards, costs, terminals., got "),
    ],
    ids=["rewards", "costs", "chances", "states", "ends", "sum", "state size", "cost size", "three parts"],
)
def test_outcomes_that_steps_contradict_are_wrong(change, message):
    (fault,) = cmcts.check_model(dataclasses.replace(QUEUE, outcomes=outcomes_with(change)), states=4)
    assert re.search(f"^outcomes: {message}", fault), fault


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        (lambda params: (np.ones(1), np.array([[0.0, 59.0]])), "expected all that happens, got no "),
        (lambda params: (np.ones(1), np.array([[0.0]])), r"expected states of shape \(1, 2\), got \(1, 1\)"),
        (lambda params: np.ones(1), r"expected \(probabilities, states\), got array"),
        (
            lambda params: (np.array([0.5, 0.5]), np.vstack([QUEUE.start_state(), QUEUE.start_state() + 1.0])),
            "expected .* as often as it happens, 1, got probability 0.5",
        ),
    ],
)
def test_starts_that_start_contradicts_are_wrong(starts, message):
    (fault,) = cmcts.check_model(dataclasses.replace(QUEUE, starts=starts), states=2)
    assert re.search(f"^starts: {message}", fault), fault


@pytest.mark.parametrize("name", ["queue_control", "frozen_lake", "cliff_walking", "taxi"])
def test_claims_that_hold_are_right(name):
    assert cmcts.check_model(cmcts.make(f"{EXAMPLES}/{name}.py:task").model, states=6) == []


@pytest.mark.parametrize("name", ["rocksample-5-7", "safe-gridworld", "random-absorbing-3"])
def test_the_librarys_own_claims_hold(name):
    assert cmcts.check_model(cmcts.make(name).model, states=20) == []


def test_a_set_state_that_does_nothing_is_found():
    model = cmcts.Model.from_env(lake, costs=hole, get_state=lambda env: env.s, set_state=lambda env, s: None)
    (fault,) = cmcts.check_model(model)
    assert fault.startswith("set_state: expected the environment in the state it was given, [")


class Sled(gymnasium.Env):
    """It slides: where it is says nothing about how fast it is."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (1,))
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed = 0.0, 0.0
        return np.array([self.place]), {}

    def step(self, action):
        self.speed += action - 1.0
        self.place += self.speed
        return np.array([self.place]), 0.0, False, False, {"cost": 0.0}


def test_a_get_state_that_forgets_is_found():
    forgets = {"get_state": lambda env: env.place, "set_state": lambda env, place: setattr(env, "place", place)}
    (fault,) = cmcts.check_model(cmcts.Model.from_env(Sled, **forgets))
    assert fault.startswith("get_state: expected a step from a restored state to do what the same step does from the")
    assert fault.endswith("; does get_state leave something out?")

    def set_all(env, state):
        env.place, env.speed = state

    whole = {"get_state": lambda env: (env.place, env.speed), "set_state": set_all}
    assert cmcts.check_model(cmcts.Model.from_env(Sled, **whole), states=20) == []


@pytest.mark.parametrize("factory", [Numbered, Dice], ids=["numbers", "copies"])
def test_environments_that_come_back_are_right(factory):
    assert cmcts.check_model(cmcts.Model.from_env(factory), states=20) == []


def test_costs_never_seen_and_masks_are_told(capsys, tmp_path):
    """Taxi, where what costs is forbidden by a mask that the environment brings along."""

    def into_a_wall(before, action, after, reward, terminated, info):
        return float(before == after and action < 4)

    taxi = cmcts.Model.from_env(partial(gymnasium.make, "Taxi-v4"), costs=into_a_wall, **by_square)
    faults, notes = examine(taxi, states=60)
    assert faults == []
    assert notes[0].startswith("cost: never above 0 in ")
    assert notes[1] == 'legal actions: 2 to 4 of 6, by info["action_mask"] of the environment'
    file = tmp_path / "mine.py"
    file.write_text(
        "import cmcts, dataclasses\n"
        "model = cmcts.Model.from_tables([[[0.5]]], R=[[1.0]], C=[[0.0]], name='free')\n"
        "task = cmcts.Task('free', dataclasses.replace(model, compilable=False), budget=0.1)\n"  # compiling takes long
    )
    assert cli.main(["check", f"{file}:task", "--states", "20", "--seconds", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "note   cost: never above 0 in 20 steps; can it occur, or is what costs not legal?" in out
    assert "note   legal actions: 1 of 1, by the model's legal_actions" in out
    assert "train  about " in out and " a round on " in out


def test_long_states_are_shortened():
    assert shown([0.0, 1.5]) == "[0.0, 1.5]"
    assert shown(np.eye(500)[7]) == "[500 numbers; 0: 0.0, 7: 1.0, 499: 0.0, ...]"
    assert len(shown(np.arange(1000.0))) < 200
    cmdp = enumerate_states(cmcts.make(f"{EXAMPLES}/cliff_walking.py:task").model, 0.95)
    with pytest.raises(InvalidInput, match=r"reached from the start, got \[49 numbers; 0: 0.0, 48: 0.0, ...\]$"):
        cmdp.number(np.zeros(49))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("safe-gridwold", "(did you mean safe-gridworld?); got 'safe-gridwold'"),
        (f"{EXAMPLES}/taxi.py:tsk", " (did you mean task?)"),
        ("nothing-like-it", "FILE.py:NAME or MODULE:NAME; got 'nothing-like-it'"),
    ],
)
def test_near_names_are_suggested(name, hint):
    with pytest.raises(InvalidInput) as error:
        cmcts.make(name)
    assert str(error.value).endswith(hint)
    with pytest.raises(InvalidInput, match=r"got \['get_stat'\] \(did you mean get_state\?\)"):
        cmcts.Model.from_env(lake, get_stat=len)
