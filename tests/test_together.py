"""One decision by several searches: their roots are added up, nothing refused is opened, and cores do not matter."""

from __future__ import annotations

import json
import os
import time
from functools import partial

import numpy as np
import pytest

import cmcts
from cmcts.critic.ensemble import immediate_costs_only
from cmcts.errors import InvalidInput, ModelError
from cmcts.planning.agent import act_together
from cmcts.planning.question import Question
from cmcts.planning.roots import Roots
from cmcts.planning.threshold_uct import ThresholdUCT
from cmcts.planning.together import merged, own_streams
from cmcts.random import stream, uniform
from cmcts.search.tree import ILLEGAL, PRUNED, allocate
from cmcts.tasks.optimum import exact_policy
from conftest import compiled_only
from models import random_ensemble, random_table, table_model
from test_from_env import SEARCH, Dice, Numbered

SHORT = cmcts.SearchSettings(horizon=20)
START = [0.0, 0.0]


def content(decision):
    """All of a decision but the time it took."""
    found = decision.to_dict() | {"probabilities": decision.probabilities.tolist()}
    del found["seconds"]
    return found


def table_planners():
    model = table_model(random_table(0))
    return {
        "penalized": cmcts.PenalizedMCTS(model, 1.0, SHORT),
        "ccmcp": cmcts.CCMCP(model, SHORT),
        "cmcts": cmcts.CMCTS(model, random_ensemble(model, 1, scale=0.3, offset=0.5), SHORT),
    }


def env_planner(factory=Numbered):
    model = cmcts.Model.from_env(factory)
    return cmcts.CMCTS(model, immediate_costs_only(model), SEARCH)


@pytest.fixture
def on_cores(monkeypatch):
    """Says how many cores there are, whatever the tests are bound to."""
    return lambda count: monkeypatch.setattr("cmcts.planning.together.cores", lambda: count)


@pytest.fixture
def forks(monkeypatch):
    """A list that grows by one with every process that is forked."""
    forked, fork = [], os.fork
    monkeypatch.setattr(os, "fork", lambda: forked.append(0) or fork())
    return forked


def root(visits, rewards, costs, *, judged=None, nothing_safe=False, nodes=10, depth=3, multiplier=1.0, iterations=9):
    """What a search of three actions and one constraint may have found."""
    tree = allocate(1, 1, 3, 1, critic=True)
    for array in tree:
        array.fill(0)
    tree.count[0], tree.peak_depth[0], tree.nothing_safe[0] = nodes, depth, nothing_safe
    tree.visits[0] = iterations
    tree.action_visits[0], tree.reward_values[0], tree.cost_values[0] = visits, rewards, costs
    tree.pruned_by[0] = judged or [int(n == PRUNED) for n in visits]
    return Roots(tree, np.array([[0.5]]), np.array([[multiplier]]), [stream(0)], iterations, 0.25)


# What is added up.


def test_a_merge_by_hand():
    garbage = np.nan
    one = root([3, 5, ILLEGAL], [2.0, 1.0, garbage], [0.5, 0.0, garbage], nodes=7, depth=4, multiplier=2.0)
    two = root([1, 0, ILLEGAL], [4.0, garbage, garbage], [0.1, garbage, garbage], nodes=5, depth=6, multiplier=3.0)
    one.tree.critic_mean[0], two.tree.critic_mean[0] = 0.25, 0.75
    whole = merged([one, two._replace(iterations=4)])
    assert whole.tree.action_visits.tolist() == [[4, 5, ILLEGAL]]
    assert whole.tree.reward_values.tolist() == [[(3 * 2 + 1 * 4) / 4, 1.0, 0.0]]
    assert whole.tree.cost_values[0] == pytest.approx([(3 * 0.5 + 1 * 0.1) / 4, 0.0, 0.0], abs=1e-15)
    assert (whole.tree.count.tolist(), whole.tree.peak_depth.tolist()) == ([12], [6])
    assert (whole.multipliers.tolist(), whole.budgets.tolist(), whole.iterations) == ([[2.5]], [[0.5]], 13)
    assert whole.tree.critic_mean.tolist() == [[0.25] * 3]
    assert whole.tree.nothing_safe.tolist() == [False]
    assert one.tree.action_visits.tolist() == [[3, 5, ILLEGAL]], "a search's own memory is left alone"


