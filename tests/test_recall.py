"""Decisions that are remembered while episodes are played."""

import numpy as np
import pytest

from cmcts.evaluation.episodes import run_episodes
from cmcts.evaluation.tabulated import exact_values
from cmcts.exact.random_problems import random_problem
from cmcts.planning.planners import PenalizedMCTS
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make

PROBLEM, TASK = random_problem(3, "absorbing"), make("random-absorbing-3")


class CountingMCTS(PenalizedMCTS):
    planned = 0

    def plan_batch(self, states, *arguments, **options):
        self.planned += len(states)
        return super().plan_batch(states, *arguments, **options)


def planner():
    search = SearchSettings(discount=PROBLEM.discount, iterations=64, horizon=40)
    return CountingMCTS(TASK.model, 1.0, search)


def played(planner, **options):
    return run_episodes(planner, TASK.training_world, TASK.budget, **{"episodes": 60, "seed": 2, **options})[0]


def test_a_state_is_planned_for_as_often_as_there_are_plans_and_no_more():
    one = planner()
    episodes = played(one, plans_a_state=3)
    assert one.planned <= 3 * PROBLEM.cmdp.states.shape[0] < episodes.steps.sum()


def test_neither_threads_nor_lockstep_have_a_say():
    one = played(planner(), plans_a_state=3)
    other = played(planner(), plans_a_state=3, threads=1, lockstep=7)
    assert np.array_equal(one.rewards, other.rewards) and np.array_equal(one.costs, other.costs)


def test_episodes_that_remember_are_those_of_the_same_policy():
    exact = exact_values(planner(), PROBLEM.cmdp, seeds=200)
    episodes = played(planner(), plans_a_state=200, episodes=1000)
    assert episodes.rewards.mean() == pytest.approx(exact.reward, abs=4 * episodes.summary().reward_se)
    assert episodes.costs.mean() == pytest.approx(float(exact.costs[0]), abs=4 * episodes.summary().cost_se)
