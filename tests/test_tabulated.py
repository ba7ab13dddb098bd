"""Planners on finite problems, judged without noise."""

from __future__ import annotations

import numpy as np
import pytest

from cmcts.critic.ensemble import immediate_costs_only
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import run_episodes
from cmcts.evaluation.statistics import standard_error
from cmcts.evaluation.tabulated import exact_values, tabulated
from cmcts.exact.random_problems import random_problem
from cmcts.model.worlds import world_of
from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS
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
