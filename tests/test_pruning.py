"""Algorithm 1's pruning on numbers that can be checked by hand, each option on and off."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from cmcts.errors import InvalidInput
from cmcts.model.interface import no_expected_costs
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.random import stream
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.search.tree import PRUNED, ROOT
from models import TableParams, lookup_critic, table_model

SEARCH = SearchSettings(discount=0.5, exploration=1.0, horizon=3)
# Algorithm 1 without the authors' rounding.
LETTER = PruningSettings(sigma_max=0.5, tolerance=0.0, cost_floor=False, unsure="floor", fallback="lowest_mean")


def corridor(first_costs, second_costs):
    """Three squares in a row. Every one of A actions leads on; costs are [M] on the first, [A, M] on the second."""
    second_costs = np.atleast_2d(np.asarray(second_costs, np.float64))
    actions, constraints = second_costs.shape
    states = 3
    costs = np.zeros((states, actions, 1, constraints))
    costs[0, :, 0] = first_costs
    costs[1, :, 0] = second_costs
    return table_model(
        TableParams(
            next_states=np.minimum(np.arange(states) + 1, 2)[:, None, None] * np.ones((1, actions, 1), np.int64),
            cumulative=np.ones((states, actions, 1)),
            rewards=np.zeros((states, actions, 1)),
            costs=costs,
            legal=np.ones((states, actions), np.bool_),
            terminal=np.arange(states) == 2,
        )
    )


def prune_second(settings, mean, sigma, budget, *, path=0.4, costs=None):
    """Prune the node at depth 1, whose C_path is `path`: (open actions, judged unsafe by, nothing safe)."""
    mean = np.asarray(mean, np.float64).reshape(len(mean), -1)
    costs = np.zeros_like(mean) if costs is None else np.asarray(costs, np.float64).reshape(mean.shape)
    model = corridor(np.broadcast_to(path, mean.shape[1]), costs)
    rows, sigmas = np.zeros((3, mean.size)), np.zeros((3, mean.size))
    rows[1], sigmas[1] = mean.ravel(), np.broadcast_to(np.asarray(sigma, np.float64).reshape(-1), mean.size)
    planner = CMCTS(model, lookup_critic(model, rows, sigmas), SEARCH, settings)
    budget = np.broadcast_to(budget, mean.shape[1])
    tree = planner.plan([0.0, 0.0], budget, iterations=40, keep_tree=True).tree
    assert tree.path_costs[1].tolist() == pytest.approx(np.broadcast_to(path, mean.shape[1]).tolist())
    assert tree.depth[1] == 1
    visits = tree.action_visits[1]
    assert ((visits > 0) | (visits == PRUNED)).all()
    return [int(a) for a in np.flatnonzero(visits > 0)], tree.pruned_by[1].tolist(), bool(tree.nothing_safe[1])


def test_an_action_is_unsafe_when_path_and_prediction_exceed_the_budget():
    # 0.4 + 0.5 Q > 0.9 means Q > 1; an exact 1 is within the budget.
    assert prune_second(LETTER, [0.9, 1.0, 1.04, 1.2], 0.0, 0.9) == ([0, 1], [0, 0, 1, 1], False)


def test_the_path_cost_counts():
    # Without any path cost the bound is Q > 1.8.
    assert prune_second(LETTER, [0.9, 1.04, 1.2, 1.9], 0.0, 0.9, path=0.0) == ([0, 1, 2], [0, 0, 0, 1], False)


def test_tolerance_lowers_the_prediction():
    tolerant = dataclasses.replace(LETTER, tolerance=0.05)
    assert prune_second(tolerant, [0.9, 1.0, 1.04, 1.2], 0.0, 0.9) == ([0, 1, 2], [0, 0, 0, 1], False)


def test_what_is_free_stays_possible_when_nothing_is_left():
    """A critic's noise around zero, one-sided because costs are not negative, must not close every way."""
    opened = prune_second(LETTER, [-0.01, 0.019, 0.021, 0.5], 0.0, 0.4)
    assert opened == ([0, 1], [0, 0, 1, 1], False)
    tolerant = dataclasses.replace(LETTER, tolerance=0.05)
    assert prune_second(tolerant, [0.019, 0.021, 0.051], 0.0, 0.4) == ([0, 1], [0, 0, 1], False)