def test_multipliers_that_nobody_moved_stay_as_they_are():
    assert merged([root([1, 1, 1], [0] * 3, [0] * 3, multiplier=0.1)] * 3).multipliers.tolist() == [[0.1]]


@pytest.mark.parametrize("name", ["penalized", "ccmcp", "cmcts"])
def test_a_decision_is_the_sum_of_those_made_apart(name, on_cores):
    on_cores(2)
    planner = table_planners()[name]
    together = planner.plan(START, 0.6, iterations=80, rng=7, workers=3)
    _, *draws = own_streams(stream(7), 3)
    apart = [planner.plan(START, 0.6, iterations=80, rng=rng) for rng in draws]
    visits = np.stack([decision.visits for decision in apart])
    assert together.visits.tolist() == visits.sum(axis=0).tolist()
    assert len({row.tobytes() for row in visits}) > 1, "streams of their own"
    seen = np.maximum(visits.sum(axis=0), 1)
    rewards = sum(n * decision.reward_values for n, decision in zip(visits, apart, strict=True)) / seen
    costs = sum(n[:, None] * d.cost_values for n, d in zip(visits, apart, strict=True)) / seen[:, None]
    np.testing.assert_allclose(together.reward_values, rewards, rtol=1e-12)
    np.testing.assert_allclose(together.cost_values, costs, rtol=1e-12)
    assert together.multipliers == pytest.approx(np.mean([d.multipliers for d in apart], axis=0))
    assert together.iterations == 240
    assert together.tree_size == sum(decision.tree_size for decision in apart)
    assert together.tree_depth == max(decision.tree_depth for decision in apart)
    assert together.pruned.tolist() == apart[0].pruned.tolist()
    if name == "cmcts":
        assert together.critic_mean.tolist() == apart[0].critic_mean.tolist()


@pytest.mark.parametrize("factory", [Numbered, Dice], ids=["numbers", "copies"])
def test_an_environment_is_searched_by_processes_as_in_sequence(factory, on_cores, forks):
    on_cores(2)
    planner = env_planner(factory)
    start = planner.model.start_state()
    together = planner.plan(start, 1.0, iterations=40, rng=5, workers=2)
    assert len(forks) == 1
    _, *draws = own_streams(stream(5), 2)
    one, two = (planner.plan(start, 1.0, iterations=40, rng=rng) for rng in draws)
    assert together.iterations == 80
    assert together.visits.tolist() == (one.visits + two.visits).tolist()
    assert together.visits.sum() == 2 * planner.plan(start, 1.0, iterations=40).visits.sum() == 78
    rewards = (one.visits * one.reward_values + two.visits * two.reward_values) / np.maximum(together.visits, 1)
    np.testing.assert_allclose(together.reward_values, rewards, rtol=1e-12)
    assert together.model is planner.model


# Whatever the cores.


@pytest.mark.parametrize("name", ["penalized", "ccmcp", "cmcts", "numbers", "copies"])
def test_seed_and_number_of_searches_decide_alone(name, on_cores):
    decisions, after = [], []
    for count in (1, 2, 3, 8):
        on_cores(count)
        made = {"numbers": env_planner, "copies": partial(env_planner, Dice)}
        planner = made[name]() if name in made else table_planners()[name]
        rng = stream(11)
        decisions.append(content(planner.plan(planner.model.start_state(), 0.3, iterations=30, rng=rng, workers=3)))
        after.append(int(rng[0]))
    assert decisions[1:] == decisions[:-1]
    moved = stream(11)
    own_streams(moved, 1)
    assert after == [int(moved[0])] * 4, "one draw, whoever searched and whatever was decided"
    again = content(planner.plan(planner.model.start_state(), 0.3, iterations=30, rng=12, workers=3))
    assert again != decisions[0]


