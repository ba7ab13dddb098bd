"""Searches that look at a clock themselves."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from numba import njit

from cmcts.critic.ensemble import immediate_costs_only
from cmcts.envs.safe_gridworld.model import safe_gridworld_model
from cmcts.errors import ModelError
from cmcts.planning import deadlines
from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS
from cmcts.planning.threshold_uct import ThresholdUCT
from cmcts.random import stream
from cmcts.search.clock import MOST_BETWEEN, NEVER, OFTEN, UNTIMED, Clock, Limit, find_clock, read_clock
from cmcts.search.settings import SearchSettings
from conftest import clock_of, compiled_only
from models import random_table, table_model
from naive import tree_summary

SHORT = SearchSettings(horizon=12, exploration=1.0)
MODEL = safe_gridworld_model()
PLANNERS = {
    "c-mcts": lambda: CMCTS(MODEL, immediate_costs_only(MODEL), SHORT),
    "cc-mcp": lambda: CCMCP(MODEL, SHORT),
    "penalized": lambda: PenalizedMCTS(MODEL, 1.0, SHORT),
    "threshold-uct": lambda: ThresholdUCT(MODEL, SHORT),
}
has_clock = pytest.mark.skipif(find_clock() is None, reason="this system has no clock that kernels could call")


def begun(planner, nodes=1000):
    session = planner.session()
    session.begin(np.array([1.0, 1.0]), np.ones(1), np.zeros(1), stream(0), nodes)
    return session


compiled_read = njit(lambda address, kind: read_clock(address, kind))


@has_clock
@pytest.mark.parametrize("read", [pytest.param(compiled_read, marks=compiled_only), read_clock])
def test_the_clock_is_the_systems(read):
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    said = read(*find_clock())
    assert before <= said <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS)
def test_a_slow_search_looks_after_every_simulation(planner):
    ticks = itertools.count(1)
    clock, kept = clock_of(lambda: 1_000_000 * next(ticks))
    session = begun(planner())
    session.run(1000, Limit(clock, 7_000_000))
    assert session.iterations == 7 == session.tree.visits[0]
    session.run(1000, Limit(clock, 12_000_000))
    assert session.iterations == 12 == session.tree.visits[0]
    del kept


@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS)
def test_a_fast_search_looks_seldom_and_never_more_seldom_than_is_said(planner):
    ticks = itertools.count(OFTEN)
    clock, kept = clock_of(lambda: next(ticks))
    session = begun(planner())
    session.run(1000, Limit(clock, OFTEN + 9))
    # The first look tells nothing yet of how long a simulation takes.
    assert session.iterations == 1 + 1 + 2 + 4 + 8 + 5 * MOST_BETWEEN
    assert next(ticks) == OFTEN + 10, "one look less than simulations would be more than the limit"
    del kept


def test_what_was_fast_and_is_slow_is_looked_after_more_often_again():
    said = iter([OFTEN, *(OFTEN + k for k in range(1, 6)), *(OFTEN * k for k in range(3, 100))])
    clock, kept = clock_of(lambda: next(said))
    session = begun(PLANNERS["penalized"]())
    session.run(1000, Limit(clock, 10 * OFTEN))
    assert session.iterations == 1 + 1 + 2 + 4 + 8 + 16 + 16 + 8 + 4 + 2 + 1 + 1 + 1 + 1
    del kept


@has_clock
@pytest.mark.parametrize("planner", PLANNERS.values(), ids=PLANNERS)
def test_a_limit_that_does_not_come_changes_nothing(planner):
    free, limited = begun(planner()), begun(planner())
    free.run(300)
    limited.run(300, Limit(find_clock(), NEVER - 1))
    assert limited.iterations == 300
    assert tree_summary(limited.tree, MODEL, False) == tree_summary(free.tree, MODEL, False)
    assert limited.rng == free.rng


def test_a_search_without_a_limit_never_looks():
    def look():
        raise AssertionError("nobody asked for the time")

    clock, kept = clock_of(look)
    session = begun(PLANNERS["penalized"]())
    session.run(50, Limit(clock, NEVER))
    session.run(50)
    assert session.iterations == 100
    assert (Clock(0, 0), NEVER) == UNTIMED
    del kept


def test_a_fault_ends_a_search_before_its_time():
    table = random_table(4)
    model, looks = table_model(table._replace(rewards=np.full_like(table.rewards, np.nan))), itertools.count(1)
    clock, kept = clock_of(lambda: next(looks))
    session = PenalizedMCTS(model, 0.0, SHORT).session()
    session.begin(model.start_state(), np.ones(1), np.zeros(1), stream(0), 100)
    with pytest.raises(ModelError, match="finite reward"):
        session.run(1000, Limit(clock, 100))
    assert next(looks) == 2
    del kept


@has_clock
def test_a_timed_decision_is_one_call_of_the_kernel():
    """Between two calls another thread may hold the interpreter for as long as it likes."""
    planner = PLANNERS["penalized"]()
    session, calls = begun(planner), []
    run = session.run
    session.run = lambda *arguments: (calls.append(arguments), run(*arguments))
    deadlines.run_until(session, time.perf_counter() + 0.02, None)
    assert len(calls) == 1
    assert session.iterations > 0


@has_clock
def test_a_long_search_comes_back_now_and_then(monkeypatch):
    """What the keyboard interrupts is Python."""
    ticks = itertools.count()
    clock, kept = clock_of(lambda: 50_000_000 * next(ticks))
    monkeypatch.setattr(deadlines, "CLOCK", clock)
    monkeypatch.setattr(deadlines.time, "perf_counter", lambda: 0.05 * next(ticks))
    session, limits = begun(PLANNERS["penalized"]()), []
    run = session.run
    session.run = lambda some, limit: (limits.append((session.iterations, limit.end)), run(some, limit))
    deadlines.run_until(session, 1.0, None)
    assert [end for _, end in limits] == [250_000_000, 550_000_000, 950_000_000]
    del kept


def test_where_there_is_no_clock_a_search_runs_in_chunks(monkeypatch, slow_clock):
    monkeypatch.setattr(deadlines, "CLOCK", None)
    decision = PLANNERS["penalized"]().plan([1.0, 1.0], 0.0, seconds=100 * slow_clock)
    assert decision.iterations == 50
    assert decision.seconds == 101 * slow_clock


@pytest.mark.parametrize("platform", ["win32", "cygwin", "wasi"])
def test_other_systems_have_no_such_clock(monkeypatch, platform):
    monkeypatch.setattr("cmcts.search.clock.sys.platform", platform)
    assert find_clock() is None


CODE = """
import time
import numba
import reading
from cmcts.compilation.disk import cache_on_disk
from cmcts.search.clock import find_clock
function, clock = cache_on_disk(numba.njit(reading.now)), find_clock()
before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
said = function(*clock)
assert before <= said <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)
print(sum(function.stats.cache_hits.values()))
"""


@compiled_only
@has_clock
def test_compiled_code_that_reads_the_clock_is_found_by_the_next_process(tmp_path):
    (tmp_path / "reading.py").write_text(
        "from cmcts.search.clock import read_clock\n\n\ndef now(address, kind):\n    return read_clock(address, kind)\n"
    )
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
    hits = []
    for _ in range(3):
        command = [sys.executable, "-c", CODE]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        hits.append(int(output))
    assert hits == [0, 1, 1]
