"""`cmcts evaluate`, `demo` and `reproduce` to their end, on tiny settings: what they print and write is true."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import cmcts
from cmcts import cli
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import run_episodes
from cmcts.report.tables import read_rows
from conftest import compiled_only
from explorer_pages import data_of

TASK, EPISODES, ITERATIONS = "safe-gridworld", 8, 32
EVALUATE = ["evaluate", TASK, "--episodes", str(EPISODES), "--iterations", str(ITERATIONS), "--seed", "3", "--planner"]


@pytest.fixture(scope="module")
def played():
    """The same episodes, run from Python: each planner's rewards, costs and steps."""
    task = cmcts.make(TASK)
    planners = {
        "cmcts": cmcts.CMCTS.load(TASK),
        "cc-mcp": cmcts.CCMCP(task.model, task.search),
        "penalized": cmcts.PenalizedMCTS(task.model, task.penalty, task.search),
    }
    settings = {"episodes": EPISODES, "seed": 3, "iterations": ITERATIONS}
    return {
        name: run_episodes(planner, task.real_world, task.budget, **settings)[0] for name, planner in planners.items()
    }


@compiled_only
def test_evaluate_compares_on_the_same_worlds_and_writes_tables(capsys, tmp_path, played):
    files = ["--table", str(tmp_path / "episodes.csv"), "--trajectories", str(tmp_path / "steps.csv")]
    compare = ["--compare", "cc-mcp", "penalized"]
    assert cli.main([*EVALUATE, "cmcts", *compare, "--regret", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ours = played["cmcts"]
    assert (found["task"], found["planner"], found["episodes"]) == (TASK, "cmcts", EPISODES)
    assert found["reward_mean"] == pytest.approx(ours.rewards.mean())
    assert found["cost_mean"] == pytest.approx(ours.costs.mean())
    assert found["optimum_upper"] == pytest.approx(55.696, abs=5e-4)
    assert found["regret"] == pytest.approx(found["optimum_upper"] - found["reward_mean"])
    assert list(found["comparisons"]) == ["cc-mcp", "penalized"]
    for name, comparison in found["comparisons"].items():
        other = played[name]
        assert comparison["reward_mean"] == pytest.approx(other.rewards.mean())
        assert comparison["reward_difference"] == pytest.approx((ours.rewards - other.rewards).mean())
        assert comparison["cost_differences"] == pytest.approx((ours.costs - other.costs).mean(axis=0))
    rows, steps = read_rows(tmp_path / "episodes.csv"), read_rows(tmp_path / "steps.csv")
    assert [row["reward"] for row in rows] == ours.rewards.tolist()
    assert [row["steps"] for row in rows] == ours.steps.tolist()
    assert len(steps) == ours.steps.sum()


@compiled_only
def test_evaluate_prints_its_figures(capsys, monkeypatch, played):
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main([*EVALUATE, "penalized", "--compare", "cc-mcp", "--regret"]) == 0
    out = capsys.readouterr().out
    ours, other = played["penalized"], played["cc-mcp"]
    assert f"reward       {ours.rewards.mean():.3f}, 95 % interval " in out
    assert f"cost         {ours.costs.mean():.3f}" in out and "budget 0" in out
    assert f"optimum      55.696: a regret of {55.696 - ours.rewards.mean():.3f}"[:-1] in out
    assert f"over budget  {ours.violations.sum()} of 8 episodes" in out
    assert f"against cc-mcp: reward {(ours.rewards - other.rewards).mean():+.3f} (" in out


@pytest.fixture
def hasty(monkeypatch):
    """Trainings of seconds: one round, few steps, a small network, and episodes of ten steps."""
    pytest.importorskip("jax")
    from cmcts.frontier.settings import FrontierSettings
    from cmcts.training import gathering, judging
    from cmcts.training.multipliers import MultiplierSettings
    from cmcts.training.settings import CriticSettings, TrainingSettings

    ours = TrainingSettings.for_task

    def for_task(task, **changes):
        return dataclasses.replace(
            ours(task, **changes),
            iterations=16,
            steps_per_multiplier=100,
            walk_steps=200,
            choose_exploration=False,
            max_rounds=1,
            evaluation_episodes=200,
            untrained=False,  # which eight neurons would lose to
            critic=CriticSettings(hidden=(8,), steps=300, batch=32),
            multiplier=MultiplierSettings(max_updates=2),
            frontier=FrontierSettings(columns=0),
        )

    def short_episodes(executor, planner, world, budget, **options):
        return episodes_on(executor, planner, lambda: world(max_steps=10), budget, **options)

    monkeypatch.setattr(TrainingSettings, "for_task", staticmethod(for_task))
    for stages in (gathering, judging):
        monkeypatch.setattr(stages, "episodes_on", short_episodes)


@compiled_only
def test_demo_trains_compares_and_reports(capsys, tmp_path, monkeypatch, hasty):
    monkeypatch.setattr("cmcts.commands.demo.TASKS", ("rocksample-3-2",))
    monkeypatch.setenv("COLUMNS", "400")
    assert cli.main(["demo", "--episodes", "10", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "rocksample-3-2, real world: budget 1, optimum" in out and "report.html" in out
    report = (tmp_path / "report.html").read_text()
    assert report.count("data:image/png;base64,") == 2
    task = cmcts.make("rocksample-3-2")
    planners = {"cmcts": cmcts.CMCTS.load(tmp_path / task.name), "cc-mcp": cmcts.CCMCP(task.model, task.search)}
    for name, planner in planners.items():
        episodes, _ = run_episodes(
            planner, task.real_world, task.budget, episodes=10, seed=0, iterations=task.iterations
        )
        assert f"<td>{name}</td><td>{episodes.rewards.mean():.2f} ± " in report.replace("\n", "")
    assert report.count("<td>penalized</td>") == 1
    assert "<a href='explore-rocksample-3-2.html'>" in report
    inside = data_of((tmp_path / "explore-rocksample-3-2.html").read_bytes())
    assert [episode["name"] for episode in inside["episodes"]] == ["cmcts", "cc-mcp", "penalized"]
    assert inside["episodes"][1]["steps"][-1]["total_reward"] == pytest.approx(episodes.rewards[0])
    assert sum(inside["critic"]["trained"]) > 0


@compiled_only
def test_reproduce_trains_evaluates_and_reports(capsys, tmp_path, monkeypatch, hasty):
    from cmcts.reproduction import experiments, units

    def paper_settings(task, seed=0):
        return units.TrainingSettings.for_task(task, seed=seed)

    monkeypatch.setattr(units, "paper_settings", paper_settings)
    tiny = dataclasses.replace(experiments.QUICK, gridworld_episodes=4, gridworld_far=(96, 5))
    monkeypatch.setattr(experiments, "QUICK", tiny)
    monkeypatch.setenv("COLUMNS", "400")  # the name of the folder takes one line
    command = ["reproduce", "safe-gridworld", "--quick", "--out", str(tmp_path)]
    assert cli.main(command) == 0
    said = capsys.readouterr()
    assert "7 units of work" in said.out and "report.html" in said.out
    rows = read_rows(tmp_path / "tables" / "safe_gridworld.csv")
    far = next(row for row in rows if row["planner"] == "cc-mcp" and row["iterations"] == 96)
    task = cmcts.make(TASK)
    planner = cmcts.CCMCP(task.model, task.search)
    episodes, steps = run_episodes(planner, task.real_world, task.budget, episodes=5, seed=0, iterations=96)
    assert (far["episodes"], far["reward"]) == (5, pytest.approx(episodes.rewards.mean()))
    visits = [row for row in read_rows(tmp_path / "tables" / "visits.csv") if row["planner"] == "cc-mcp"]
    assert np.sum([row["count"] for row in visits]) == len(steps)
    report = (tmp_path / "report.html").read_text()
    assert "Safe Gridworld" in report and report.count("data:image/png;base64,") == 1
    records = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "records").iterdir()}
    assert len(records) == 7
    assert cli.main(command) == 0, "nothing is left to do"
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "records").iterdir()} == records