def test_the_searches_of_two_are_among_those_of_three():
    two, three = own_streams(stream(3), 2), own_streams(stream(3), 3)
    assert [int(rng[0]) for rng in two] == [int(rng[0]) for rng in three[:3]]
    assert len({int(rng[0]) for rng in three}) == 4


def test_a_single_search_is_what_it_was():
    planner = table_planners()["ccmcp"]
    asked, unasked = stream(4), stream(4)
    one = planner.plan(START, 0.4, iterations=50, rng=asked, workers=1)
    assert content(one) == content(planner.plan(START, 0.4, iterations=50, rng=unasked))
    assert asked[0] == unasked[0]


@compiled_only
def test_time_is_the_whole_decisions(on_cores, monkeypatch):
    """Searches that wait for each other share it, and those side by side end together; threads, to be watched."""
    ends = []

    def quick(question, session, end):
        ends.append(end)
        session.run(1)

    monkeypatch.setattr(Question, "run", quick)
    planner = table_planners()["penalized"]
    planner.plan(START, 0.4, iterations=1)
    for count, shares in ((1, (1 / 3, 1 / 2, 1.0)), (2, (1 / 2, 1.0, 1.0)), (3, (1.0, 1.0, 1.0))):
        on_cores(count)
        ends.clear()
        began = time.perf_counter()
        assert planner.plan(START, 0.4, seconds=1e6, workers=3).iterations == 3
        assert sorted((np.array(ends) - began) / 1e6) == pytest.approx(shares, abs=0.01)


# Nothing that any search refused is opened.


def test_what_one_search_refuses_stays_refused():
    one = root([4, 2, PRUNED], [1.0, 0.0, 0.0], [0.0] * 3)
    two = root([PRUNED, 6, 3], [0.0, 1.0, 9.0], [0.0] * 3)
    for pair in ([one, two], [two, one]):
        whole = merged(pair)
        assert whole.tree.action_visits.tolist() == [[PRUNED, 8, PRUNED]]
        assert (whole.tree.pruned_by > 0).tolist() == [[True, False, True]]
        assert whole.tree.nothing_safe.tolist() == [False]


def test_what_is_kept_for_want_of_better_is_no_proof_of_safety():
    """The first search kept action 0 although it judged it unsafe; the second one thinks 1 is safe, and 0 is not."""
    fallback = root([8, PRUNED, ILLEGAL], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], judged=[1, 1, 0], nothing_safe=True)
    hopeful = root([PRUNED, 8, ILLEGAL], [0.0, 5.0, 0.0], [0.0] * 3)
    whole = merged([fallback, hopeful])
    assert whole.tree.action_visits.tolist() == [[8, PRUNED, ILLEGAL]]
    assert whole.tree.nothing_safe.tolist() == [True]
    whole = merged([hopeful, fallback])
    assert whole.tree.action_visits.tolist() == [[PRUNED, 8, ILLEGAL]]
    assert whole.tree.nothing_safe.tolist() == [True]


def test_kept_by_all_but_judged_unsafe_by_one():
    fallback = root([5, PRUNED, ILLEGAL], [1.0, 0.0, 0.0], [0.0] * 3, judged=[1, 1, 0], nothing_safe=True)
    whole = merged([root([5, PRUNED, ILLEGAL], [3.0, 0.0, 0.0], [0.0] * 3), fallback])
    assert whole.tree.action_visits.tolist() == [[10, PRUNED, ILLEGAL]]
    assert whole.tree.reward_values.tolist() == [[2.0, 0.0, 0.0]]
    assert whole.tree.nothing_safe.tolist() == [True], "one search said that nothing is"


