"""`cmcts train`: its options are the training's settings, and a run keeps what it was begun with."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

from cmcts import cli
from cmcts.commands.train import Train
from cmcts.critic import bundle as bundles
from cmcts.errors import InvalidInput
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make
from cmcts.training.loop import Outcome
from cmcts.training.multipliers import MultiplierSettings
from cmcts.training.paper import paper_settings
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import CriticSettings, TrainingSettings, run_config, settings_from_config, task_from_config


@pytest.fixture
def trained(monkeypatch):
    """What trainings were asked for; none is done."""
    asked = []

    def no_training(task, settings, run, reporter, *, device, executor, watch, earlier):
        assert device in ("cpu", "auto")
        asked.append((task, settings, run))
        if watch is not None:
            asked[-1] += (watch,)
        if earlier:
            asked[-1] += (earlier,)
        return Outcome(None, None, 0)

    monkeypatch.setattr("cmcts.training.loop.train", no_training)
    return asked


def test_a_run_may_be_resumed_on_another_device(trained, tmp_path):
    out = str(tmp_path / "run")
    assert cli.main(["train", "rocksample-4-2", "--out", out]) == 1
    assert cli.main(["train", "--resume", out, "--device", "auto"]) == 1
    assert trained[0][1] == trained[1][1]


def test_a_policy_to_be_watched_is_asked_and_kept(trained, tmp_path, capsys):
    (tmp_path / "mine.py").write_text("def east(state):\n    return 1\n\nnumber = 7\n")
    mine, out = f"{tmp_path / 'mine.py'}", tmp_path / "run"
    assert cli.main(["train", "rocksample-4-2", "--watch", f"{mine}:number", "--out", str(out)]) == 2
    assert "expected a policy that is a function or has predict, got 7" in capsys.readouterr().err
    assert not out.exists()
    assert cli.main(["train", "rocksample-4-2", "--watch", f"{mine}:east", "--out", str(out)]) == 1
    assert trained[0][3](np.zeros(4)) == 1
    capsys.readouterr()
    assert cli.main(["train", "--resume", str(out)]) == 2
    assert f"expected the policy that this run was begun with, --watch {mine}:east, got None" in capsys.readouterr().err
    assert cli.main(["train", "--resume", str(out), "--watch", f"{mine}:east"]) == 1
    assert len(trained) == 2


def test_what_a_training_starts_from_is_loaded_and_kept(trained, tmp_path, capsys):
    shutil.copytree(bundles.find("rocksample-5-7"), tmp_path / "mine")
    task, out = ["train", "rocksample-5-7"], str(tmp_path / "run")
    assert cli.main([*task, "--from", str(tmp_path / "nothing"), "--out", out]) == 2
    assert "expected a folder where `cmcts train` has finished" in capsys.readouterr().err
    assert cli.main(["train", "rocksample-7-8", "--from", "rocksample-5-7", "--out", out]) == 2
    assert (
        "expected a bundle of rocksample-7-8, got rocksample-5-7, of rocksample-5-7: expected"
        in capsys.readouterr().err
    )
    assert not Path(out).exists()
    named = ["--from", "rocksample-5-7", str(tmp_path / "mine")]
    assert cli.main([*task, *named, "--out", out]) == 1
    assert [one.bundle.task for one in trained[0][3]] == ["rocksample-5-7"] * 2
    capsys.readouterr()
    assert cli.main(["train", "--resume", out]) == 2
    assert "expected what this run was begun with, --from rocksample-5-7" in capsys.readouterr().err
    assert cli.main(["train", "--resume", out, *named]) == 1
    bundles.save(dataclasses.replace(bundles.load("rocksample-5-7"), training={}), tmp_path / "mine")
    assert cli.main(["train", "--resume", out, *named]) == 2
    assert "or other content" in capsys.readouterr().err
    assert len(trained) == 2


MARKING = """
from pathlib import Path
import cmcts
Path(__file__).with_suffix(".was-run").touch()
task = cmcts.make("rocksample-4-2")
"""


@pytest.mark.parametrize("name", ["source", "task"])
def test_a_run_does_not_get_to_say_which_file_is_run(trained, tmp_path, capsys, name):
    """A folder may come from anywhere; the file is run if it is named on the command line."""
    (tmp_path / "mine.py").write_text(MARKING)
    mine, mark = f"{tmp_path / 'mine.py'}:task", tmp_path / "mine.was-run"
    assert cli.main(["train", "rocksample-4-2", "--out", str(tmp_path / "run")]) == 1
    config = RunFolder.open(tmp_path / "run").config
    forged = str(RunFolder.create(tmp_path / "forged", config | {name: mine}).path)
    capsys.readouterr()
    assert cli.main(["train", "--resume", forged]) == 2
    said = {"source": f"expected the task of this run as well, got none: cmcts train {mine} --resume {forged}"}
    assert said.get(name, f"got {mine!r}") in capsys.readouterr().err
    assert not mark.exists()
    assert len(trained) == 1
    cli.main(["train", mine, "--resume", forged])
    assert mark.exists()


def test_another_budget_is_trained_for_and_kept(trained, tmp_path, capsys):
    out = tmp_path / "run"
    assert cli.main(["train", "rocksample-4-2", "--budget", "0.25", "--out", str(out)]) == 1
    assert json.loads((out / "config.json").read_text())["budget"] == [0.25]
    assert cli.main(["train", "--resume", str(out)]) == 1
    assert [task.budget for task, _, _ in trained] == [(0.25,), (0.25,)]
    assert trained[0][1] == trained[1][1]
    capsys.readouterr()
    assert cli.main(["train", "--resume", str(out), "--budget", "0.5"]) == 2
    assert capsys.readouterr().err == "cmcts: expected --resume alone: a run keeps its settings; got budget as well\n"


def test_a_budget_for_another_number_of_constraints_is_refused(trained, tmp_path, capsys):
    out = tmp_path / "run"
    assert cli.main(["train", "rocksample-4-2", "--budget", "0.25", "1", "--out", str(out)]) == 2
    assert "expected budget with one number for each of 1 constraints" in capsys.readouterr().err
    assert not out.exists() and not trained


def test_a_run_with_another_budget_is_not_gone_on_with(tmp_path):
    task = make("rocksample-4-2")
    settings = TrainingSettings.for_task(task)
    config = run_config(dataclasses.replace(task, budget=0.25), settings)
    with pytest.raises(InvalidInput, match=r"was begun with budget \[0.25\], got \[1.0\]"):
        settings_from_config(task, config, tmp_path)
    assert settings_from_config(task_from_config(task, config), config, tmp_path) == settings
    old = {name: value for name, value in config.items() if name != "budget"}
    assert settings_from_config(task_from_config(task, old), old, tmp_path) == settings


def asked_for(trained, tmp_path, *arguments):
    """The settings of a training with these options."""
    assert cli.main(["train", *arguments, "--out", str(tmp_path / str(len(trained)))]) == 1
    return trained[-1][1]


def test_defaults_are_those_of_the_task(trained, tmp_path):
    """Wherever it stands among the arguments."""
    for name in ("safe-gridworld", "rocksample-5-7"):
        task = make(name)
        assert asked_for(trained, tmp_path, name) == TrainingSettings.for_task(task)
        assert asked_for(trained, tmp_path, name, "--paper", "--seed", "3") == paper_settings(task, 3)
        assert asked_for(trained, tmp_path, "--seed", "3", "--paper", name) == paper_settings(task, 3)


def test_every_setting_is_an_option(trained, tmp_path):
    got = asked_for(
        trained, tmp_path, "safe-gridworld", "--iterations", "7", "--tolerances", "0.5", "--accountings", "expected",
        "--search.no-guarded-rollouts", "--search.rollout", "uniform", "--pruning.no-cost-floor",
        "--pruning.fallback", "lowest_mean", "--critic.hidden", "3", "4", "--critic.target", "sarsa",
        "--multiplier.rule", "sign",
    )  # fmt: skip
    usual = TrainingSettings.for_task(make("safe-gridworld"))
    assert got == dataclasses.replace(
        usual,
        iterations=7,
        tolerances=(0.5,),
        accountings=("expected",),
        search=dataclasses.replace(usual.search, guarded_rollouts=False, rollout="uniform"),
        pruning=dataclasses.replace(usual.pruning, cost_floor=False, fallback="lowest_mean"),
        critic=dataclasses.replace(usual.critic, hidden=(3, 4), target="sarsa"),
        multiplier=dataclasses.replace(usual.multiplier, rule="sign"),
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--seed", "1"], "seed"),
        (["--paper"], "paper"),
        (["--search.rollout", "uniform"], "search.rollout"),
        (["--critic.learning-rate", "0.5"], "critic.learning-rate"),
    ],
)
@pytest.mark.parametrize("task", [[], ["safe-gridworld"]])
def test_a_resumed_run_keeps_its_settings(trained, tmp_path, capsys, task, arguments, name):
    asked_for(trained, tmp_path, "safe-gridworld")
    capsys.readouterr()
    assert cli.main(["train", *task, "--resume", str(tmp_path / "0"), *arguments]) == 2
    message = f"cmcts: expected --resume alone: a run keeps its settings; got {name} as well\n"
    assert capsys.readouterr().err == message
    assert cli.main(["train", *task, "--resume", str(tmp_path / "0")]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rocksample-4-2", "--search.discount", "2"], "expected a discount above 0 and at most 1, got 2.0"),
        (["rocksample-4-2", "--patience", "-1"], "expected patience >= 0, got -1"),
        (["rocksample-4-2", "--pruning.sigma-max", "inf"], "expected finite numbers, the only ones that JSON knows"),
        (["rocksample"], "expected a task: one of "),
        ([], "expected a task to train on, or --resume DIR; got neither"),
    ],
)
def test_settings_that_are_refused_get_one_line(trained, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"cmcts: {message}") and err.count("\n") == 1
    assert not trained


@pytest.mark.parametrize(("task", "horizon", "iterations"), [([], "None", "1024"), (["safe-gridworld"], "32", "1024")])
def test_help_shows_the_tasks_own_defaults(capsys, monkeypatch, task, horizon, iterations):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        cli.main(["train", *task, "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", "").split())
    for option, value in (("search.horizon", horizon), ("search.iterations", iterations)):
        assert re.search(rf"--{option} \S+ [^-]+ \(default: {value}\)", text)


@pytest.mark.parametrize(
    "kind", [TrainingSettings, CriticSettings, MultiplierSettings, SearchSettings, PruningSettings, Train]
)
def test_every_option_says_what_it_is(kind):
    """A field's docstring is its help text."""
    body = ast.parse(inspect.getsource(kind)).body[0].body
    fields = {line.target.id: after for line, after in pairwise(body) if isinstance(line, ast.AnnAssign)}
    assert set(fields) == {field.name for field in dataclasses.fields(kind)}
    for name, after in fields.items():
        assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant), f"{kind.__name__}.{name}"


def test_help_needs_no_jax():
    script = """
import sys
from cmcts import cli
try:
    cli.main(["train", "safe-gridworld", "--help"])
except SystemExit:
    print([name for name in ("jax", "equinox", "optax", "gymnasium", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "[]"
