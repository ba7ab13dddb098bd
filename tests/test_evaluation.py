"""Episodes and their summary, on a world whose returns are known."""

import json

import numpy as np
import pytest

from cmcts.critic.ensemble import immediate_costs_only
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import Episodes, run_episodes, world_seed
from cmcts.planning.planners import CMCTS
from cmcts.tasks.registry import make

TASK = make("rocksample-3-2")


def planner():
    return CMCTS(TASK.model, immediate_costs_only(TASK.model), TASK.search)


def episodes(**changes):
    columns = {
        "budget": np.array([1.0]),
        "rewards": np.array([10.0, 12.0, 14.0, 8.0]),
        "costs": np.array([[0.5], [1.0], [1.5], [0.0]]),
        "total_rewards": np.array([10.0, 20.0, 20.0, 10.0]),
        "total_costs": np.array([[1.0], [1.0], [2.0], [0.0]]),
        "steps": np.array([5, 5, 5, 5]),
        "peak_depths": np.array([4, 6, 8, 6]),
        "nothing_safe": np.array([0, 1, 0, 0]),
        "planning_seconds": np.array([0.01, 0.01, 0.01, 0.01]),
    }
    return Episodes(**(columns | changes))


def test_summary_by_hand():
    summary = episodes().summary()
    assert summary.reward_mean == 11.0
    assert summary.reward_se == pytest.approx(np.sqrt((1 + 1 + 9 + 9) / 3 / 4))
    assert (summary.cost_mean, summary.violations, summary.violation_rate) == (0.75, 1, 0.25)
    assert summary.nothing_safe_rate == pytest.approx(1 / 20)
    assert summary.decision_ms == pytest.approx(2.0)
    assert summary.peak_depth_mean == 6.0


def test_a_summary_as_json_keeps_its_names():
    """They are what `cmcts evaluate --json` prints and what a reproduction's records hold."""
    printed = json.loads(json.dumps(episodes().summary().to_dict()))
    assert list(printed) == [
        "episodes", "reward_mean", "reward_se", "reward_interval", "total_reward_mean", "cost_mean", "cost_se",
        "cost_interval", "cost_means", "cost_ses", "cost_intervals", "cost_violations", "total_cost_means",
        "violation_rate", "violation_interval", "violations", "steps_mean", "peak_depth_mean", "decision_ms",
        "nothing_safe_rate",
    ]  # fmt: skip
    assert printed["cost_intervals"] == [printed["cost_interval"]]
    assert printed["violation_interval"] == pytest.approx([0.0063094632, 0.8058796109])


def test_a_cost_equal_to_the_budget_but_for_rounding_is_within_it():
    assert not episodes(costs=np.full((4, 1), 1.0 + 1e-12)).violations.any()


def test_several_constraints_report_the_worst():
    both = episodes(budget=np.array([1.0, 0.1]), costs=np.array([[0.5, 0.2]] * 4))
    assert both.violations.all()
    assert both.summary().cost_mean == pytest.approx(0.2)
    assert both.summary().cost_means == pytest.approx([0.5, 0.2])


def test_episodes_depend_on_seed_and_number_alone():
    together, steps = run_episodes(planner(), TASK.real_world, 1.0, episodes=6, seed=3, iterations=24)
    alone, _ = run_episodes(planner(), TASK.real_world, 1.0, episodes=2, seed=3, iterations=24, first_episode=4)
    single, _ = run_episodes(planner(), TASK.real_world, 1.0, episodes=6, seed=3, iterations=24, threads=1, lockstep=2)
    np.testing.assert_array_equal(together.rewards[4:], alone.rewards)
    np.testing.assert_array_equal(together.rewards, single.rewards)
    np.testing.assert_array_equal(together.costs, single.costs)
    assert len(steps) == together.steps.sum()
    assert world_seed(3, 0) != world_seed(4, 0) != world_seed(3, 1)


def test_discounted_sums_match_the_transitions():
    done, steps = run_episodes(planner(), TASK.real_world, 1.0, episodes=3, seed=1, iterations=24)
    begin = 0
    for index, length in enumerate(done.steps):
        weights = 0.95 ** np.arange(length)
        assert done.rewards[index] == pytest.approx(weights @ steps.rewards[begin : begin + length])
        assert done.costs[index, 0] == pytest.approx(weights @ steps.costs[begin : begin + length, 0])
        begin += length


def test_truncated_episodes_carry_the_action_that_would_have_followed():
    def short_world():
        return TASK.real_world(max_steps=1)

    done, steps = run_episodes(planner(), short_world, 1.0, episodes=3, seed=0, iterations=24)
    assert done.steps.tolist() == [1, 1, 1]
    assert not steps.terminal.any() and steps.last.all()
    assert (steps.next_actions >= 0).all()


def test_random_actions_are_legal_and_charged():
    done, steps = run_episodes(planner(), TASK.real_world, 1.0, episodes=8, seed=0, iterations=24, random_actions=0.9)
    for state, action in zip(steps.states, steps.actions, strict=True):
        assert action in TASK.model.legal(state)
    assert steps.costs.sum() == (steps.actions >= 5).sum() > 8  # random measurements exceed what a planner would buy
    assert done.violations.any()


def test_intervals_by_hand():
    summary = episodes().summary()
    reach = 3.182446305284263 * summary.reward_se  # Student's t with 3 degrees of freedom
    assert summary.reward_interval == pytest.approx([11.0 - reach, 11.0 + reach])
    assert summary.violation_interval == pytest.approx([0.0063094632, 0.8058796109])  # exact, 1 of 4
    single, _ = run_episodes(planner(), TASK.real_world, 1.0, episodes=1, seed=0, iterations=4)
    assert single.summary().reward_interval is None


def test_a_table_has_a_row_an_episode():
    columns = episodes().columns()
    assert columns["reward"].tolist() == [10.0, 12.0, 14.0, 8.0]
    assert columns["over_budget"].tolist() == [0, 0, 1, 0]


def test_trajectories_have_a_row_a_step():
    done, steps = run_episodes(planner(), TASK.real_world, 1.0, episodes=3, seed=1, iterations=24)
    columns = steps.columns()
    assert np.bincount(columns["episode"]).tolist() == done.steps.tolist()
    assert columns["step"].tolist() == [k for length in done.steps for k in range(length)]
    assert np.bincount(columns["episode"], columns["cost_0"]).tolist() == done.total_costs[:, 0].tolist()


def test_a_world_without_costs_is_refused():
    class Free:
        def __init__(self):
            self.world = TASK.real_world()

        def reset(self, seed=None):
            return self.world.reset(seed=seed)

        def step(self, action):
            return *self.world.step(action)[:4], {}

        def close(self):
            pass

    with pytest.raises(InvalidInput, match=r'expected the world to report info\["cost"\]'):
        run_episodes(planner(), Free, 1.0, episodes=1, seed=0, iterations=4)
    with pytest.raises(InvalidInput, match="expected episodes >= 1, got 0"):
        run_episodes(planner(), TASK.real_world, 1.0, episodes=0, seed=0)
