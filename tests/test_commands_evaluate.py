"""`cmcts evaluate`: what it prints, on episodes that take no time."""

from __future__ import annotations

import json

import pytest

from cmcts import cli
from cmcts.exact.random_problems import random_problem
from cmcts.exact.solver import solve
from cmcts.report.tables import read_rows
from cmcts.tasks.optimum import least_optimum
from cmcts.tasks.registry import make

BRIEF = ["--episodes", "20", "--iterations", "16"]


def evaluate(capsys, *arguments):
    assert cli.main(["evaluate", *arguments, *BRIEF]) == 0
    return capsys.readouterr().out


def test_regret_is_a_share_of_what_the_budget_buys(capsys):
    """A problem with a known optimum, whose least budget is not 0."""
    got = json.loads(evaluate(capsys, "random-absorbing-0", "--regret", "--json"))
    problem = random_problem(0, "absorbing")
    least = least_optimum(make("random-absorbing-0"))
    assert least.costs[0] > 0 and least.reward_upper == pytest.approx(solve(problem.cmdp, least.costs).reward)
    bought = problem.solution.reward - least.reward_upper
    assert got["optimum_upper"] == pytest.approx(problem.solution.reward)
    assert got["regret"] == pytest.approx(problem.solution.reward - got["reward_mean"])
    assert got["regret_share"] == pytest.approx(got["regret"] / bought)
    assert "share_of_optimum" not in got
    text = " ".join(evaluate(capsys, "random-absorbing-0", "--regret").split())
    assert f"a regret of {got['regret']:.3f}, {100 * got['regret_share']:.1f} % of what the budget buys" in text


def test_a_budget_that_buys_nothing_has_no_share(capsys):
    """No measurement: RockSample with nothing to spend is as good as at its least budget, which is nothing."""
    arguments = ["rocksample-3-2", "--budget", "0", "--regret"]
    got = json.loads(evaluate(capsys, *arguments, "--json"))
    assert got["regret_share"] is None and got["regret"] >= -1e-9
    assert "what the budget buys" not in evaluate(capsys, *arguments)


def test_comparisons_and_tables(capsys, tmp_path):
    table, steps = tmp_path / "episodes.csv", tmp_path / "steps.csv"
    options = ["--compare", "cc-mcp", "--table", str(table), "--trajectories", str(steps), "--json"]
    got = json.loads(evaluate(capsys, "rocksample-3-2", *options))
    other = got["comparisons"]["cc-mcp"]
    assert got["reward_mean"] - other["reward_mean"] == pytest.approx(other["reward_difference"])
    low, high = other["reward_difference_interval"]
    assert low <= other["reward_difference"] <= high
    rows = read_rows(table)
    assert len(rows) == got["episodes"] == 20
    assert sum(row["reward"] for row in rows) / 20 == pytest.approx(got["reward_mean"])
    assert len(read_rows(steps)) == sum(row["steps"] for row in rows)
    text = " ".join(evaluate(capsys, "rocksample-3-2", "--compare", "cc-mcp").split())
    assert f"against cc-mcp: reward {other['reward_difference']:+.3f}" in text
