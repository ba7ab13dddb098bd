"""Models and critics that break their contract, in every function and in every way: an error that names the culprit.

Never a crash, never a hang, and never a decision that looks like any other. One model does it all, as its params say,
so that it is compiled once; it behaves until a state that no first look reaches.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from cmcts.critic.ensemble import ensemble, immediate_costs_only
from cmcts.errors import ModelError
from cmcts.model.interface import Model
from cmcts.planning.agent import Agent
from cmcts.planning.monitor import SafetyMonitor
from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from conftest import compiled_only

WHERE = 3.0  # the states from here on are where it goes wrong
ACTIONS = 3


class Params(NamedTuple):
    broken: int  # which function, by its place in FUNCTIONS
    value: float  # what it gives instead
    table: np.ndarray  # float64 [8]


FUNCTIONS = (
    "nothing",
    "step: reward",
    "step: cost",
    "step: next state",
    "step: index",
    "legal_actions: count",
    "legal_actions: action",
    "legal_actions: index",
    "features",
    "features: index",
    "rollout_action",
    "expected_costs",
    "expected_costs: index",
    "helper: index",
    "critic: mean",
    "critic: sigma",
)


@njit
def look_up(table, index):
    return table[index]


def is_broken(params, state, function):
    return params.broken == function and state[0] >= WHERE


is_broken = njit(is_broken)


def step(params, state, action, rng, next_state, costs):
    next_state[0] = state[0] + 1.0
    costs[0] = 0.125 if action == 1 else 0.0
    reward = 0.5 * action
    if is_broken(params, state, 1):
        reward = params.value
    if is_broken(params, state, 2):
        costs[0] = params.value
    if is_broken(params, state, 3):
        next_state[0] = params.value
    if is_broken(params, state, 4):
        reward = params.table[int(params.value)]
    if is_broken(params, state, 13):
        reward = look_up(params.table, int(params.value))
    return reward, next_state[0] >= 7.0


def legal_actions(params, state, out):
    for action in range(3):
        out[action] = action
    if is_broken(params, state, 6):
        out[2] = int(params.value)
        out[1] = int(params.value)
        out[0] = int(params.value)
    if is_broken(params, state, 7):
        out[int(params.value)] = 0
    if is_broken(params, state, 5):
        return int(params.value)
    return 3


def features(params, state, out):
    out[0] = state[0]
    out[1] = 1.0
    if is_broken(params, state, 8):
        out[1] = params.value
    if is_broken(params, state, 9):
        out[int(params.value)] = 1.0


def start(params, rng, state):
    state[0] = 0.0


def rollout_action(params, state, rng):
    return int(params.value) if is_broken(params, state, 10) else 0


def expected_costs(params, state, action, out):
    out[0] = 0.125 if action == 1 else 0.0
    if is_broken(params, state, 11):
        out[0] = params.value
    if is_broken(params, state, 12):
        out[int(params.value)] = 0.0


def broken_critic(function, value):
    """Finite weights that overflow where it goes wrong, to the mean or the sigma that is wanted."""
    into, bias = np.zeros((2, 2, 2)), np.zeros((2, 2))
    into[:, 0], bias[:] = 1e25, -2.5e25  # twice a unit that is 0 until WHERE, and huge from there on
    out = np.zeros((2, 2, ACTIONS))
    if function == "critic: mean":
        out[:, 0] = -1e25 if value == -math.inf else 1e25
        out[:, 1] = -1e25 if math.isnan(value) else 0.0
    if function == "critic: sigma":
        out[0, 0], out[1, 0] = 1.0, -1.0  # the mean is 0, and squares overflow
    return ensemble([into, out], [bias, np.tile([0.0, 0.125, 0.0], (2, 1))])


def broken_planner(function, value, planner, rollout, thrifty, accounting, compiled):
    broken = FUNCTIONS.index(function)
    model = Model(
        "broken",
        Params(broken, value, np.arange(8.0)),
        step,
        legal_actions,
        features,
        start,
        state_size=1,
        action_count=ACTIONS,
        feature_count=2,
        rollout_action=rollout_action,
        expected_costs=expected_costs,
    )
    if not compiled:
        model.verdict.fault = "run uncompiled"
    search = SearchSettings(discount=0.9, horizon=12, rollout=rollout, **thrifty)
    if planner == "cmcts":
        return CMCTS(model, broken_critic(function, value), search, PruningSettings(accounting=accounting))
    return CCMCP(model, search) if planner == "ccmcp" else PenalizedMCTS(model, 1.0, search)


NOT_FINITE = [math.nan, math.inf, -math.inf]
OUT_OF_RANGE = [-1.0, 3.0, 8.0, 99.0, -99.0, 1e6, -1e6]
VALUES = {
    "step: reward": NOT_FINITE,
    "step: cost": [*NOT_FINITE, -0.5],
    "step: next state": NOT_FINITE,
    "step: index": [8.0, -9.0, 1e6, -1e6],
    "legal_actions: count": [-1.0, 0.0, 4.0, 99.0, -1e6, 1e6],
    "legal_actions: action": OUT_OF_RANGE,
    "legal_actions: index": [3.0, -4.0, 1e6, -1e6],
    "features": NOT_FINITE,
    "features: index": [2.0, -3.0, 1e6, -1e6],
    "rollout_action": OUT_OF_RANGE,
    "expected_costs": [*NOT_FINITE, -0.5],
    "expected_costs: index": [1.0, -2.0, 1e6, -1e6],
    "helper: index": [8.0, -9.0, 1e6],
    "critic: mean": NOT_FINITE,
    "critic: sigma": [math.inf],
}
CASES = [(function, value) for function, values in VALUES.items() for value in values]
# Whom a planner never asks, it cannot blame: (function, planner, rollout, thrifty) that leave a function out.
UNASKED = {
    "features": lambda planner, rollout, thrifty: planner != "cmcts",
    "critic": lambda planner, rollout, thrifty: planner != "cmcts",
    "rollout_action": lambda planner, rollout, thrifty: rollout == "uniform",
    "expected_costs": lambda planner, rollout, thrifty: planner != "cmcts" and not thrifty,
}


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=compiled_only), False])
@given(
    case=st.sampled_from(CASES),
    planner=st.sampled_from(["cmcts", "ccmcp", "penalized"]),
    rollout=st.sampled_from(["uniform", "directed"]),
    thrifty=st.sampled_from([{}, {"thrifty_rollouts": True}, {"guarded_rollouts": True}]),
    accounting=st.sampled_from(["paid", "expected"]),
    seed=st.integers(0, 5),
)
def test_garbage_ends_in_an_error_that_names_the_culprit(compiled, case, planner, rollout, thrifty, accounting, seed):
    function, value = case
    planner_ = broken_planner(function, value, planner, rollout, thrifty, accounting, compiled)
    unasked = UNASKED.get(function.partition(":")[0], lambda *_: False)
    refuses = planner_._rules().thrifty_rollout
    if unasked(planner, rollout, refuses):
        assert np.isfinite(planner_.plan([0.0], 1.0, iterations=300, rng=seed).reward_values).all()
        return
    with pytest.raises(ModelError) as caught:
        planner_.plan([0.0], 1.0, iterations=300, rng=seed)
    message = str(caught.value)
    if not function.endswith("index"):
        assert "broken" in message and "in state [" in message, message
    else:
        assert "IndexError" in message, message


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=compiled_only), False])
def test_the_same_model_plans_as_long_as_it_behaves(compiled):
    planner = broken_planner("nothing", 0.0, "cmcts", "directed", {"guarded_rollouts": True}, "paid", compiled)
    decision = planner.plan([0.0], 1.0, iterations=300)
    assert decision.action == 2 and not decision.nothing_safe


def test_after_a_fault_the_planner_is_as_good_as_new():
    planner = broken_planner("critic: mean", math.nan, "cmcts", "uniform", {}, "paid", False)
    with pytest.raises(ModelError):
        planner.plan([0.0], 1.0, iterations=300)
    assert planner.plan([0.0], 1.0, iterations=2).tree_size > 1, "where it does not go wrong"
    with pytest.raises(ModelError):
        planner.plan([0.0], 1.0, iterations=300)


@compiled_only
@pytest.mark.parametrize("factor", [1e20, 1e30])
def test_weights_that_overflow_prune_everything_they_judge(factor):
    """Finite weights, and predictions that are not: at budget 0 that let every action pass, without an alarm."""
    model = broken_planner("nothing", 0.0, "penalized", "uniform", {}, "paid", True).model
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(3, *shape)) * factor for shape in ((2, 8), (8, 8), (8, ACTIONS))]
    critic = ensemble(weights, [np.zeros((3, size)) for size in (8, 8, ACTIONS)])
    mean, sigma = critic([1.0, 1.0])
    assert not np.isfinite(mean).all() or not np.isfinite(sigma).all(), "a ReLU must not hide it"
    with pytest.raises(ModelError, match=r"expected finite predictions from the critic of model 'broken', got mean"):
        CMCTS(model, critic).plan([0.0], 0.0, iterations=10)


def test_a_monitor_and_an_agent_pass_nothing_that_could_not_be_judged():
    planner = broken_planner("critic: sigma", math.inf, "cmcts", "uniform", {}, "expected", False)
    monitor = SafetyMonitor(planner, lambda state: 0, budget=1.0, iterations=4)
    with pytest.raises(ModelError, match="finite predictions"):
        monitor.act([4.0])
    agent = Agent(planner, 1.0, iterations=1)
    agent.act([0.0])
    agent.observe(0.0)
    with pytest.raises(ModelError, match="finite predictions"):
        agent.arrive([4.0])
    untrained = immediate_costs_only(planner.model)
    assert SafetyMonitor(CMCTS(planner.model, untrained), lambda state: 0, 1.0, iterations=1).act([4.0]) == 0