def test_unsure_predictions_do_not_prune():
    # sigma_max itself is still trusted.
    opened = prune_second(LETTER, [0.9, 1.2, 1.2, 1.2], [0.0, 0.5, 0.5001, 9.0], 0.9)
    assert opened == ([0, 2, 3], [0, 1, 0, 0], False)


def test_what_is_unknown_is_unsafe_in_deployment():
    careful = dataclasses.replace(LETTER, unsure="refuse")
    opened = prune_second(careful, [0.9, 1.2, 0.1, -3.0], [0.5, 0.5, 0.5001, 9.0], 0.9)
    assert opened == ([0], [0, 1, 1, 1], False)
    # One constraint that is unsure is enough; and when all are, the fallback still finds the least bad.
    two = prune_second(careful, [[0.1, 0.1], [0.1, 0.1]], [0.0, 0.0, 0.0, 0.6], 0.9)
    assert two == ([0], [0, 2], False)
    assert prune_second(careful, [0.3, 0.2], [0.6, 0.6], 0.9) == ([1], [1, 1], True)
    # What costs too much for sure is no better than what is unknown, however large the doubt.
    floored = dataclasses.replace(careful, cost_floor=True, fallback="lowest_pessimistic")
    assert prune_second(floored, [0.0, 1.1], [1.2, 0.0], 0.9, costs=[0.0, 1.1]) == ([0], [1, 1], True)


def test_cost_floor_prunes_unsure_and_low_predictions():
    costs = [0.0, 1.5, 1.5, 0.9]  # 1.5 > 1 cannot be paid, 0.9 can
    mean, sigma = [0.0, 0.0, 1.2, 0.0], [0.0, 0.0, 9.0, 9.0]
    assert prune_second(LETTER, mean, sigma, 0.9, costs=costs) == ([0, 1, 2, 3], [0, 0, 0, 0], False)
    floored = dataclasses.replace(LETTER, cost_floor=True)
    assert prune_second(floored, mean, sigma, 0.9, costs=costs) == ([0, 3], [0, 1, 1, 0], False)


def test_cost_floor_is_not_lowered_by_the_tolerance():
    floored = dataclasses.replace(LETTER, cost_floor=True, tolerance=0.5)
    # The floor 1.1 > 1 prunes; the prediction 1.4 alone, lowered to 0.9, does not.
    assert prune_second(floored, [0.0, 1.1, 1.4], 0.0, 0.9, costs=[0.0, 1.1, 0.0]) == ([0, 2], [0, 1, 0], False)


def test_rounding_does_not_prune():
    assert 0.1 + 0.5 * 0.4 > 0.3
    floored = dataclasses.replace(LETTER, cost_floor=True)
    opened = prune_second(floored, [0.0, 0.0], 0.0, 0.3, path=0.1, costs=[0.4, 0.41])
    assert opened == ([0], [0, 1], False)


def test_rounding_does_not_stop_a_thrifty_rollout():
    """The second step costs 0.4, in the root's units 0.2, and brings the total to the budget but for rounding.

    The other way costs a little less and earns nothing: it is taken where the first cannot be afforded.
    """
    model = corridor([0.1], [[0.4], [0.39]])
    model.params.rewards[:] = 1.0
    model.params.rewards[1, 1] = 0.0
    search = dataclasses.replace(SEARCH, thrifty_rollouts=True)
    values = {0.3: set(), 0.29: set()}
    for budget in values:
        for seed in range(10):
            decision = PenalizedMCTS(model, 0.0, search).plan([0.0, 0.0], budget, iterations=2, rng=seed)
            values[budget].add(float(decision.reward_values[decision.action]))
    assert values == {0.3: {1.5, 1.0}, 0.29: {1.0}}


