"""An environment's content: what it is made of, whatever was copied from what, and without its spaces and dice."""

from __future__ import annotations

import collections
import copy
import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import cmcts
from cmcts.errors import InvalidInput
from cmcts.model.content import content_of
from cmcts.random import stream


class Thing:
    def __init__(self, **parts):
        self.__dict__.update(parts)


def digest(value):
    return content_of(value).digest.tolist()


def test_equal_contents_have_equal_digests():
    word = "".join(["la", "va"])  # equal to a constant, and not the same object
    shared = [1, 2]
    ring = Thing(name="ring")
    ring.itself = ring
    for one, other in (
        (["lava", "lava"], [word, "lava"]),
        ({"a", "b", "c"}, {"c", "b", "a"}),
        (Thing(x=1, y=0.0), Thing(y=-0.0, x=1)),
        (3, np.int64(3)),
        (0.5, np.float32(0.5)),
        (np.zeros(3), np.array([-0.0, 0.0, 0.0])),
        (ring, copy.deepcopy(ring)),
        ((shared, shared), copy.deepcopy((shared, shared))),
        (collections.deque([1, 2]), collections.deque([1, 2])),
    ):
        assert digest(one) == digest(other)


def test_different_contents_have_different_digests():
    values = [1, 1.0, True, "1", b"1", (1,), [1], {1}, {1: 1}, np.array([1]), np.array([1.0]), np.array([[1]]), None]
    values += [Thing(x=1), Thing(x=2), Thing(y=1), collections.deque([1]), [[1], 2], [[1, 2]]]
    digests = [tuple(digest(value)) for value in values]
    assert len(set(digests)) == len(digests)


def test_another_process_finds_the_same_digest():
    code = "from cmcts.model.content import content_of; print(content_of({'a', 'b', ('c', 1.5)}).digest.tolist())"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] == f"{digest({'a', 'b', ('c', 1.5)})}\n"


class Marbles(gymnasium.Env):
    """A part of it holds a generator of its own, as roads and physics engines do, and a space draws as well."""

    observation_space = gymnasium.spaces.Discrete(100)

    def __init__(self):
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sum = 0
        self.bag = Thing(dice=self.np_random, old=np.random.RandomState(seed))
        return self.sum, {}

    def step(self, action):
        self.action_space.sample()
        self.sum += int(self.bag.dice.integers(3) if action else self.bag.old.randint(3))
        return self.sum, 0.0, self.sum > 9, False, {"cost": 0.0}


def test_spaces_and_generators_are_no_part_of_a_state():
    model = cmcts.Model.from_env(Marbles)
    starts = {model.start_state(seed).tobytes() for seed in range(5)}
    assert len(starts) == 1  # five resets with five seeds: one state
    assert cmcts.check_model(model, states=30) == []
    state, reached = model.start_state(), []
    for action in (0, 1):
        for seed in range(40):
            row, costs = np.zeros(model.state_size), np.zeros(1)
            with np.errstate(over="ignore"):
                model.step(model.params, state, action, stream(seed), row, costs)
            reached.append((action, row.tobytes()))
    assert len(set(reached)) == 6  # three outcomes of each: the dice are the search's own, wherever they lie


def test_what_cannot_be_read_is_refused():
    with pytest.raises(InvalidInput, match=r"cannot tell states of the environment apart \(TypeError: .*generator"):
        content_of(part for part in ())
