"""The command line: what it prints, what it says about mistakes, and how it exits."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from cmcts import cli
from cmcts.errors import ModelError
from cmcts.tasks.registry import make

TASK = "rocksample-5-7"


def run(capsys, *arguments):
    """Exit status, standard output and standard error of a command."""
    status = cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_tasks_are_listed(capsys):
    status, out, _ = run(capsys, "tasks")
    assert status == 0
    for name in ("rocksample-5-7", "rocksample-15-15", "safe-gridworld", "rocksample-N-M"):
        assert name in out


def test_plan_explains_its_choice(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    status, out, _ = run(capsys, "plan", TASK, "--iterations", "64", "--budget", "0.5", "--planner", "cmcts")
    assert status == 0
    assert "0.500 to spend" in out
    assert "critic: trained, ships with cmcts" in out
    assert re.search(r"sense 0 .*critic predicts [01]\.?\d* ± \S+, 0\.5 left", out)
    assert "64 simulations" in out


def test_plan_without_a_trained_critic_says_so_and_knows_immediate_costs(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    status, out, _ = run(capsys, "plan", "rocksample-3-2", "--iterations", "64", "--budget", "0.5")
    assert status == 0
    assert "none trained" in out
    assert "immediate cost exceeds the 0.5 left" in out


def test_plan_as_json_is_what_python_plans(capsys):
    import cmcts

    status, out, _ = run(capsys, "plan", TASK, "--planner", "penalized", "--iterations", "64", "--seed", "3", "--json")
    assert status == 0
    task = cmcts.make(TASK)
    planner = cmcts.PenalizedMCTS(task.model, task.penalty, task.search)
    expected = planner.plan(task.model.start_state(3), task.budget, iterations=64, rng=3)
    got = json.loads(out)
    assert (got["task"], got["planner"], got["iterations"]) == (TASK, "penalized", 64)
    assert got["action"] == expected.action
    assert [row["visits"] for row in got["actions"]] == expected.visits[expected.legal].tolist()


def test_plan_says_when_nothing_is_safe(capsys):
    """Safe Gridworld: with a critic that is sure of a cost of 1 everywhere, every action is over a budget of 0."""
    from cmcts.commands import planner_options as common

    def gloomy(task, directory=None):
        import numpy as np

        import cmcts

        model = task.model
        critic = cmcts.ensemble(
            [np.zeros((2, model.feature_count, model.action_count))], [np.ones((2, model.action_count))]
        )
        return common.ChosenCritic(critic, task.search, task.pruning, None, "gloomy")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common, "default_critic", gloomy)
        status, out, _ = run(capsys, "plan", "safe-gridworld", "--keep", "episode", "--iterations", "32")
    assert status == 0
    assert "Nothing was safe" in out
    assert "critic predicts 1 ± 0, 0 left" in " ".join(out.split())


def test_play_draws_every_step_and_keeps_account(capsys):
    status, out, _ = run(capsys, "play", TASK, "--iterations", "64", "--seed", "1", "--planner", "cmcts")
    assert status == 0
    pictures = out.count("[  ]") + out.count("[0.") + out.count("[1.") + out.count("[x]")
    steps = int(out.rpartition("after ")[2].split()[0])
    assert pictures == steps + 1
    assert "discounted reward" in out
    assert "within the budget of 1" in " ".join(out.split())


def test_worlds_without_pictures_show_their_state():
    """A world made from a model alone draws nothing."""
    from functools import partial
    from types import SimpleNamespace

    import cmcts
    from cmcts.evaluation.playing import first_picture
    from cmcts.model.worlds import ModelWorld

    model = cmcts.make("safe-gridworld").model
    x, y = ModelWorld(model).reset(seed=0)[0]
    assert first_picture(SimpleNamespace(real_world=partial(ModelWorld, model)), seed=0).content == f"state [{x}, {y}]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "rocksample"], "expected a task: one of rocksample-5-7, "),
        (["plan", TASK, "--budget", "-1"], "expected budget finite and >= 0, got (-1.0,)"),
        (
            ["plan", TASK, "--budget", "1", "2"],
            "expected budget with one number for each of 1 constraints, got (1.0, 2.0)",
        ),
        (["plan", TASK, "--iterations", "0"], "expected iterations >= 1, got 0"),
        (["plan", TASK, "--seconds", "0"], "expected seconds > 0, got 0.0"),
        (["plan", TASK, "--seed", "-1"], "expected a seed: an integer >= 0"),
        (["plan", TASK, "--planner", "cc-mcp", "--penalty", "1"], "expected --penalty with planner penalized alone"),
        (
            ["plan", TASK, "--planner", "cc-mcp", "--critic", TASK],
            "expected --critic with planner frontier, cmcts or threshold-uct, got it with cc-mcp",
        ),
        (
            ["plan", "rocksample-3-2-energy", "--planner", "threshold-uct"],
            "expected a model with one constraint for ThresholdUCT, whose curves have one cost, got 2: ",
        ),
        (
            ["evaluate", TASK, "--planner", "threshold-uct", "--device", "cuda", "--episodes", "1"],
            'expected device "cpu" or "auto" for ThresholdUCT',
        ),
        (["plan", TASK, "--critic", "/nowhere"], "/nowhere"),
        (["play", TASK, "--delay", "-1"], "expected delay >= 0, got -1.0"),
        (["bench", "--seconds", "0"], "expected seconds > 0, got 0.0"),
    ],
)
def test_mistakes_get_one_clear_line(capsys, arguments, message):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("cmcts: ")
    assert message in err
    assert err.count("\n") == 1


def test_unknown_options_are_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["plan", TASK, "--iteration", "8"])
    assert stop.value.code == 2


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ModelError("expected a finite reward, got nan"), 2, "cmcts: expected a finite reward, got nan\n"),
        (MemoryError("a large tree"), 2, "cmcts: not enough memory: a large tree\n"),
        (KeyboardInterrupt(), 130, "cmcts: interrupted\n"),
    ],
)
def test_errors_on_the_way_end_without_a_traceback(capsys, monkeypatch, error, status, message):
    def fail(self):
        raise error

    monkeypatch.setattr("cmcts.commands.tasks.Tasks.run", fail)
    assert run(capsys, "tasks") == (status, "", message)


@pytest.mark.parametrize("arguments", [["tasks"], ["plan", TASK, "--iterations", "8", "--json"]])
def test_a_closed_pipe_ends_quietly(arguments):
    command = [sys.executable, "-m", "cmcts", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.slow
def test_bench_measures_every_row():
    done = subprocess.run(
        [sys.executable, "-m", "cmcts", "bench", "--json", "--seconds", "0.05"],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    *rows, summary = json.loads(done.stdout)
    keys = {"task", "planner", "rollout", "critic", "iterations", "threads", "simulations_per_second"}
    assert all(keys <= set(row) and row["simulations_per_second"] > 1000 for row in rows)
    assert {row["planner"] for row in rows} == {"cmcts", "cc-mcp", "penalized"}
    assert {row["threads"] for row in rows} == {1, 2}
    assert {"compile_cold_s", "compile_warm_s", "bytes_per_node"} <= set(summary)
    assert summary["compile_warm_s"] < summary["compile_cold_s"]


@pytest.mark.slow
def test_demo_trains_compares_and_writes_a_report(capsys, tmp_path):
    status, out, _ = run(capsys, "demo", "--episodes", "20", "--out", str(tmp_path))
    assert status == 0
    assert "safe-gridworld, real world" in out and "rocksample-5-7, real world" in out
    report = (tmp_path / "report.html").read_text()
    assert report.count("data:image/png;base64,") == 4
    for planner in ("cmcts", "cc-mcp", "penalized"):
        assert report.count(f"<td>{planner}</td>") == 2


@pytest.mark.parametrize("command", ["plan", "solve", "train"])
def test_an_empty_budget_is_not_the_tasks_own(capsys, command):
    """As from a variable of the shell that is not set: a limit on safety must not be guessed."""
    assert cli.main([command, "rocksample-5-7", "--budget"]) == 2
    assert "budget" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cmcts", "cc-mcp", "threshold-uct", "penalized"])
def test_an_exploration_that_is_named_replaces_the_tasks_own(name):
    from cmcts.commands.planner_options import make_planner

    task = make("rocksample-3-2")
    assert make_planner(task, name).planner.search.exploration is None
    named = make_planner(task, name, exploration=3.0).planner.search
    assert named == dataclasses.replace(task.search, exploration=3.0)