def test_nothing_safe_keeps_the_lowest_mean():
    # Action 2 has the lowest mean. All are unsafe: Q > -0.2 for C_path = 0.4 over a budget of 0.3.
    opened = prune_second(LETTER, [1.2, 1.1, 1.0], [0.0, 0.1, 0.4], 0.3)
    assert opened == ([2], [1, 1, 1], True)


def test_nothing_safe_keeps_the_lowest_pessimistic_total():
    pessimistic = dataclasses.replace(LETTER, fallback="lowest_pessimistic")
    # mean + sigma: 1.2, 1.3, 1.4
    assert prune_second(pessimistic, [1.2, 1.1, 1.0], [0.0, 0.2, 0.4], 0.3) == ([0], [1, 1, 1], True)


def test_the_pessimistic_total_is_floored():
    pessimistic = dataclasses.replace(LETTER, fallback="lowest_pessimistic", cost_floor=True)
    # max(mean + sigma, floor): 1.2, 1.5, 1.4. Without the floor action 1 would be the best.
    opened = prune_second(pessimistic, [1.2, 0.9, 1.0], [0.0, 0.1, 0.4], 0.3, costs=[0.0, 1.5, 0.0])
    assert opened == ([0], [1, 1, 1], True)


def test_equals_are_all_kept_by_the_fallback():
    assert prune_second(LETTER, [1.0, 1.5, 1.0], 0.0, 0.3) == ([0, 2], [1, 1, 1], True)


def test_any_constraint_can_prune():
    # Bounds with gamma = 0.5 and C_path = 0.4: Q_0 > 1 and Q_1 > 0.2.
    mean = [[0.9, 0.1], [1.1, 0.1], [0.9, 0.3], [1.1, 0.3]]
    assert prune_second(LETTER, mean, 0.0, [0.9, 0.5]) == ([0], [0, 1, 2, 3], False)


def test_a_constraint_can_be_trusted_while_another_is_not():
    mean = [[0.0, 0.0], [1.1, 0.3], [1.1, 0.3]]
    sigma = [[0.0, 0.0], [0.9, 0.0], [0.0, 0.9]]
    assert prune_second(LETTER, mean, sigma, [0.9, 0.5]) == ([0], [0, 2, 1], False)


def test_the_fallback_looks_at_the_worst_constraint():
    # Overruns 0.4 + 0.5 Q - b with b = (0, 0.2): (0.5, 0.5) -> 0.65, (0.9, 0.1) -> 0.85, (0.2, 1.0) -> 0.7.
    mean = [[0.5, 0.5], [0.9, 0.1], [0.2, 1.0]]
    assert prune_second(LETTER, mean, 0.0, [0.0, 0.2]) == ([0], [3, 3, 3], True)


def test_sampled_costs_give_the_same_floor_when_costs_are_certain():
    model = corridor([0.4], [[0.0], [1.5]])
    nothing = lookup_critic(model, np.zeros((3, 2)), np.zeros((3, 2)))
    planner = CMCTS(model, nothing, SEARCH, dataclasses.replace(LETTER, cost_floor=True))
    session = planner.session()
    assert session.rules.has_expected_costs
    session.rules = session.rules._replace(has_expected_costs=False, cost_samples=3)
    session.begin(np.zeros(2), np.array([0.9]), np.zeros(1), stream(0), 50)
    session.run(40)
    assert session.tree.pruned_by[1].tolist() == [0, 1]


