"""What columns are worth: by episodes, and by their decisions in every state."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cmcts
from cmcts.critic.columns import ColumnSettings, Sample
from cmcts.errors import InvalidInput
from cmcts.evaluation.tabulated import _shared_out, exact_values, judged
from cmcts.exact.random_problems import random_problem
from cmcts.exact.solver import action_values, evaluate, penalized_values, solve, visits
from cmcts.executors import Here
from cmcts.frontier import generation, measuring
from cmcts.frontier.candidates import Candidate, Candidates, difference
from cmcts.frontier.generation import _Course
from cmcts.frontier.lessons import solved_lessons
from cmcts.frontier.measuring import Measurements
from cmcts.frontier.mixture import Limits
from cmcts.frontier.settings import FrontierSettings
from cmcts.planning.planners import PenalizedMCTS
from cmcts.search.settings import SearchSettings

PROBLEM = random_problem(3, "absorbing")
SEARCH = SearchSettings(discount=0.9, exploration=1.0, horizon=12, iterations=16)
NO_UNITS = np.zeros(2)


class Memory:
    """A recorder that forgets nothing and writes nothing."""

    def __init__(self):
        self.records, self.arrays, self.begun = {}, {}, []

    def stage(self, name, compute):
        if name not in self.records:
            self.records[name] = compute()
        return self.records[name]

    def save(self, name, arrays):
        self.arrays[name] = arrays

    def load(self, name):
        return self.arrays[name]

    def begin(self, phase, total, **figures):
        self.begun.append(phase)

    def advance(self, units):
        pass


class Impostor(gymnasium.Wrapper):
    """A world of the same states, in which everything costs three times as much."""

    def __init__(self, **settings):
        super().__init__(cmcts.make("random-absorbing-3").training_world(**settings))

    def step(self, action):
        state, reward, terminated, truncated, info = self.env.step(action)
        return state, reward, terminated, truncated, {**info, "cost": 3 * np.asarray(info["cost"])}


def measurements(task, recorder=None, **changes):
    settings = FrontierSettings(screening_episodes=20, choosing_episodes=60, confirming_episodes=30)
    return Measurements(task, settings, 5, None, np.ones(1), recorder or Memory(), **changes)


def test_a_policy_s_visits_are_its_value_s_gradient():
    rng = np.random.default_rng(0)
    cmdp = PROBLEM.cmdp
    policy = rng.random(cmdp.pair_count)
    policy /= np.add.reduceat(policy, cmdp.first_pair)[cmdp.pair_state]
    counts = visits(cmdp, policy)
    values = evaluate(cmdp, policy)
    earned = np.add.reduceat(policy * cmdp.rewards, cmdp.first_pair)
    paid = np.add.reduceat(policy * cmdp.costs[:, 0], cmdp.first_pair)
    assert counts[:, 0] @ earned == pytest.approx(values.reward)
    assert counts[:, 1] @ paid == pytest.approx(values.costs[0])


def test_a_planner_is_judged_by_few_plans_as_by_many_and_knows_how_well():
    planner = PenalizedMCTS(PROBLEM.model, 1.0, SEARCH)
    many = exact_values(planner, PROBLEM.cmdp, seeds=4000)
    reference = np.array([many.reward, *many.costs])
    wrong = []
    for seed in range(40):
        few = judged(planner, PROBLEM.cmdp, precision=1e-9, units=NO_UNITS, plans=120, seed=seed + 1)
        assert few.plans <= 120
        np.testing.assert_allclose(np.add.reduceat(few.policy, PROBLEM.cmdp.first_pair), 1.0)
        wrong.append((few.means - reference) / few.errors)
    rms = np.sqrt(np.mean(np.square(wrong), axis=0))
    assert (rms > 0.5).all() and (rms < 1.7).all()


def test_few_plans_a_state_judge_a_policy_as_it_is():
    """One that does the dearer thing in every tenth case is not judged to do so less often."""
    task = cmcts.make("queue")
    world = measuring.listed_world(task)
    legal, costs = world.table(np.ones(world.pair_count)), world.table(world.costs[:, 0])
    thrifty = np.argmin(np.where(legal > 0, costs, np.inf), axis=1)
    chances = 0.1 * legal / legal.sum(axis=1, keepdims=True)
    chances[np.arange(len(legal)), thrifty] += 0.9
    numbers = {state.tobytes(): number for number, state in enumerate(world.states)}

    class Coins(PenalizedMCTS):
        def plan_batch(self, states, budgets, *, rngs, **_):
            points = np.array([np.random.default_rng(seed).random() for seed in rngs])
            upto = np.cumsum(chances[[numbers[state.tobytes()] for state in states]], axis=1)
            return [SimpleNamespace(action=int(action)) for action in (points[:, None] > upto).sum(axis=1)]

    planner, units = Coins(task.model, 1.0, task.search), np.array([0.0, 0.5])
    found = [judged(planner, world, precision=0.0, units=units, plans=4200, seed=seed) for seed in range(4)]
    truth = evaluate(world, world.pairs(chances)).costs[0]
    off = np.mean([result.means[1] for result in found]) - truth
    assert abs(off) < np.mean([result.errors[1] for result in found])


def test_plans_are_made_until_enough_is_known_and_the_same_ones_by_whoever_makes_them():
    planner = PenalizedMCTS(PROBLEM.model, 1.0, SEARCH)
    heard = []
    rough = judged(planner, PROBLEM.cmdp, precision=0.2, units=NO_UNITS, plans=5000, seed=1, on_plans=heard.append)
    fine = judged(planner, PROBLEM.cmdp, precision=0.01, units=NO_UNITS, plans=50_000, seed=1)
    assert rough.plans < fine.plans and (fine.errors <= 0.01 * np.abs(fine.means)).all()
    assert sum(heard) == rough.plans
    again = judged(planner, PROBLEM.cmdp, precision=0.2, units=NO_UNITS, plans=5000, seed=1, executor=Here(1))
    np.testing.assert_array_equal(rough.policy, again.policy)
    with pytest.raises(InvalidInput, match="decides by the state alone"):
        judged(cmcts.CCMCP(PROBLEM.model, SEARCH), PROBLEM.cmdp, precision=0.1, units=NO_UNITS, plans=100)


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0, 10)), min_size=1, max_size=12), st.integers(1, 300))
def test_more_plans_go_where_they_help_most(rows, more):
    plans, weights = np.array([n for n, _ in rows]), np.array([w for _, w in rows])
    extra = _shared_out(plans, weights, more)
    assert (extra >= 0).all() and extra.sum() <= more
    after = plans + extra
    assert more - extra.sum() <= len(rows) or not weights.any(), "all but what rounding leaves"
    got = extra > 0
    if got.any():  # what got some was in more need than what got none, and is in no less need than others that got some
        assert (weights / plans)[got].min() >= (weights / (after + 1))[~got].max(initial=0.0) - 1e-9
        assert (weights / after)[got].min() >= (weights / (after + 1))[got].max() - 1e-9


def test_decisions_in_every_state_say_what_a_column_is_worth():
    task = cmcts.make("random-absorbing-3")
    column = ColumnSettings((1.0,), replace(task.search, iterations=16))
    recorder = Memory()
    measured = measurements(task, recorder)
    sample = measured.screen(0, column)
    assert len(sample) == 60 and sample.known is not None, "the first column plays all its choosing episodes at once"
    exact = exact_values(PenalizedMCTS(task.model, 1.0, column.search), PROBLEM.cmdp, seeds=2000)
    assert abs(sample.reward - exact.reward) <= 5 * sample.errors[0]
    assert abs(sample.means[1] - exact.costs[0]) <= 5 * sample.errors[1]
    fresh = measured.confirm(0, column, 0)
    assert len(fresh) == 30 and (fresh.means != sample.means).any()
    both = fresh.joined(measured.confirm(0, column, 1))
    assert len(both) == 60 and both.errors[1] < fresh.errors[1]
    again = measurements(task, recorder).screen(0, column)
    np.testing.assert_array_equal(again.known, sample.known)


def test_columns_with_a_guard_and_worlds_of_many_states_are_measured_by_episodes():
    task = cmcts.make("random-absorbing-3")
    guarded = ColumnSettings((0.0,), replace(task.search, iterations=16), "immediate", task.budget, task.pruning)
    assert measurements(task).screen(0, guarded).known is None
    saving = measurements(task).screen(1, replace(guarded, budget=(0.0,)))
    assert saving.known is not None, "what may spend nothing has nothing left wherever it is"
    assert abs(saving.reward - saving.rewards.mean()) <= 6 * np.hypot(saving.errors[0], saving.rewards.std() / 4)
    large = cmcts.make("rocksample-5-7")
    recorder = Memory()
    assert (
        measurements(large, recorder).screen(0, ColumnSettings((1.0,), replace(large.search, iterations=4))).known
        is None
    )
    assert recorder.begun == ["screen"]


def test_a_world_that_does_not_do_what_its_model_says_is_measured_by_episodes():
    task = cmcts.make("random-absorbing-3")
    told = replace(task, training_world=Impostor)
    assert told.training_model is task.model
    column = ColumnSettings((0.0,), replace(task.search, iterations=16))
    measured = measurements(told)
    assert measured.screen(0, column).known is None
    assert measured.screen(1, column).known is None, "nor is what it says of later columns believed"


def test_what_the_curve_rises_is_not_what_lies_far_below_it():
    def trial(reward, cost):
        known = np.array([[reward, cost], [0.0, 0.0]])
        return Candidate(ColumnSettings((cost,), SEARCH), Sample(np.zeros(2), np.zeros((2, 1)), known), alive=True)

    rungs = [np.array([budget]) for budget in (0.0, 0.5, 1.0)]
    assert Candidates([trial(2.0, 1.0), trial(1.0, 0.0), trial(-50.0, 0.0)], rungs).rise == pytest.approx(1.0)
    assert Candidates([trial(2.0, 1.0), trial(-50.0, 0.5)], rungs).rise == pytest.approx(52.0), "all there is there"


def test_where_states_are_listed_lessons_are_the_optimum_at_each_price():
    """Whoever takes in every state what leaves most in the next one, by its lesson, earns and pays what they say."""
    cmdp, model, prices = PROBLEM.cmdp, PROBLEM.model, [np.array([0.5]), np.array([2.0])]
    found = solved_lessons(model, cmdp, prices, [0.5])
    features = np.array([model.feature_vector(state) for state in cmdp.states])
    for k, price in enumerate(prices):
        rows = slice(k * cmdp.state_count, (k + 1) * cmdp.state_count)
        inputs, targets = found.inputs[rows], found.targets[rows]
        np.testing.assert_array_equal(inputs[:, :-1], features)
        np.testing.assert_allclose(inputs[:, -1], np.log1p(price[0] / 0.5), rtol=1e-6)
        left = targets[:, 0] - price * targets[:, 1]
        np.testing.assert_allclose(left, penalized_values(cmdp, price)[0], atol=1e-9)
        ahead = action_values(cmdp, cmdp.rewards - cmdp.costs @ price, left)
        greedy = np.bincount(cmdp.best(ahead)[1], minlength=cmdp.pair_count)
        values = evaluate(cmdp, greedy)
        np.testing.assert_allclose(targets, np.column_stack([values.reward_values, values.cost_values]), atol=1e-9)


def test_guarded_columns_read_values_where_these_pay_and_lessons_are_the_optimum(monkeypatch):
    task = replace(cmcts.make("random-absorbing-3"), search=SEARCH)
    asked = []

    def fit(inputs, targets, steps, seed, exact, on_chunk):
        assert exact
        asked.append((inputs, targets))
        layer = np.linalg.lstsq(np.column_stack([inputs, np.ones(len(inputs))]), targets, rcond=None)[0]
        return ((layer[None, :-1].astype(np.float32), layer[None, -1].astype(np.float32)),), 0.5

    monkeypatch.setattr(measuring, "PLANS", 100)
    monkeypatch.setattr(_Course, "leaves_more", lambda course, earlier: True)
    settings = FrontierSettings(columns=60, screening_episodes=20, choosing_episodes=40, confirming_episodes=20)
    course = _Course(Measurements(task, settings, 5, None, np.ones(1), Memory()), None, fit)
    course.run()
    guarded = [trial for trial in course.candidates.tried if trial.settings.guard != "none"]
    assert guarded and all(trial.settings.values for trial in guarded)
    assert any(trial.settings.budget == (0.0,) and trial.sample.known is not None for trial in guarded)
    ((inputs, _),) = asked
    prices = {float(price) for price in np.expm1(inputs[:, -1])}
    own = solve(PROBLEM.cmdp, task.budget).multipliers[0]
    assert 0.0 in prices and min(abs(price - own) for price in prices) < 1e-5 * own
    played = [trial.settings.prices[0] for trial in course.candidates.tried if trial.settings.values]
    assert min(abs(price - own) for price in played) < 0.15 * own


def test_what_is_known_takes_the_place_of_what_episodes_say():
    episodes = Sample(np.array([0.0, 2.0]), np.array([[1.0], [3.0]]))
    known = Sample(episodes.rewards, episodes.costs, np.array([[1.5, 1.0], [0.1, 0.2]]))
    assert (episodes.reward, known.reward) == (1.0, 1.5)
    rows = Limits.of([episodes, known], np.array([2.0]), share=0.5)
    np.testing.assert_allclose(rows.used, [[2.0, 0.5], [1.0, 0.5]])
    np.testing.assert_allclose(rows.errors[:, 0], [1.0, 0.2])
    gain, error = difference([(1.0, known), (-1.0, known)], np.array([2.0]))
    assert gain == 0.0 and error == pytest.approx(np.sqrt(2 * (0.1**2 + 0.4**2)))
    assert difference([(1.0, episodes), (-1.0, episodes)], np.array([2.0])) == (0.0, 0.0)
    one = known.joined(Sample(np.zeros(2), np.zeros((2, 1)), np.array([[0.5, 0.0], [0.1, 0.0]])))
    np.testing.assert_allclose(one.known, [[1.0, 0.5], [np.sqrt(0.005), 0.1]])
    assert known.joined(episodes).known is known.known and len(known.joined(episodes)) == 4


def test_a_column_that_earns_no_more_than_the_mixture_does_not_matter():
    def trial(reward, cost, error=0.001):
        known = np.array([[reward, cost], [error, error]])
        settings = ColumnSettings((cost,), SEARCH)
        return Candidate(settings, Sample(np.zeros(2), np.zeros((2, 1)), known), alive=True)

    candidates = Candidates([trial(2.0, 2.0), trial(0.0, 0.0)], [np.array([1.0])])
    assert candidates.can_matter(trial(1.2, 1.0))
    assert not candidates.can_matter(trial(0.9, 1.0))
    assert candidates.can_matter(trial(0.9, 1.0, error=0.2)), "by luck"
    assert candidates.can_matter(trial(-9.0, 1.0)) is False
    candidates = Candidates([trial(2.0, 2.0), trial(0.0, 0.0), trial(1.0005, 1.0)], [np.array([0.5]), np.array([1.5])])
    assert candidates.thinned([0, 1, 2]) == [0, 1], "the others replace the last"
    candidates = Candidates([trial(2.0, 2.0), trial(0.0, 0.0)], [np.array([2.0])])
    assert candidates.thinned([0, 1]) == [0, 1], "the thriftiest stays, whatever it earns"
    candidates = Candidates([trial(2.0, 2.0), trial(-0.001, 0.0), trial(0.0, 0.0)], [np.array([2.0])])
    assert candidates.thinned([0, 1, 2]) == [0, 2], "and of equally thrifty ones, what earns most"


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (np.zeros((2, 3)), r"known means and errors of shape \(2, 2\)"),
        (np.array([[0.0, np.nan], [0.0, 0.0]]), "known means that are finite"),
        (np.array([[0.0, -1.0], [0.0, 0.0]]), "costs >= 0"),
        (np.array([[0.0, 1.0], [0.0, -1.0]]), "errors >= 0"),
    ],
)
def test_what_is_known_is_checked(known, message):
    with pytest.raises(InvalidInput, match=message):
        Sample(np.zeros(2), np.zeros((2, 1)), known)


def test_the_optimum_is_known_where_the_states_can_be_listed():
    measured = measurements(cmcts.make("random-absorbing-3"))
    assert measured.optimum(PROBLEM.budget) == pytest.approx(PROBLEM.solution.reward)
    costly = measurements(cmcts.make("random-dense-4"))
    assert costly.optimum(np.full(1, 1.9)) == -np.inf, "2.0 cannot be avoided"
    assert measurements(cmcts.make("rocksample-5-7")).optimum(np.ones(1)) is None, "too many to list"


def course_with(task, *columns, guard=None):
    """A course that has tried columns of some price with some known reward and cost."""
    measured = measurements(task)
    course = generation._Course(measured, guard, None)
    for price, reward, cost in columns:
        sample = Sample(np.full(4, reward), np.full((4, 1), cost))
        course.candidates.tried.append(Candidate(ColumnSettings((price,), course.search), sample, alive=True))
    return course


def test_no_more_columns_are_tried_for_budgets_whose_optimum_is_reached():
    task = cmcts.make("random-absorbing-3")
    budget, optimum = PROBLEM.budget, PROBLEM.solution.reward
    reached = course_with(task, (0.0, optimum, budget[0]), (9.0, optimum - 1.0, 0.0))
    assert reached.short_of_optimum([budget]) == []
    assert len(course_with(task, (0.0, optimum - 0.1, budget[0]), (9.0, optimum - 1.0, 0.0)).near_own()) >= 1
    assert course_with(cmcts.make("rocksample-5-7"), (0.0, 99.0, 1.0)).short_of_optimum([budget]) == [budget], "unknown"


def test_a_frontier_looks_halfway_between_the_program_s_prices_and_those_it_mixes(monkeypatch):
    """From nothing to 2 costs the program asks 3 a unit; the columns were found at 2.3 and 3.2."""
    course = course_with(cmcts.make("rocksample-5-7"), (2.3, 9.0, 2.0), (3.2, 3.0, 0.0))
    tried = []
    monkeypatch.setattr(generation._Course, "add", lambda self, column: tried.append(column.prices[0]))
    course.look_between()
    assert sorted({round(price, 9) for price in tried}) == pytest.approx([np.sqrt(2.3 * 3.0), 3.0]), "3.1 is hardly 3.2"
