"""Mixtures of measured policies: the program, its margin, the split of the episodes, the draw, and the bundle."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

import cmcts
from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.critic.columns import Column, ColumnSettings, Sample, from_arrays, to_arrays
from cmcts.critic.identity import model_digest
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import run_episodes, world_seed
from cmcts.exact.column_generation import InfeasibleBudget
from cmcts.exact.random_problems import random_problem
from cmcts.exact.solver import evaluate, solve
from cmcts.frontier import BudgetWarning, Frontier, FrontierSettings, Limits, best_mixture, generation
from cmcts.frontier.candidates import Candidate, Candidates
from cmcts.frontier.ladder import between, ladder, lifted
from cmcts.random import stream
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings

PROBLEM = random_problem(3, "absorbing")
SEARCH = SearchSettings(discount=0.9, exploration=1.0, horizon=12, iterations=16)


def exact_policies(cmdp):
    """Reward and costs of every deterministic policy."""
    choices = [
        range(begin, end) for begin, end in zip(cmdp.first_pair, [*cmdp.first_pair[1:], cmdp.pair_count], strict=True)
    ]
    values = []
    for pairs in itertools.product(*choices):
        policy = np.zeros(cmdp.pair_count)
        policy[list(pairs)] = 1.0
        values.append(evaluate(cmdp, policy))
    return np.array([value.reward for value in values]), np.array([value.costs for value in values])


def known(costs, budget):
    """The rows of policies whose costs [K, M] are known exactly."""
    return Limits(costs, np.zeros_like(costs), 2, np.asarray(budget))


@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from(["dense", "sparse", "absorbing"]))
def test_exact_columns_give_the_exact_optimum(seed, constraints, kind):
    """All deterministic policies of a problem, mixed by the program, are as good as its best randomised policy."""
    problem = random_problem(seed, kind, states=4, actions=2, constraints=constraints)
    rewards, costs = exact_policies(problem.cmdp)
    mixed = best_mixture(rewards, known(costs, problem.budget), confidence=None)
    best = solve(problem.cmdp, problem.budget)
    assert mixed.weights @ rewards == pytest.approx(best.reward, abs=1e-6)
    assert (mixed.weights @ costs <= problem.budget + 1e-8).all()
    assert (mixed.weights > 1e-9).sum() <= constraints + 1
    slack = problem.budget - mixed.weights @ costs
    assert mixed.prices @ slack == pytest.approx(0.0, abs=1e-5), "what is left over has no price"


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_more_budget_never_earns_less(seed, constraints):
    problem = random_problem(seed, "sparse", states=4, actions=2, constraints=constraints)
    rewards, costs = exact_policies(problem.cmdp)
    values = []
    for factor in (1.0, 1.1, 1.5, 3.0):
        rows = known(costs, factor * problem.budget)
        values.append(best_mixture(rewards, rows, confidence=None).weights @ rewards)
    assert (np.diff(values) >= -1e-7).all()


def test_a_budget_below_all_costs_names_the_least_that_can_be_kept():
    varied = 0.3 + np.linspace(0.0, 0.2, 50)
    samples = [steady(1.0, 0.3), Sample(np.ones(50), varied[:, None])]
    with pytest.raises(InfeasibleBudget, match=r"got \[0.2\]: each limit by itself needs at least 0.3") as caught:
        best_mixture(np.ones(2), Limits.of(samples, np.array([0.2])))
    assert caught.value.least == pytest.approx([0.3])


def test_limits_that_can_be_kept_one_by_one_and_not_together_are_refused():
    with pytest.raises(InfeasibleBudget):
        best_mixture(np.ones(2), known(np.array([[0.0, 1.0], [1.0, 0.0]]), [0.4, 0.4]))


def test_the_margin_keeps_the_upper_bound_of_the_mixture_within_the_budget():
    """Two columns that were played more often or less, so that their errors differ too."""
    rng = np.random.default_rng(0)
    samples = [
        Sample(rng.normal(reward, 1.0, episodes), rng.gamma(2.0, scale, (episodes, 1)))
        for reward, scale, episodes in ((1.0, 0.05, 100), (3.0, 0.5, 400))
    ]
    rewards, budget = np.array([sample.rewards.mean() for sample in samples]), np.array([0.8])
    rows = Limits.of(samples, budget)
    w = best_mixture(rewards, rows).weights
    variance = sum(w[k] ** 2 * samples[k].costs.var(ddof=1) / len(samples[k]) for k in range(2))
    bound = w @ [sample.costs.mean() for sample in samples] + t.ppf(0.95, 99) * np.sqrt(variance)
    assert 0.99 * 0.8 <= bound <= 0.8 + 1e-9, "kept, and no more is left unspent than the bound asks for"
    believed = best_mixture(rewards, rows, confidence=None)
    assert believed.weights @ rows.used[:, 0] == pytest.approx(0.8)


def test_the_budget_is_truly_kept_nineteen_times_in_twenty():
    """Ten columns that truly cost what they should, measured with noise: the promise holds at its stated confidence."""
    rng, broken = np.random.default_rng(1), 0
    true_costs = np.linspace(0.2, 2.0, 10)
    true_rewards = np.sqrt(true_costs)
    for _ in range(300):
        chosen, confirmed = (
            [
                Sample(rng.normal(reward, 0.5, 60), rng.exponential(cost, (60, 1)))
                for reward, cost in zip(true_rewards, true_costs, strict=True)
            ]
            for _ in range(2)
        )
        policy = frontier_of(chosen, confirmed).at(1.0)
        kept = [column.settings.prices[0] for column in policy.columns]
        broken += policy.weights @ true_costs[np.array(kept, int)] > 1.0
    assert broken / 300 <= 0.10, "5 % and what a skewed cost adds"


def frontier_of(chosen, confirmed):
    """A frontier of columns whose price is their number."""
    columns = [
        Column(ColumnSettings((float(k),), SEARCH), one, other)
        for k, (one, other) in enumerate(zip(chosen, confirmed, strict=True))
    ]
    return Frontier(PROBLEM.model, tuple(columns), tuple(PROBLEM.budget.tolist()))


def steady(reward, cost, episodes=40):
    return Sample(np.full(episodes, reward), np.full((episodes, 1), cost))


def test_a_column_whose_cost_was_underestimated_is_mixed_by_what_fresh_episodes_say():
    chosen = [steady(0.0, 0.0), steady(10.0, 0.5)]
    confirmed = [steady(0.0, 0.0), steady(9.0, 1.0)]
    policy = frontier_of(chosen, confirmed).at(0.5)
    assert policy.weights == pytest.approx([0.5, 0.5]), "not all of the column that looked as if it kept the budget"
    assert policy.cost_means[0] == pytest.approx(0.5)
    assert policy.reward_mean == pytest.approx(4.5), "and only fresh episodes are reported"
    assert policy.prices == pytest.approx([9.0])


def test_another_column_steps_in_where_the_chosen_ones_turn_out_too_dear():
    chosen = [steady(1.0, 0.1), steady(5.0, 0.5)]
    confirmed = [steady(1.0, 0.1), steady(5.0, 0.9)]
    policy = frontier_of(chosen, confirmed).at(0.5)
    assert policy.weights == pytest.approx([0.5, 0.5]) and policy.kept


def test_a_chance_is_a_row_more():
    """Half of the risky column's episodes cost 2, the others 0: its mean keeps the budget, half of them do not."""
    risky = Sample(np.full(40, 4.0), np.tile([[0.0], [2.0]], (20, 1)))
    frontier = frontier_of([steady(1.0, 0.0), risky], [steady(1.0, 0.0), risky])
    mean = frontier.at(1.5)
    assert mean.weights == pytest.approx([1.0]) and mean.over_budget == pytest.approx(0.5)
    chance = frontier.at(1.5, keep="chance", share=0.2)
    assert 0.1 < chance.over_budget <= 0.2
    with pytest.raises(InvalidInput, match="a share with keep"):
        frontier.at(1.5, share=0.2)
    with pytest.raises(InvalidInput, match="a share of episodes from 0 to 1, got 2"):
        frontier.at(1.5, keep="chance", share=2)