def test_costs_are_sampled_for_models_that_do_not_say_them():
    model = corridor([0.4], [[0.0], [1.5]])
    silent = dataclasses.replace(model, expected_costs=no_expected_costs)
    critic = lookup_critic(model, np.zeros((3, 2)), np.zeros((3, 2)))
    assert not CMCTS(silent, critic).session().rules.has_expected_costs


def root_decision(settings, mean, sigma, budget, costs):
    """Decide on a square where the actions cost `costs` at once."""
    costs = np.asarray(costs, np.float64).reshape(len(mean), -1)
    model = corridor(np.zeros(costs.shape[1]), costs)
    rows, sigmas = np.zeros((3, costs.size)), np.zeros((3, costs.size))
    rows[1], sigmas[1] = np.asarray(mean).ravel(), np.asarray(sigma).ravel()
    return CMCTS(model, lookup_critic(model, rows, sigmas), SEARCH, settings).plan([0.0, 1.0], budget, iterations=30)


def test_the_decision_says_why():
    settings = PruningSettings(sigma_max=0.5, tolerance=0.05, unsure="floor")
    mean, sigma = [0.2, 1.234, 0.9, 0.9, 0.53], [0.0, 0.125, 0.7, 0.1, 0.0]
    decision = root_decision(settings, mean, sigma, 0.5, [0.0, 0.0, 0.75, 0.0, 0.75])
    assert decision.pruned.tolist() == [False, True, True, True, True]
    assert decision.pruned_by.tolist() == [[False], [True], [True], [True], [True]]
    assert [decision.reason(action) for action in range(5)] == [
        "",
        "critic predicts 1.234 ± 0.12, 0.5 left",
        "immediate cost exceeds the 0.5 left",
        "critic predicts 0.9 ± 0.1, 0.5 left",
        "immediate cost exceeds the 0.5 left",  # 0.53 is within the tolerance
    ]
    assert decision.action == 0
    assert not decision.nothing_safe
    assert decision.visits.tolist() == [29, 0, 0, 0, 0]
    assert decision.critic_mean[:, 0].tolist() == pytest.approx(mean)
    assert decision.critic_sigma[:, 0].tolist() == pytest.approx(sigma)


def test_the_decision_says_that_the_critic_was_unsure():
    decision = root_decision(PruningSettings(tolerance=0.05), [0.2, 0.125], [0.0, 0.75], 0.5, [0.0, 0.0])
    assert decision.reason(1) == "critic is unsure, 0.12 ± 0.75"
    assert [decision.refusal(action) for action in range(2)] == [None, "unsure"]


@pytest.mark.parametrize(
    ("mean", "sigma", "left", "assurance"),
    [
        (0.25, 0.1, 0.5, "clear"),
        (0.46, 0.1, 0.5, "close"),  # within the tolerance of what is left
        (0.53, 0.1, 0.5, "close"),  # kept by the tolerance alone
        (0.56, 0.1, 0.5, "none"),
        (0.02, 0.1, 0.0, "clear"),  # free
        (0.03, 0.1, 0.0, "close"),
        (0.25, 0.6, 0.5, "none"),
    ],
)
@pytest.mark.parametrize("unsure", ["refuse", "floor"])
def test_the_decision_says_how_sure_the_critic_is(mean, sigma, left, assurance, unsure):
    decision = root_decision(PruningSettings(tolerance=0.05, unsure=unsure), [mean], [sigma], left, [0.0])
    assert decision.assurance == assurance
    assert decision.to_dict()["assurance"] == assurance


def test_nothing_is_assured_where_nothing_is_pruned():
    model = corridor([0.0], [[0.0], [0.0]])
    assert PenalizedMCTS(model, 1.0, SEARCH).plan([0.0, 0.0], 1.0, iterations=5).assurance is None


