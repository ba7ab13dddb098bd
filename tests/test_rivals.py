"""The benchmark on the Threshold UCT maps: a second call goes on where the first one stopped."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import cmcts
from cmcts.report.tables import read_rows

path = Path(__file__).parents[1] / "benchmarks" / "rivals" / "avoid.py"
spec = importlib.util.spec_from_file_location("avoid_benchmark", path)
avoid = importlib.util.module_from_spec(spec)
spec.loader.exec_module(avoid)


def test_twenty_maps_every_seventh_from_the_first():
    assert len(avoid.MAPS) == 20 and avoid.MAPS[:3] == (1, 8, 15)


def test_what_is_there_is_not_done_again(tmp_path, monkeypatch, capsys):
    solved = []
    solve = avoid.solve_task
    monkeypatch.setattr(avoid, "solve_task", lambda task, *rest: solved.append(task.name) or solve(task, *rest))
    file = tmp_path / "avoid.csv"

    def run(*thresholds):
        monkeypatch.setattr(
            "sys.argv",
            ["avoid.py", "--maps", "8", "--kinds", "avoid", "--planners", "exact", "--file", str(file),
             "--thresholds", *thresholds],
        )  # fmt: skip
        avoid.main()

    run("0.15")
    run("0.15", "0.35")
    assert solved == ["avoid-8", "avoid-8"]
    rows = read_rows(file)
    assert [row["reward"] for row in rows] == pytest.approx([2.132797, 2.567110], abs=1e-6)
    assert [row["cost"] for row in rows] == pytest.approx([0.15, 0.35])
    assert "| CC-MCP | not run |" in capsys.readouterr().out


def test_a_frontier_keeps_the_simulations_that_it_was_measured_with_unless_they_take_too_long(monkeypatch):
    policy = cmcts.Frontier.load("rocksample-15-15").at(1.0)  # one column
    asked = []

    def timed(planner, task, threshold, iterations, episodes, *, seed):
        asked.append(iterations)
        return None, 1e-6 * (1000 if iterations is None else iterations)

    monkeypatch.setattr(avoid, "timed", timed)
    assert avoid.simulations(policy, None, 1.0, 1e-3) is None and asked[-1] is None
    assert avoid.simulations(policy, None, 1.0, 5e-4) == 500
    assert avoid.simulations(policy.planners[0], None, 1.0, 1e-3) == 1000
    assert avoid.own_simulations(policy) == policy.planners[0].search.iterations