def test_a_budget_outside_the_measured_range_is_named_and_the_nearest_point_used():
    columns = [steady(1.0, 0.1), steady(5.0, 0.9)]
    frontier = frontier_of(columns, columns)
    with pytest.warns(BudgetWarning, match=r"needs at least 0.1; the thriftiest column"):
        policy = frontier.nearest(0.05)
    assert policy.columns[0].settings.prices == (0.0,) and not policy.kept
    with pytest.warns(BudgetWarning, match=r"at most 0.9, the most that any column spends, got \[2.0\]"):
        assert frontier.nearest(2.0).reward_mean == pytest.approx(5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert frontier.nearest(0.5).kept


@pytest.fixture(scope="module")
def measured():
    """Three columns of a random problem, guarded and not, with the figures of a few real episodes."""
    task = cmcts.make("random-absorbing-3")
    pruning = PruningSettings(tolerance=0.0)
    settings = [
        ColumnSettings((0.0,), SEARCH),
        ColumnSettings((4.0,), SEARCH),
        ColumnSettings((0.0,), SEARCH, "immediate", task.budget, pruning),
    ]
    blank = steady(0.0, 0.0, 2)
    frontier = Frontier(task.model, tuple(Column(column, blank, blank) for column in settings), task.budget)
    columns = []
    for column, planner in zip(settings, frontier.planners, strict=True):
        done, _ = run_episodes(planner, task.training_world, column.budget or task.budget, episodes=40, seed=1)
        sample = Sample(done.rewards, done.costs)
        columns.append(Column(column, sample, sample))
    return task, dataclasses.replace(frontier, columns=tuple(columns))


def test_an_agent_draws_its_column_once_and_keeps_to_it(measured):
    task, frontier = measured
    policy = frontier.at(float(np.mean([c.confirmed.costs.mean() for c in frontier.columns[:2]])))
    assert len(policy.weights) == 2
    drawn = [policy.draw(seed) for seed in range(2000)]
    assert np.bincount(drawn) / 2000 == pytest.approx(policy.weights, abs=0.04)
    agent = policy.agent(rng=7)
    assert agent.planner is policy.planners[policy.draw(7)]
    first = agent.planner
    for _ in range(3):
        agent.act(task.model.start_state())
        agent.observe(0.1)
        assert agent.planner is first and (agent.multipliers == first.initial_multipliers()).all()
    with pytest.raises(InvalidInput, match="expected the column that this episode is played with, from 0 to 1"):
        policy.plan(task.model.start_state())
    decision = policy.plan(task.model.start_state(), column=1, rng=3)
    assert decision.action == policy.planners[1].plan(task.model.start_state(), task.budget, rng=3).action
    with pytest.raises(InvalidInput, match="a column from 0 to 1, got 5"):
        policy.agent(column=5)


def test_a_guarded_column_starts_with_its_own_budget(measured):
    task, frontier = measured
    guarded = dataclasses.replace(frontier, columns=frontier.columns[2:])
    with pytest.warns(BudgetWarning):
        policy = guarded.nearest(100.0)
    assert policy.agent(rng=0).budget == pytest.approx(task.budget)
    assert (policy.agent(rng=0).workers, policy.agent(rng=0, workers=2).workers) == (1, 2)


def test_episodes_of_a_mixture_are_those_of_the_columns_they_drew(measured):
    task, frontier = measured
    policy = frontier.at(float(np.mean([c.confirmed.costs.mean() for c in frontier.columns[:2]])))
    mixed, _ = run_episodes(policy, task.real_world, policy.budget, episodes=30, seed=5)
    again, _ = run_episodes(policy, task.real_world, policy.budget, episodes=30, seed=5, threads=1, lockstep=7)
    np.testing.assert_array_equal(mixed.rewards, again.rewards)
    np.testing.assert_array_equal(mixed.costs, again.costs)
    played = set()
    for episode in range(12):
        agent = policy.agent(rng=stream(np.random.SeedSequence((5, episode), spawn_key=(1,))))
        world = task.real_world()
        state, _ = world.reset(seed=world_seed(5, episode))
        total, scale, over = 0.0, 1.0, False
        while not over:
            state, reward, terminated, truncated, info = world.step(agent.act(state).action)
            agent.observe(info["cost"])
            total, scale, over = total + scale * reward, scale * task.discount, terminated or truncated
        assert total == pytest.approx(mixed.rewards[episode])
        played.add(id(agent.planner))
    assert len(played) == 2


def bundle_of(task, frontier, layers=None):
    return Bundle(
        task=task.name,
        model_digest=model_digest(task.model),
        feature_description="",
        layers=layers,
        cost_count=1,
        search=SEARCH,
        pruning=PruningSettings(),
        budget=task.budget,
        training={},
        library="0",
        columns=frontier.columns,
    )


def test_a_bundle_keeps_columns_and_every_episode(measured, tmp_path):
    task, frontier = measured
    bundles.save(bundle_of(task, frontier), tmp_path)
    loaded = Frontier.load(tmp_path, task.model)
    assert [column.settings for column in loaded.columns] == [column.settings for column in frontier.columns]
    for one, other in zip(loaded.columns, frontier.columns, strict=True):
        np.testing.assert_array_equal(one.chosen.costs, other.chosen.costs)
        np.testing.assert_array_equal(one.confirmed.rewards, other.confirmed.rewards)
        assert one.chosen.known is None
    assert loaded.at(0.5).describe() == frontier.at(0.5).describe()
    content = bytearray((tmp_path / bundles.COLUMNS_FILE).read_bytes())
    content[-1] ^= 1
    (tmp_path / bundles.COLUMNS_FILE).write_bytes(content)
    with pytest.raises(InvalidInput, match=r"columns\.safetensors with digest"):
        bundles.load(tmp_path)


def test_a_bundle_keeps_what_is_known_better_than_by_episodes(measured, tmp_path):
    task, frontier = measured
    first = frontier.columns[0]
    known = dataclasses.replace(first.confirmed, known=np.array([[1.25, 0.5], [0.01, 0.02]]))
    columns = (dataclasses.replace(first, confirmed=known), *frontier.columns[1:])
    bundles.save(bundle_of(task, dataclasses.replace(frontier, columns=columns)), tmp_path)
    loaded = Frontier.load(tmp_path, task.model).columns
    np.testing.assert_array_equal(loaded[0].confirmed.known, known.known)
    assert loaded[0].confirmed.reward == 1.25
    assert loaded[0].chosen.known is None and loaded[1].confirmed.known is None


def test_a_bundle_without_a_frontier_says_so(measured, tmp_path):
    task, frontier = measured
    bundles.save(dataclasses.replace(bundle_of(task, frontier), columns=()), tmp_path)
    with pytest.raises(InvalidInput, match="a bundle with a frontier for task 'random-absorbing-3', got one without"):
        Frontier.load(tmp_path, task.model)
    with pytest.raises(InvalidInput, match="whose model differs"):
        Frontier.of(bundle_of(task, frontier), cmcts.make("random-absorbing-4").model)


def test_a_column_guarded_by_a_critic_needs_one(measured, tmp_path):
    task, frontier = measured
    guarded = ColumnSettings((0.0,), SEARCH, "critic", task.budget, PruningSettings())
    columns = (dataclasses.replace(frontier.columns[0], settings=guarded),)
    with pytest.raises(InvalidInput, match="a safety critic for the column 'critic at"):
        dataclasses.replace(frontier, columns=columns).nearest(100.0)
    bundles.save(bundle_of(task, dataclasses.replace(frontier, columns=columns)), tmp_path)
    with pytest.raises(InvalidInput, match="a critic, which guards a column"):
        bundles.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("chosen.costs.1"), "arrays settings"),
        (lambda arrays: arrays.update({"chosen.costs.1": np.zeros((3, 1))}), "rewards .N. and costs"),
        (lambda arrays: arrays.update({"chosen.costs.1": np.full((40, 1), np.nan)}), "finite and >= 0"),
        (lambda arrays: arrays.update({"chosen.costs.1": np.zeros((40, 2))}), "column 1 of 1 constraints"),
        (lambda arrays: arrays.update({"chosen.costs.1": np.zeros((40, 1), np.float32)}), "in float64"),
        (lambda arrays: arrays.update({"settings": np.frombuffer(b"[", np.uint8)}), "valid JSON"),
        (lambda arrays: arrays.update({"settings": np.frombuffer(b'[{"prices": [1]}]', np.uint8)}), "arrays settings"),
    ],
)
def test_damaged_columns_are_refused_by_name(measured, change, message):
    arrays = to_arrays(measured[1].columns)
    change(arrays)
    with pytest.raises(InvalidInput, match=message):
        from_arrays(arrays, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prices": (-1.0,)}, "prices >= 0"),
        ({"guard": "critic"}, "pruning with a guard"),
        ({"guard": "critic", "pruning": PruningSettings()}, "1 budgets of a column"),
        ({"budget": (1.0,)}, "0 budgets of a column"),
        ({"guard": "luck"}, "guard"),
    ],
)
def test_columns_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        ColumnSettings(**({"prices": (0.0,), "search": SEARCH} | changes))


