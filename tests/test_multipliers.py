"""The three rules for lambda, on numbers worked out by hand."""

import numpy as np
import pytest

from cmcts.errors import InvalidInput
from cmcts.tasks.registry import make
from cmcts.training.multipliers import Measurement, MultiplierSettings, next_multipliers
from cmcts.training.paper import paper_settings

BUDGET = np.array([1.0])


def measured(*rows):
    return [Measurement(np.array([lam]), np.array([cost]), np.array([0.05])) for lam, cost in rows]


def test_paper_rule_moves_by_the_gap_over_k():
    settings = MultiplierSettings(rule="paper", alpha0=8.0, initial=0.0)
    first, _ = next_multipliers(measured((0.0, 7.0)), BUDGET, settings)
    assert first[0] == pytest.approx(0.0 + 8.0 / 1 * (7.0 - 1.0))
    second, _ = next_multipliers(measured((0.0, 7.0), (48.0, 0.2)), BUDGET, settings)
    assert second[0] == pytest.approx(48.0 + 8.0 / 2 * (0.2 - 1.0))


def test_sign_rule_moves_by_a_shrinking_step():
    settings = MultiplierSettings(rule="sign", alpha0=4.0)
    moved, _ = next_multipliers(measured((1.0, 7.0), (5.0, 0.2)), BUDGET, settings)
    assert moved[0] == pytest.approx(5.0 - 4.0 / 2)


def test_bracket_expands_then_bisects():
    settings = MultiplierSettings(rule="bracket", initial=1.0)
    assert next_multipliers([], BUDGET, settings)[0] == [1.0]
    assert next_multipliers(measured((1.0, 7.0)), BUDGET, settings)[0] == [4.0]
    assert next_multipliers(measured((1.0, 7.0), (4.0, 0.5)), BUDGET, settings)[0] == [2.5]
    assert next_multipliers(measured((1.0, 0.2)), BUDGET, settings)[0] == [0.25]


def test_stops_within_epsilon_below_the_budget_and_not_above_it():
    settings = MultiplierSettings(epsilon=0.1)
    assert next_multipliers(measured((1.0, 0.95)), BUDGET, settings)[1] == "cost within epsilon of the budget"
    assert next_multipliers(measured((1.0, 1.01)), BUDGET, settings)[1] == ""
    assert next_multipliers(measured((1.0, 0.85)), BUDGET, settings)[1] == ""


def test_stops_when_the_multiplier_has_no_effect():
    settings = MultiplierSettings(max_updates=10)
    past = measured((1.0, 1.30), (4.0, 1.32), (16.0, 1.29))
    assert next_multipliers(past, BUDGET, settings)[1] == "the multiplier has no effect"
    falling = measured((1.0, 3.0), (4.0, 2.0), (16.0, 1.5))
    assert next_multipliers(falling, BUDGET, settings)[1] == ""


def test_stops_at_the_maximum_and_at_zero():
    settings = MultiplierSettings(maximum=4.0, rule="paper", alpha0=100.0)
    assert next_multipliers(measured((4.0, 5.0)), BUDGET, settings)[1] == "maximum multiplier"
    idle = MultiplierSettings(rule="bracket")
    assert next_multipliers(measured((0.0, 0.2)), BUDGET, idle)[1] == "the multiplier has no effect"


def test_constraints_move_independently():
    past = [Measurement(np.array([1.0, 1.0]), np.array([7.0, 0.45]), np.array([0.1, 0.1]))]
    moved, stop = next_multipliers(past, np.array([1.0, 0.5]), MultiplierSettings(epsilon=0.1))
    assert stop == ""
    assert moved.tolist() == [4.0, 1.0]  # the second one is where it should be


def test_settings_are_validated():
    with pytest.raises(InvalidInput, match="expected alpha0 > 0, got 0"):
        MultiplierSettings(alpha0=0)


def test_measurements_in_the_wrong_order_do_not_repeat_one_midpoint():
    """Noise says that 1 is enough and 4 is too low: the middle, 2.5, must not be tried for ever."""
    settings = MultiplierSettings(rule="bracket", max_updates=20)
    costs = {1.0: 0.8, 4.0: 1.1}  # what comes next is over the budget below 0.7 and within it above
    past = measured(*costs.items())
    tried = []
    for _ in range(6):
        moved, stop = next_multipliers(past, BUDGET, settings)
        assert not stop
        tried.append(float(moved[0]))
        past += measured((tried[-1], 1.5 if tried[-1] < 0.7 else 0.8))
    assert len(set(tried)) == len(tried), tried
    assert abs(tried[-1] - 0.7) < 0.1


def test_the_papers_settings_search_long_enough_for_epsilon_to_act():
    settings = paper_settings(make("rocksample-7-8")).multiplier
    assert settings.max_updates == 50
    assert next_multipliers(measured(*[(8.0, 0.0)] * 49), BUDGET, settings)[1] == ""
    assert next_multipliers(measured(*[(8.0, 0.0)] * 50), BUDGET, settings)[1] == "50 multipliers tried"
