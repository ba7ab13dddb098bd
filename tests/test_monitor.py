"""The safety monitor: what it lets pass, what it refuses, and what it writes down."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from cmcts.critic.ensemble import immediate_costs_only
from cmcts.errors import InvalidInput
from cmcts.planning.monitor import SafetyMonitor
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from models import TableParams, climb_model, lookup_critic, table_model

SAFE, COSTLY, TRAP = 0, 1, 2


def planner():
    """Two states lead to each other. SAFE costs nothing, COSTLY 1/2 at once, TRAP 7/8 later, as the critic knows."""
    params = TableParams(
        next_states=np.array([[[1]] * 3, [[0]] * 3, [[2]] * 3]),
        cumulative=np.ones((3, 3, 1)),
        rewards=np.array([[[1.0], [2.0], [3.0]]] * 3),
        costs=np.array([[[[0.0]], [[0.5]], [[0.0]]]] * 3),
        legal=np.array([[True, True, True], [True, True, False], [True, True, True]]),
        terminal=np.array([False, False, True]),
    )
    model = table_model(params)
    model.verdict.fault = "run uncompiled: it is not worth a compilation"
    mean = np.tile([0.0, 0.5, 0.875], (3, 1))
    critic = lookup_critic(model, mean, np.zeros((3, 3)))
    return CMCTS(model, critic, SearchSettings(discount=0.5, horizon=4), PruningSettings(tolerance=0.0))


def test_safe_actions_pass_and_the_budget_is_carried():
    monitor = SafetyMonitor(planner(), lambda state: COSTLY, budget=0.75, iterations=8)
    assert monitor.act([0.0, 0.0]) == COSTLY
    assert monitor.observe(0.5).tolist() == [0.5]  # (3/4 - 1/2) / (1/2)
    assert monitor.act([0.0, 1.0]) == COSTLY, "what is left is just enough"
    assert monitor.observe(0.5).tolist() == [0.0]
    assert monitor.interventions == []
    assert monitor.act([0.0, 0.0]) == SAFE
    assert [entry.step for entry in monitor.interventions] == [2]


def test_an_intervention_says_why():
    monitor = SafetyMonitor(planner(), lambda state: TRAP, budget=0.625, iterations=8)
    assert monitor.act([0.0, 0.0]) == COSTLY, "of what is safe, the planner takes what earns most"
    monitor.observe(0.5)
    assert monitor.act([0.0, 1.0]) == SAFE
    first, second = (json.loads(json.dumps(entry.to_dict())) for entry in monitor.interventions)
    assert first == {
        "step": 0,
        "state": [0.0, 0.0],
        "budget": [0.625],
        "proposed": TRAP,
        "proposed_name": "2",
        "taken": COSTLY,
        "taken_name": "1",
        "reason": "critic predicts 0.875 ± 0, 0.625 left",
        "kind": "prediction",
        "nothing_safe": False,
        "assurance": "clear",
    }
    assert (second["step"], second["reason"], second["taken"]) == (1, "illegal", SAFE)
    assert second["budget"] == [0.25]


def test_interventions_are_counted_by_reason():
    monitor = SafetyMonitor(planner(), lambda state: TRAP, budget=0.625, iterations=8)
    for state in ([0.0, 0.0], [0.0, 1.0], [0.0, 0.0]):
        monitor.act(state)
        monitor.observe(0.0)
    assert monitor.refusals() == {"prediction": 1, "illegal": 1}, "what is left has grown beyond 7/8"


@pytest.mark.parametrize(
    ("fallback", "taken"),
    [
        ("planner", COSTLY),
        ("least_cost", SAFE),
        (lambda state: SAFE, SAFE),
        (lambda state: TRAP, COSTLY),  # refused as well, so the planner decides
    ],
)
def test_a_fallback_acts_in_the_policys_stead(fallback, taken):
    monitor = SafetyMonitor(planner(), lambda state: TRAP, budget=0.625, iterations=8, fallback=fallback)
    assert monitor.act([0.0, 0.0]) == taken
    assert monitor.decision.action == monitor.interventions[0].taken == taken
    cost = 0.5 if taken == COSTLY else 0.0
    assert monitor.observe(cost).tolist() == [(0.625 - cost) / 0.5]


def test_a_fallback_that_is_none_is_named():
    with pytest.raises(InvalidInput, match=r"expected a fallback out of \('planner', 'least_cost'\), or a policy"):
        SafetyMonitor(planner(), lambda state: SAFE, 1.0, fallback="cheap")
    with pytest.raises(InvalidInput, match="expected a fallback that is a function or has predict, got 7"):
        SafetyMonitor(planner(), lambda state: SAFE, 1.0, fallback=7)


class Learned:
    """As Stable-Baselines3 has it: an array, and a hidden state."""

    def predict(self, observation, deterministic=False):
        assert deterministic
        return np.array(COSTLY if observation[1] == 0.0 else SAFE), None


def test_a_learned_policy_is_asked_through_predict():
    monitor = SafetyMonitor(planner(), Learned(), budget=0.5, iterations=8)
    assert [monitor.act([0.0, 0.0]), monitor.act([0.0, 1.0])] == [COSTLY, SAFE]
    assert monitor.interventions == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (3, r"^expected the policy's action to be from 0 to 2, got 3$"),
        ("left", r"^expected the policy to answer with one action, got 'left'$"),
        ([0, 1], r"^expected the policy to answer with one action, got \[0, 1\]$"),
    ],
)
def test_a_policy_that_answers_nonsense_is_named(answer, message):
    with pytest.raises(InvalidInput, match=message):
        SafetyMonitor(planner(), lambda state: answer, 1.0, iterations=1).act([0.0, 0.0])


def test_only_a_planner_with_a_critic_can_judge():
    critical = planner()
    with pytest.raises(
        InvalidInput, match=r"^expected a CMCTS planner, whose critic judges actions, got 'PenalizedMCTS'$"
    ):
        SafetyMonitor(PenalizedMCTS(critical.model, 1.0), lambda state: 0, 1.0)
    with pytest.raises(InvalidInput, match="expected a policy that is a function or has predict, got 7"):
        SafetyMonitor(critical, 7, 1.0)


def test_a_monitor_judges_as_its_planner_would():
    """Immediate costs are sampled here, eight at a time: judged by one stream and planned by another, they differ."""
    model = climb_model()  # it does not say what a step costs on average
    model.verdict.fault = "run uncompiled: it is not worth a compilation"
    planner = CMCTS(model, immediate_costs_only(model), SearchSettings(discount=0.9, horizon=4, cost_samples=8))
    verdicts = set()
    for seed in range(40):
        monitor = SafetyMonitor(planner, lambda state: 0, budget=0.2, rng=seed, iterations=4)
        planned = planner.plan([0.0], 0.2, iterations=4, rng=seed)
        monitor.act([0.0])
        refused = bool(monitor.interventions)
        assert refused == bool(planned.pruned[0]), seed
        verdicts.add(refused)
    assert verdicts == {True, False}, "the samples must decide differently"


def test_a_monitor_does_not_draw_the_same_numbers_at_every_step():
    model = climb_model()
    model.verdict.fault = "run uncompiled: it is not worth a compilation"
    planner = CMCTS(model, immediate_costs_only(model), SearchSettings(discount=0.9, horizon=4))
    monitor = SafetyMonitor(planner, lambda state: 1, budget=5.0, rng=3, iterations=4)
    before = monitor._agent.rng.copy()
    monitor.act([0.0])
    assert monitor._agent.rng[0] != before[0]


def test_a_risk_that_is_returned_to_is_not_granted_again_and_again():
    """With half left, TRAP takes 7/8. A planner that tolerates 3/8 more lets it pass, and its monitor does not."""
    bold = dataclasses.replace(planner().pruning, tolerance=0.375)
    lenient = CMCTS(planner().model, planner().critic, planner().search, bold)
    assert not lenient.plan([0.0, 0.0], 0.5, iterations=8).reason(TRAP)
    monitor = SafetyMonitor(lenient, lambda state: TRAP, budget=0.5, iterations=8)
    assert monitor.act([0.0, 0.0]) != TRAP
    assert monitor.refusals() == {"prediction": 1}
    assert lenient.pruning.tolerance == 0.375 and monitor.planner.pruning.tolerance == 0.03
    trusting = SafetyMonitor(lenient, lambda state: TRAP, budget=0.5, iterations=8, tolerance=0.375)
    assert trusting.act([0.0, 0.0]) == TRAP and trusting.planner is lenient
    with pytest.raises(InvalidInput, match="expected tolerance >= 0"):
        SafetyMonitor(lenient, lambda state: TRAP, budget=0.5, tolerance=-1.0)