@pytest.mark.parametrize(
    "changes",
    [{"columns": -1}, {"search_factors": ()}, {"search_factors": (4, 1)}, {"screening_episodes": 1},
     {"screening_episodes": 900}, {"margin": 0.0}],
)  # fmt: skip
def test_settings_of_a_frontier_are_checked(changes):
    with pytest.raises(InvalidInput, match="expected"):
        FrontierSettings(**changes)


def test_the_ladder_spans_from_a_fraction_of_the_budget_to_what_recklessness_costs():
    rungs = [float(row[0]) for row in ladder(np.array([1.0]), np.array([5.0]))]
    assert rungs == sorted(rungs) and 1.0 in rungs
    assert rungs[0] < 0.2 and 2.0 <= rungs[-1] <= 5.0
    assert min(b / a for a, b in itertools.pairwise(rungs)) > 1.1
    assert any(row == pytest.approx([1.0, 7.0]) for row in ladder(np.array([1.0, 2.0]), np.array([5.0, 7.0])))
    assert 0.0 in [float(row[0]) for row in ladder(np.array([0.0]), np.array([1.0]))]


def test_rungs_that_nobody_can_keep_move_above_what_cannot_be_avoided():
    rungs = [np.array([share]) for share in (0.25, 0.5, 1.0, 3.0)]
    moved = lifted(rungs, np.array([1.0]), np.array([0.6]))
    np.testing.assert_allclose(np.concatenate(moved), [0.7, 0.8, 1.0, 3.0])
    assert [rung.tolist() for rung in lifted(rungs, np.array([1.0]), np.array([0.0]))] == [r.tolist() for r in rungs]
    unkeepable = lifted(rungs, np.array([1.0]), np.array([2.0]))
    np.testing.assert_allclose(np.concatenate(unkeepable), [2.0, 3.0])
    two = lifted([np.array([0.5, 1.0])], np.array([2.0, 2.0]), np.array([1.0, 0.0]))
    np.testing.assert_allclose(two, [[1.25, 1.0]])