def risky_step(params, state, action, rng, next_state, costs):
    """Actions 1 and 2 may cost 1; nobody says how often."""
    next_state[0] = state[0] + 1.0
    costs[0] = 1.0 if action > 0 and uniform(rng) < 0.5 else 0.0
    return float(action), True


def only_risky(params, state, out):
    out[0], out[1] = 1, 2
    return 2


def any_action(params, state, out):
    out[0], out[1], out[2] = 0, 1, 2
    return 3


def nothing_seen(params, state, out):
    out[0] = 1.0


def begin(params, rng, state):
    state[0] = 0.0


@pytest.mark.parametrize("legal", [any_action, only_risky])
def test_searches_that_sampled_differently_are_all_heard(legal, on_cores):
    """Each search takes one step to see what an action costs at once, so they disagree."""
    on_cores(2)
    model = cmcts.Model("risky", (), risky_step, legal, nothing_seen, begin, 1, 3, 1, compilable=False)
    planner = cmcts.CMCTS(model, immediate_costs_only(model), cmcts.SearchSettings(horizon=1, cost_samples=1))
    disagreed = overruled = 0
    for seed in range(40):
        together = planner.plan([0.0], 0.5, iterations=20, rng=seed, workers=2)
        _, *draws = own_streams(stream(seed), 2)
        one, two = (planner.plan([0.0], 0.5, iterations=20, rng=rng) for rng in draws)
        refused = one.pruned | two.pruned
        assert together.pruned.tolist() == refused.tolist()
        disagreed += bool((one.pruned != two.pruned).any())
        if (refused | ~together.legal).all():
            assert together.nothing_safe and one.visits[together.action] > 0
            overruled += not (one.nothing_safe or two.nothing_safe)
        else:
            assert not together.nothing_safe and not refused[together.action]
            assert together.visits[refused].sum() == 0
    assert disagreed > 10
    assert (overruled > 0) == (legal is only_risky)


fines = {"slow": 0.0, "fast": 1.0}


def fined_step(params, state, action, rng, next_state, costs):
    """What Numba cannot compile: a dictionary outside of the function."""
    next_state[0] = state[0] + 1.0
    costs[0] = fines[sorted(fines)[action]] * uniform(rng)
    return uniform(rng), False


def two_actions(params, state, out):
    out[0], out[1] = 0, 1
    return 2


@compiled_only
def test_a_model_that_proves_not_to_compile_goes_to_processes_after_one_warning(on_cores, forks):
    on_cores(2)

    def planner():
        model = cmcts.Model("fined", (), fined_step, two_actions, nothing_seen, begin, 1, 2, 1)
        return cmcts.PenalizedMCTS(model, 1.0, cmcts.SearchSettings(horizon=5))

    fresh = planner()
    with pytest.warns(UserWarning, match="uncompiled, hundreds of times slower") as caught:
        together = fresh.plan([0.0], 1.0, iterations=30, rng=8, workers=2)
    assert (len(caught), len(forks), together.iterations) == (1, 1, 60)
    assert content(together) == content(fresh.plan([0.0], 1.0, iterations=30, rng=8, workers=2))


# What goes wrong.


class Breaking(Numbered):
    """Only in the process that it was not made in."""

    def __init__(self, how):
        super().__init__()
        self.how, self.home = how, os.getpid()

    def step(self, action):
        if os.getpid() != self.home:
            self.how()
        return super().step(action)


def lost():
    raise KeyError("lost")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lost, "simulating model 'Breaking' raised KeyError: 'lost'"),
        (partial(os._exit, 9), "a planning process was killed"),
    ],
)
def test_a_process_that_fails_is_heard_of(how, message, on_cores):
    on_cores(2)
    planner = env_planner(partial(Breaking, how))
    rng = stream(1)
    with pytest.raises(ModelError, match=message):
        planner.plan(planner.model.start_state(), 1.0, iterations=10, rng=rng, workers=2)
    moved = stream(1)
    own_streams(moved, 1)
    assert rng[0] == moved[0]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # no child is left