def test_the_decision_names_the_constraint():
    mean = [[0.0, 0.0], [0.2, 2.0], [0.2, 0.0], [1.5, 2.0]]
    costs = [[0.0, 0.0], [0.0, 0.0], [0.0, 0.6], [0.0, 0.0]]
    decision = root_decision(PruningSettings(), mean, np.zeros((4, 2)), [1.0, 0.3], costs)
    assert decision.pruned_by.tolist() == [[False, False], [False, True], [False, True], [True, True]]
    assert decision.reason(1) == "cost 1: critic predicts 2 ± 0, 0.3 left"
    assert decision.reason(2) == "cost 1: immediate cost exceeds the 0.3 left"
    assert decision.reason(3) == "cost 0: critic predicts 1.5 ± 0, 1 left; cost 1: critic predicts 2 ± 0, 0.3 left"


def test_the_decision_reports_that_nothing_was_safe():
    decision = root_decision(PruningSettings(), [2.0, 1.5, 3.0], np.zeros(3), 1.0, np.zeros(3))
    assert decision.nothing_safe
    assert decision.action == 1
    assert decision.pruned.tolist() == [True, True, True]
    assert decision.reason(1) == "critic predicts 1.5 ± 0, 1 left"
    strict = PruningSettings(tolerance=0.0)
    close = dataclasses.replace(decision, critic_mean=decision.critic_mean - 0.49998, pruning=strict)
    assert close.reason(1) == "critic predicts 1.00002 ± 0, 1 left", "the digits that decide are shown"
    assert decision.visits.tolist() == [0, 29, 0]
    assert decision.to_dict()["nothing_safe"] is True
    assert [row["pruned"] for row in decision.to_dict()["actions"]] == [True, True, True]


def test_illegal_actions_have_their_own_reason():
    model = corridor([0.0], [[0.0], [0.0]])
    model.params.legal[0, 1] = False
    decision = CMCTS(model, lookup_critic(model, np.zeros((3, 2)), np.zeros((3, 2)))).plan(
        [0.0, 0.0], 1.0, iterations=5
    )
    assert decision.reason(1) == "illegal"
    assert decision.legal.tolist() == [True, False]
    assert [row["action"] for row in decision.to_dict()["actions"]] == [0]


def test_pruned_actions_are_never_searched_below_the_root():
    model = corridor([0.4], np.zeros((3, 1)))
    critic = lookup_critic(model, [[0, 0, 0], [0, 5, 0], [0, 0, 0]], np.zeros((3, 3)))
    tree = CMCTS(model, critic, SEARCH).plan([0.0, 0.0], 1.0, iterations=100, keep_tree=True).tree
    inner = [node for node in range(int(tree.count[0])) if tree.expanded[node] and tree.depth[node] == 1]
    assert len(inner) == 3  # one for each action from the root
    for node in inner:
        assert tree.action_visits[node, 1] == PRUNED
        assert tree.action_visits[node, [0, 2]].min() > 0
    assert tree.action_visits[ROOT].min() > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma_max": -0.1}, "expected sigma_max >= 0, got -0.1"),
        ({"sigma_max": math.nan}, "expected sigma_max >= 0, got nan"),
        ({"tolerance": -1.0}, "expected tolerance >= 0 and finite, got -1.0"),
        ({"tolerance": math.inf}, "expected tolerance >= 0 and finite, got inf"),
        ({"unsure": "any"}, 'expected unsure to be "refuse" or "floor", got \'any\''),
        ({"fallback": "any"}, r"expected fallback to be one of \('lowest_pessimistic', 'lowest_mean'\), got 'any'"),
    ],
)
def test_bad_settings_are_refused(change, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        PruningSettings(**change)


def test_the_papers_settings():
    paper = PruningSettings.paper(sigma_max=0.2)
    expected = {"sigma_max": 0.2, "tolerance": 0.05, "cost_floor": False, "unsure": "floor", "fallback": "lowest_mean"}
    assert paper == PruningSettings(**expected)
    assert PruningSettings().unsure == "refuse"
    assert PruningSettings().cost_floor
    assert PruningSettings().fallback == "lowest_pessimistic"