@pytest.mark.parametrize(("unavoidable", "first", "then"), [(None, 0.8, 0.2), (np.array([0.1]), 0.1, 0.1)])
def test_a_budget_that_only_later_columns_keep_comes_back(unavoidable, first, then):
    """The first columns cost 0.8, later ones 0.2, and so the task's own budget of 0.4 is no longer out of reach."""
    course = generation._Course.__new__(generation._Course)
    course.candidates, course.budget, course.bracketed = Candidates(), np.array([0.4]), False
    course.measurements = SimpleNamespace(unavoidable=unavoidable)
    course.rungs = course.candidates.ladder = [np.array([share]) for share in (0.1, 0.2, 0.4, 0.8, 1.6)]
    search = SearchSettings()
    columns = (Candidate(ColumnSettings((price,), search), Sample(np.ones(2), np.full((2, 1), cost)), alive=True)
               for price, cost in ((1.0, 0.8), (2.0, 0.2)))  # fmt: skip

    def lowest(candidate):
        course.candidates.tried.append(candidate)
        course.lift()
        return float(course.candidates.ladder[0][0])

    course.lift()
    assert float(course.candidates.ladder[0][0]) == 0.1, "nothing is lifted before prices were raised"
    course.bracketed = True
    assert lowest(next(columns)) == pytest.approx(first)
    assert lowest(next(columns)) == pytest.approx(then)
    assert any(rung == 0.4 for (rung,) in course.candidates.ladder)


def test_halfway_between_prices_is_a_ratio():
    found = between([np.array([8.0]), np.array([0.0]), np.array([2.0])])
    assert [float(price[0]) for price in found] == [0.0, 1.0, 2.0, 4.0, 8.0]
    assert [float(price[0]) for price in between([np.array([3.0])])] == [3.0]
