"""`cmcts train`: its options are the training's settings, and a run keeps what it was begun with."""

from __future__ import annotations

import dataclasses
import json

import pytest

pytest.importorskip("jax")

from cmcts import cli
from cmcts.errors import InvalidInput
from cmcts.tasks.registry import make
from cmcts.training.loop import Outcome
from cmcts.training.settings import TrainingSettings, run_config, settings_from_config, task_from_config


@pytest.fixture
def trained(monkeypatch):
    """What trainings were asked for; none is done."""
    asked = []

    def no_training(task, settings, run, reporter):
        asked.append((task, settings, run))
        return Outcome(None, None, 0)

    monkeypatch.setattr("cmcts.training.loop.train", no_training)
    return asked


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
