"""Deciding for a long time and on time: memory, threads, deadlines, warming up."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cmcts.critic.ensemble import immediate_costs_only
from cmcts.envs.safe_gridworld.model import safe_gridworld_model
from cmcts.planning import deadlines
from cmcts.planning.agent import Agent
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.search.settings import SearchSettings
from conftest import compiled_only


def addresses(tree):
    return [array.ctypes.data for array in tree]


def content(decision):
    found = decision.to_dict()
    del found["seconds"]
    return found


@compiled_only
def test_memory_is_flat_over_20000_decisions():
    planner = CMCTS.load("rocksample-5-7")
    state = planner.model.start_state()
    for seed in range(10):
        planner.plan(state, 1.0, iterations=2, rng=seed)
    (session,) = planner._idle
    arrays = addresses(session.tree)
    gc.collect()
    objects = len(gc.get_objects())
    for seed in range(20_000):
        planner.plan(state, 1.0, iterations=2, rng=seed)
    assert planner._idle == [session], "one search at a time needs one session"
    assert addresses(session.tree) == arrays
    gc.collect()
    assert len(gc.get_objects()) - objects < 100


@compiled_only
def test_reused_trees_take_turns_in_two_pieces_of_memory():
    """The goal is never reached here, so a kept subtree could grow for ever; `max_nodes` bounds it."""
    model = safe_gridworld_model(0.0)
    agent = Agent(
        PenalizedMCTS(model, 0.0, SearchSettings(horizon=8, max_nodes=300)), 1.0, iterations=100, reuse_tree=True
    )
    seen = set()
    for turn in range(60):
        state = [3.0, 3.0] if turn % 2 == 0 else [3.0, 4.0]
        agent.act(state)
        agent.override(next(a for a in range(9) if tuple(model.params.moves[a]) == (0, 1 if turn % 2 == 0 else -1)))
        agent.observe(0.0)
        assert len(agent._session.tree.parent) <= 300 and agent._session.tree.count[0] <= 300
        if turn >= 20:
            seen.add(agent._session.tree.states.ctypes.data)
    assert len(seen) == 2


@compiled_only
def test_two_threads_decide_as_one_after_the_other():
    planner = CMCTS.load("rocksample-5-7")
    states = [np.array([x, y, *[0.5] * 7]) for x in range(4) for y in range(4)]

    def decide(index):
        return content(planner.plan(states[index], 1.0, iterations=100, rng=index))

    alone = [decide(index) for index in range(16)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(decide, range(16))) == alone
    assert 1 <= len(planner._idle) <= 2


class Clockwork:
    """A search whose simulations take a given time each, on a clock of its own."""

    def __init__(self, cost):
        self.cost, self.now, self.iterations, self.chunks = cost, 0.0, 0, []

    def run(self, count):
        self.now += self.cost * count
        self.iterations += count
        self.chunks.append(self.cost * count)


@pytest.mark.parametrize("cost", [1e-6, 1e-4, 3e-3, 0.5])
def test_without_a_clock_of_its_own_a_search_ends_at_its_deadline_but_for_one_chunk(cost, monkeypatch):
    """A chunk takes a millisecond, or one simulation where that takes longer."""
    clock = Clockwork(cost)
    monkeypatch.setattr(deadlines.time, "perf_counter", lambda: clock.now)
    deadlines.run_chunks(clock, 0.02, None)
    assert 0.02 <= clock.now <= 0.02 + max(0.001, cost) + 1e-9
    assert max(clock.chunks) <= max(0.001, cost) + 1e-9


@compiled_only
def test_warming_up_leaves_nothing_to_allocate():
    model = safe_gridworld_model(0.0)
    planner = CMCTS(model, immediate_costs_only(model), SearchSettings(horizon=8, max_nodes=500))
    fresh = content(planner.plan([1.0, 1.0], 1.0, iterations=200, rng=3))
    planner.warm_up(threads=2)
    assert len(planner._idle) == 2
    trees = [addresses(session.tree) for session in planner._idle]
    assert all(len(session.tree.parent) == 500 for session in planner._idle)
    assert content(planner.plan([1.0, 1.0], 1.0, iterations=200, rng=3)) == fresh
    planner.plan([1.0, 1.0], 1.0, seconds=0.001)
    assert sorted(addresses(session.tree) for session in planner._idle) == sorted(trees)


def test_what_was_missed_is_left_as_a_margin_and_forgotten_slowly():
    assert deadlines.next_margin(0.0, -0.001, 0.02) == 0.0
    assert deadlines.next_margin(0.0, 0.0005, 0.02) == 0.0, "a look at the clock too late is no lateness"
    assert deadlines.next_margin(0.0, 0.004, 0.02) == 0.004
    assert deadlines.next_margin(0.002, 0.002, 0.02) == 0.004
    assert deadlines.next_margin(0.004, 0.1, 0.02) == 0.005, "a quarter of the limit, at most"
    margin = 0.004
    for _ in range(35):
        margin = deadlines.next_margin(margin, -0.01, 0.02)
    assert 0.0019 < margin < 0.002
