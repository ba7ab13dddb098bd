"""What the critics that ship let pass and refuse, against what is exactly known; `benchmarks/safety.py` does more."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def safety():
    path = Path(__file__).parents[1] / "benchmarks" / "safety.py"
    spec = importlib.util.spec_from_file_location("safety", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_square_of_safe_gridworld_gets_an_unsafe_decision_that_is_not_flagged(safety):
    assert safety.squares("", seeds=20)


def test_no_belief_costs_more_at_once_than_is_left(safety):
    assert safety.beliefs("rocksample-7-8", "", count=20_000)


@pytest.mark.parametrize("task", ["rocksample-5-7", "rocksample-7-8", "rocksample-11-11", "rocksample-15-15"])
def test_measurements_that_cost_the_same_are_all_kept_or_all_refused(safety, task):
    assert safety.ties(task, "", count=1000)


@pytest.mark.parametrize("task", ["safe-gridworld", "rocksample-7-8"])
def test_the_monitor_keeps_any_policy_within_the_budget(safety, task):
    assert safety.monitor(task, "", episodes=200, iterations=64)
