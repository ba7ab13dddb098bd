"""The tasks in examples/: trained by the normal command, they keep their budgets and come close to the optimum."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cmcts
from cmcts import cli
from cmcts.errors import InvalidInput

pytest.importorskip("jax")

from cmcts.frontier.settings import FrontierSettings
from cmcts.training.loop import train
from cmcts.training.multipliers import MultiplierSettings
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import CriticSettings, TrainingSettings, run_config

EXAMPLES = Path(__file__).parent.parent / "examples"
BRIEF = ["--evaluation-episodes", "200", "--max-rounds", "1", "--tolerances", "0.02", "0.1", "--frontier.columns", "0"]


def test_a_users_task_is_trained_resumed_and_deployed(capsys, tmp_path, monkeypatch):
    """An environment that returns six values, from a file, in a run that is resumed from another folder."""
    reference = f"{EXAMPLES}/six_tuple.py:task"
    task = cmcts.make(reference)
    settings = TrainingSettings.for_task(
        task,
        iterations=6,
        steps_per_multiplier=60,
        walk_steps=200,
        max_rounds=1,
        evaluation_episodes=200,
        untrained=False,  # which eight neurons may lose to
        tolerances=(0.0,),
        critic=CriticSettings(hidden=(8,), steps=300, batch=32),
        multiplier=MultiplierSettings(max_updates=1),
        frontier=FrontierSettings(columns=0),
    )
    run = RunFolder.create(tmp_path / "run", run_config(task, settings))
    assert run.config["source"] == reference
    outcome = train(task, settings, run)
    assert outcome.record["feasible"] and outcome.record["cost_mean"] <= 0.1
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "--resume", "run"]) == 2
    assert f"got none: cmcts train {reference} --resume run" in capsys.readouterr().err, "a folder runs no file"
    assert cli.main(["train", reference, "--resume", "run"]) == 0
    capsys.readouterr()
    assert cli.main(["plan", reference, "--critic", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["note"] == "critic: run"
    with pytest.raises(InvalidInput, match="expected the model of task 'six-tuple' as an argument"):
        cmcts.CMCTS.load("run")
    assert cmcts.CMCTS.load("run", task.model).pruning.tolerance == 0.0
    assert cli.main(["plan", f"{EXAMPLES}/frozen_lake.py:task", "--critic", "run"]) == 2
    assert (
        "expected a critic with feature_count 16 for model 'FrozenLake-v1', got one with 2" in capsys.readouterr().err
    )
    assert cli.main(["train", f"{EXAMPLES}/plain_python.py:task", "--resume", "run"]) == 2
    assert "was begun for task 'six-tuple' with another model" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compiled_model", "plain_python", "six_tuple", "frozen_lake", "cliff_walking"])
def test_an_example_keeps_its_budget_and_nearly_reaches_the_optimum(capsys, tmp_path, name):
    task, run = f"{EXAMPLES}/{name}.py:task", str(tmp_path / "run")
    assert cli.main(["train", task, "--out", run, *BRIEF]) == 0
    capsys.readouterr()
    regret = ["--regret"] if name in ("frozen_lake", "cliff_walking") else []
    assert cli.main(["evaluate", task, "--critic", run, "--episodes", "500", "--json", *regret]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["cost_mean"] <= summary["budget"][0] + 1e-9
    if regret:
        assert summary["regret"] <= 0.1 * abs(summary["optimum_upper"])


@pytest.mark.parametrize(("budget", "best"), [(0, 5.044), (2, 5.529), (5, 6.130), (8, 6.509)])
def test_the_queue_is_the_problem_it_says_it_is(budget, best):
    from cmcts.tasks.optimum import solve_task

    task = cmcts.make(f"{EXAMPLES}/queue_control.py:task")
    assert solve_task(task, [budget]).reward_lower == pytest.approx(best, abs=5e-4)


def test_the_queue_s_outcomes_are_what_its_steps_do():
    model = cmcts.make(f"{EXAMPLES}/queue_control.py:task").model
    rng, step = cmcts.stream(0), model.uncompiled.step
    for state, action in (([0.0, 60.0], 0), ([20.0, 5.0], 1), ([3.0, 1.0], 1)):
        chances, states, rewards, costs, ends = model.outcomes(model.params, np.array(state), action)
        assert chances.sum() == pytest.approx(1.0)
        seen = []
        for _ in range(4000):
            next_state, step_costs = np.zeros(2), np.zeros(1)
            with np.errstate(over="ignore"):  # unsigned arithmetic is meant to wrap
                reward, terminal = step(model.params, np.array(state), action, rng, next_state, step_costs)
            seen.append(reward)
            assert step_costs[0] == costs[0, 0] and terminal == ends[0]
            assert any((next_state == other).all() for other in states)
        assert np.mean(seen) == pytest.approx(float(chances @ rewards), abs=0.03)
