"""The checker: a sound model passes, and each fault is named by a message of its own."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from numba import config

import cmcts
from cmcts.random import uniform


class ChainParams(NamedTuple):
    length: int
    slip: float


def start(params, rng, state):
    state[0] = 0.0


def legal_actions(params, state, out):
    out[0] = 0
    out[1] = 1
    return 2


def step(params, state, action, rng, next_state, costs):
    """Stay, or walk on and now and then slip, which costs 2."""
    costs[0] = 0.0
    next_state[0] = state[0]
    if action == 1:
        next_state[0] = state[0] + 1.0
        if uniform(rng) < params.slip:
            costs[0] = 2.0
    return 1.0, next_state[0] >= params.length


def features(params, state, out):
    out[0] = state[0]
    out[1] = 1.0


def rollout_action(params, state, rng):
    return 1


def expected_costs(params, state, action, out):
    out[0] = 2.0 * params.slip if action == 1 else 0.0


SOUND = {
    "name": "chain",
    "params": ChainParams(5, 0.25),
    "step": step,
    "legal_actions": legal_actions,
    "features": features,
    "start": start,
    "rollout_action": rollout_action,
    "expected_costs": expected_costs,
    "state_size": 1,
    "action_count": 2,
    "feature_count": 2,
    "cost_count": 1,
}


def broken(**changes):
    return SimpleNamespace(**SOUND | changes)


def step_in_place(params, state, action, rng, next_state, costs):
    result = step(params, state, action, rng, next_state, costs)
    state[0] += 1.0
    return result


def step_with(reward=1.0, cost=0.0, state=0.0):
    def changed(params, state_, action, rng, next_state, costs):
        next_state[0], costs[0] = state, cost
        return reward, False

    return changed


def step_own_randomness(params, state, action, rng, next_state, costs):
    costs[0] = 0.0
    next_state[0] = np.random.rand()  # noqa: NPY002 - the fault under test
    return 0.0, False


def no_legal_actions(params, state, out):
    out[0] = 1
    return 1 if state[0] < 1 else 0


def legal_out_of_range(params, state, out):
    out[0] = 0
    out[1] = 2
    return 2


def features_varying(params, state, out):
    out[0] = state[0]
    if state[0] < 1.0:
        out[1] = 1.0


def features_too_many(params, state, out):
    for k in range(3):
        out[k] = state[0]


def features_not_finite(params, state, out):
    out[0] = 0.0
    out[1] = np.inf


def uncompilable(params, state, rng):
    return len([object()])


FAULTS = [
    ("missing function", {"step": None}, r"step: expected a function step\(params, state, action, rng, .*\), got None"),
    (
        "wrong arity",
        {"features": lambda state, out: None},
        r"features: expected 3 arguments as in features\(params, state, out\), got features\(state, out\)",
    ),
    (
        "state written in place",
        {"step": step_in_place},
        r"step: expected state to be left alone, got \[1.0\] written ov",
    ),
    (
        "no legal action",
        {"legal_actions": no_legal_actions},
        r"legal_actions: expected at least one legal action, got none in the non-terminal state \[1.0\]",
    ),
    (
        "illegal action",
        {"legal_actions": legal_out_of_range},
        r"legal_actions: expected actions from 0 to 1, got 2 in ",
    ),
    (
        "illegal rollout action",
        {"rollout_action": lambda params, state, rng: 7},
        r"rollout_action: expected one of the legal actions \[0, 1\], got 7 in state \[0.0\]",
    ),
    (
        "negative cost",
        {"step": step_with(cost=-1.0)},
        r"step: expected costs >= 0, got \[-1.0\] for action \d in state",
    ),
    (
        "cost not finite",
        {"step": step_with(cost=np.nan)},
        r"step: expected costs of finite numbers, got nan at index 0",
    ),
    ("reward not finite", {"step": step_with(reward=np.inf)}, r"step: expected a finite reward, got inf for action \d"),
    ("state not finite", {"step": step_with(state=np.nan)}, r"step: expected a next state of finite numbers, got nan"),
    (
        "randomness not from rng",
        {"step": step_own_randomness},
        r"step: expected the same result from the same stream, got two .*: all randomness must come from rng",
    ),
    (
        "features of varying length",
        {"features": features_varying},
        r"features: expected features of 2 numbers, got 1 written in state \[1.0\]",
    ),
    ("too many features", {"features": features_too_many}, r"features: raised IndexError: .* in state \[0.0\]"),
    (
        "features not finite",
        {"features": features_not_finite},
        r"features: expected features of finite numbers, got inf",
    ),
    (
        "wrong expected costs",
        {"expected_costs": lambda params, state, action, out: out.fill(0.0)},
        r"expected_costs: expected the mean of what step costs, got \[0.0\], where steps cost \[0.[45]\d*\] on average",
    ),
    ("bad size", {"state_size": 0}, r"state_size: expected an integer >= 1, got 0"),
]


@pytest.mark.parametrize(("changes", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_each_fault_is_named(changes, message, monkeypatch):
    monkeypatch.setattr("cmcts.model.check._Checker.check_compiles", lambda self: None)  # slow, and tested below
    found = cmcts.check_model(broken(**changes), states=60)
    assert any(re.match(message, line) for line in found), found


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_model_that_does_not_compile_is_told_why():
    (line,) = cmcts.check_model(broken(rollout_action=uncompilable), states=20)
    assert re.match(
        r"compilation: Numba cannot compile rollout_action: .*; planning works, hundreds of times slower", line
    )


def test_everything_is_listed_at_once():
    model = broken(step=step_with(cost=-1.0, reward=np.nan), features=features_not_finite, start=lambda state: None)
    assert [line.partition(":")[0] for line in cmcts.check_model(model)] == ["start"]  # no states to try the rest in
    model.start = start
    kinds = {line.partition(",")[0] for line in cmcts.check_model(model, states=20)}
    assert {
        "step: expected a finite reward",
        "step: expected costs >= 0",
        "features: expected features of finite numbers",
    } <= kinds


def test_sound_models_pass():
    assert cmcts.check_model(broken(), states=100) == []
    assert cmcts.check_model(cmcts.make("rocksample-5-7").model) == []
    assert cmcts.check_model(cmcts.make("safe-gridworld").model) == []


def test_optional_functions_may_be_missing():
    model = broken()
    del model.rollout_action, model.expected_costs, model.cost_count
    assert cmcts.check_model(model, states=20) == []


def test_expected_costs_of_rare_events_are_not_refused():
    """A slip that 1000 samples may well not show is no reason to call the model wrong."""
    assert cmcts.check_model(broken(params=ChainParams(5, 1e-4)), states=50) == []


def test_a_model_object_is_checked_like_a_namespace():
    model = cmcts.Model(**SOUND)
    wrong = dataclasses.replace(model, expected_costs=lambda params, state, action, out: out.fill(1.0))
    assert cmcts.check_model(model, states=20) == []
    assert any(line.startswith("expected_costs: expected the mean") for line in cmcts.check_model(wrong, states=20))


def test_states_are_counted_from_one():
    with pytest.raises(cmcts.InvalidInput, match="expected states >= 1, got 0"):
        cmcts.check_model(broken(), states=0)
