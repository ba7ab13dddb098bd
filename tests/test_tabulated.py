"""Planners on finite problems, judged without noise."""

from __future__ import annotations

import numpy as np
import pytest

from cmcts.critic.ensemble import immediate_costs_only
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import run_episodes
from cmcts.evaluation.statistics import standard_error
from cmcts.evaluation.tabulated import exact_values, judged, tabulated
from cmcts.exact.random_problems import random_problem
from cmcts.model.worlds import world_of
from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings

PROBLEM = random_problem(3, "absorbing")
SEARCH = SearchSettings(discount=0.9, exploration=1.0, horizon=12, iterations=16)


def test_a_planner_s_decisions_in_every_state_say_what_its_episodes_say():
    planner = PenalizedMCTS(PROBLEM.model, 1.0, SEARCH)
    values = exact_values(planner, PROBLEM.cmdp, seeds=150)
    done, _ = run_episodes(planner, lambda: world_of(PROBLEM.model), 1.0, episodes=400, seed=2)
    for exact, seen in ((values.reward, done.rewards), (values.costs[0], done.costs[:, 0])):
        assert abs(exact - seen.mean()) <= 4.0 * standard_error(seen)


def test_shares_are_those_of_the_decisions():
    planner = PenalizedMCTS(PROBLEM.model, 1.0, SEARCH)
    shares = tabulated(planner, PROBLEM.cmdp, seeds=8)
    np.testing.assert_allclose(np.add.reduceat(shares, PROBLEM.cmdp.first_pair), 1.0)
    assert set(np.round(8 * shares, 9)) <= set(range(9))
    np.testing.assert_array_equal(shares, tabulated(planner, PROBLEM.cmdp, seeds=8))


@pytest.mark.parametrize("kind", ["cmcts", "cc-mcp"])
def test_a_planner_that_remembers_is_refused(kind):
    model = PROBLEM.model
    planner = CCMCP(model, SEARCH) if kind == "cc-mcp" else CMCTS(model, immediate_costs_only(model), SEARCH)
    with pytest.raises(InvalidInput, match=f"decides by the state alone .*got {type(planner).__name__}"):
        tabulated(planner, PROBLEM.cmdp, seeds=2)


def test_who_may_spend_nothing_is_judged_though_it_minds_what_is_left():
    """Of nothing nothing is ever left, so that its episodes earn what its decisions in every state say."""
    problem = random_problem(2, "absorbing")
    planner = CMCTS(problem.model, immediate_costs_only(problem.model), SEARCH)
    units = np.zeros(2)
    found = judged(planner, problem.cmdp, precision=1e-9, units=units, plans=2000, budget=np.zeros(1))
    episodes, _ = run_episodes(planner, lambda: world_of(problem.model), 0.0, episodes=400, seed=1)
    for mean, error, played in zip(found.means, found.errors, (episodes.rewards, episodes.costs[:, 0]), strict=True):
        assert abs(mean - played.mean()) <= 4 * np.hypot(error, played.std() / 20)
    assert episodes.costs.any(), "some must pay what cannot be avoided, and still have nothing left"
    with pytest.raises(InvalidInput, match=r"decides by the state alone .*got CMCTS with budget \[1\.\]"):
        judged(planner, problem.cmdp, precision=0.1, units=units, plans=100, budget=np.ones(1))
    expected = CMCTS(problem.model, planner.critic, SEARCH, PruningSettings(accounting="expected"))
    with pytest.raises(InvalidInput, match=r"got CMCTS with budget \[0\.\]"):
        judged(expected, problem.cmdp, precision=0.1, units=units, plans=100, budget=np.zeros(1))