def test_misuse_is_refused_by_name():
    planner = table_planners()["penalized"]
    for workers in (0, -1, 1.5):
        with pytest.raises(InvalidInput, match=f"^expected workers >= 1, got {workers}$"):
            planner.plan(START, 0.4, iterations=5, workers=workers)
        with pytest.raises(InvalidInput, match=f"^expected workers >= 1, got {workers}$"):
            cmcts.Agent(planner, 0.4, workers=workers)
    with pytest.raises(InvalidInput, match=r"^expected workers=1 with keep_tree, because several .* tree, got 2$"):
        planner.plan(START, 0.4, iterations=5, keep_tree=True, workers=2)
    with pytest.raises(InvalidInput, match=r"^expected workers=1 with reuse_tree, because several .* tree, got 2$"):
        cmcts.Agent(planner, 0.4, reuse_tree=True, workers=2)
    curved = ThresholdUCT(planner.model, SHORT)
    for refused in (partial(curved.plan, START, 0.4), partial(cmcts.Agent, curved, 0.4)):
        with pytest.raises(InvalidInput, match=r"^expected workers=1 for ThresholdUCT, whose .*, got 2$"):
            refused(workers=2)
    with pytest.raises(InvalidInput, match=r"^expected iterations >= 1, got 0$"):
        planner.plan(START, 0.4, iterations=0, workers=2)


def test_a_table_is_looked_up_once():
    task = cmcts.make("random-absorbing-3")
    policy = exact_policy(task)
    start = task.model.start_state()
    assert content(policy.plan(start, task.budget, rng=3, workers=4)) == content(policy.plan(start, task.budget, rng=3))


# Through an episode, and from the command line.


def test_an_agent_passes_it_on(on_cores):
    on_cores(2)
    planner = table_planners()["ccmcp"]
    agent = cmcts.Agent(planner, 0.4, rng=9, iterations=40, workers=2)
    rng = stream(9)
    first = agent.act(START)
    assert content(first) == content(planner.plan(START, 0.4, iterations=40, rng=rng, workers=2))
    agent.observe(0.0)
    left, prices = agent.budget.copy(), agent.multipliers.copy()
    expected = planner.plan(START, left, iterations=40, rng=rng, multipliers=prices, workers=2)
    assert content(agent.act(START)) == content(expected)


@pytest.mark.parametrize("make", [lambda: table_planners()["cmcts"], env_planner], ids=["threads", "processes"])
def test_agents_together_decide_as_they_do_alone(make, on_cores):
    on_cores(2)
    planner = make()
    states = np.stack([planner.model.start_state()] * 3)

    def agents():
        return [cmcts.Agent(planner, 0.4, rng=seed, iterations=20, workers=2) for seed in range(3)]

    alone = [agent.act(state) for agent, state in zip(agents(), states, strict=True)]
    together = act_together(agents(), states, threads=2)
    assert [content(decision) for decision in together] == [content(decision) for decision in alone]
    assert [decision.iterations for decision in together] == [40] * 3


def test_the_command_line_plans_as_python_does(capsys):
    from cmcts.cli import main
    from cmcts.commands.planner_options import make_planner

    arguments = ["--planner", "penalized", "--iterations", "30", "--seed", "2", "--workers", "2"]
    assert main(["plan", "random-absorbing-3", *arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    task = cmcts.make("random-absorbing-3")
    planner = make_planner(task, "penalized").planner
    expected = planner.plan(task.model.start_state(2), task.budget, iterations=30, rng=2, workers=2)
    assert printed["iterations"] == 60
    assert [row["visits"] for row in printed["actions"]] == expected.visits[expected.legal].tolist()
    assert main(["play", "random-absorbing-3", *arguments]) == 0
    assert f"1. {expected.action_name}" in capsys.readouterr().out
    for command in ("plan", "play"):
        assert main([command, "random-absorbing-3", "--workers", "0"]) == 2
        assert "expected workers >= 1, got 0" in capsys.readouterr().err
