"""A sweep: rows from a file, results over seeds, and a command that goes on where it stopped."""

from __future__ import annotations

import dataclasses
import json

import pytest

from cmcts import cli
from cmcts.critic import bundle as bundles
from cmcts.errors import InvalidInput
from cmcts.report.tables import read_rows
from cmcts.sweep.charts import figures
from cmcts.sweep.results import over_seeds, table
from cmcts.sweep.table import Sweep
from cmcts.tasks.registry import make

FILE = """
tasks = ["rocksample-3-2"]
planners = ["cc-mcp", "penalized"]
seeds = 2
episodes = 3

[settings]
iterations = [4, 8]
penalty = [1.0, 2.0]
"""

ONE_CRITIC = """
tasks = ["rocksample-5-7"]
planners = ["cmcts"]
seeds = 3
episodes = 3

[settings]
iterations = 16

[training]
frontier.columns = 0
"""


def read(tmp_path, text):
    file = tmp_path / "study.toml"
    file.write_text(text)
    return Sweep.read(file)


def test_every_combination_is_a_row_once(tmp_path):
    rows = read(tmp_path, FILE).rows()
    # A penalty means nothing to CC-MCP: 2 iterations x 2 seeds for it, and twice that for the other.
    assert len(rows) == 4 + 8
    assert len({row.name for row in rows}) == len(rows)
    assert rows[0].values == {"iterations": 4}
    assert rows[-1].values == {"iterations": 8, "penalty": 2.0}
    assert rows[0].name.startswith("rocksample-3-2_cc-mcp_seed0_")


def test_trainings_are_made_of_the_tasks_settings_and_the_sweeps(tmp_path):
    text = """
tasks = ["rocksample-3-2"]
planners = ["cmcts", "cc-mcp"]
seeds = [3]
[training]
iterations = [16, 32]
tolerances = [0.02, 0.1]
critic = {steps = 100, hidden = [[8], [16, 16]]}
"""
    rows = read(tmp_path, text).rows()
    trainings = [row.training for row in rows if row.planner == "cmcts"]
    assert len(trainings) == 4
    assert [row.training for row in rows if row.planner == "cc-mcp"] == [None]
    settings = trainings[1].settings_for(make("rocksample-3-2"))
    assert (settings.iterations, settings.seed, settings.tolerances) == (16, 3, (0.02, 0.1))
    assert (settings.critic.steps, settings.critic.hidden) == (100, (16, 16))
    assert settings.search == make("rocksample-3-2").search


@pytest.mark.parametrize(
    "text, message",
    [
        ("tasks = []", "expected tasks once each, at least one"),
        ("tasks = ['a']\nseeds = 0", "expected seeds >= 0, at least one"),
        ("tasks = ['a']\nsede = 1", "expected known names only, got sede"),
        ("tasks = ['a']\n[settings]\niteration = 3", r"got iteration \(did you mean iterations\?\)"),
        ("tasks = ['a']\n[training.critic]\nstep = 3", r"got critic.step \(did you mean critic.steps\?\)"),
        ("tasks = ['a']\nplanners = ['best']", "planners"),
        ("tasks = [", "study.toml"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_by_name(tmp_path, text, message):
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, text)


def test_means_over_seeds_have_students_interval(tmp_path):
    rows = read(tmp_path, "tasks = ['t']\nplanners = ['cc-mcp']\nseeds = 3").rows()
    figures_of = {"cost_mean": 1.0, "cost_se": 0.0, "violation_rate": 0.0, "budget": 1.0}
    records = {row.name: {"reward_mean": float(row.seed), "reward_se": 0.0, **figures_of} for row in rows[:2]}
    records[rows[2].name] = {"missing": "no feasible critic"}
    lines = table(rows, records)
    assert [line["reward"] for line in lines] == [0.0, 1.0, None]
    (mean,) = over_seeds(lines)
    assert (mean["reward"], mean["seeds"], mean["infeasible"]) == (0.5, 2, 1)
    # Student's t for one degree of freedom is 12.706, and the standard error is 1/2.
    assert mean["reward_low"] == pytest.approx(0.5 - 12.7062 / 2, abs=1e-3)
    assert (mean["cost_low"], mean["cost_high"]) == (1.0, 1.0)
    (alone,) = over_seeds(lines[:1])
    assert alone["reward_low"] is None


def test_a_training_whose_critic_does_not_pay_is_played_with_what_it_leaves(tmp_path, monkeypatch):
    """Pruning by immediate costs alone, if that was found best. Where nothing was feasible, nothing is played."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(ONE_CRITIC)
    left = dataclasses.replace(bundles.load("rocksample-5-7"), layers=None, support=None, columns=())

    def train(runner, training):
        found = {0: {"critic": bundles.DOES_NOT_PAY}, 1: {}}
        if training.seed in found:
            bundle = dataclasses.replace(left, training=found[training.seed])
            bundles.save(bundle, runner.folder.path / "trainings" / training.name)

    monkeypatch.setattr("cmcts.commands.sweep._Runner.train", train)
    assert cli.main(["sweep", "study.toml"]) == 0
    rows = read_rows(tmp_path / "runs" / "study" / "results.csv")
    assert [row["reward"] is None for row in rows] == [False, True, True]
    assert rows[0]["over_budget"] == 0.0 and rows[0]["reward"] > 0


def test_a_sweep_is_done_once(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(FILE)
    assert cli.main(["sweep", "study.toml"]) == 0
    out, _ = capsys.readouterr()
    assert "means.csv" in out
    folder = tmp_path / "runs" / "study"
    results = read_rows(folder / "results.csv")
    assert len(results) == 12
    assert {(row["planner"], row["iterations"], row["penalty"]) for row in results} == {
        ("cc-mcp", 4, None), ("cc-mcp", 8, None), *(("penalized", i, p) for i in (4, 8) for p in (1.0, 2.0))
    }  # fmt: skip
    assert all(row["episodes"] == 3 for row in results)
    means = read_rows(folder / "means.csv")
    assert len(means) == 6
    assert sorted(figures(means)) == ["iterations", "penalty"]
    assert sorted(path.name for path in folder.glob("*.png")) == ["iterations.png", "penalty.png"]
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(folder / "results.parquet").column("reward").to_pylist() == [
        row["reward"] for row in results
    ]
    # Again, with one seed more: what is done stays as it is, and what is lost is found among the kept episodes.
    before = {path: path.stat().st_mtime_ns for path in (folder / "records").iterdir()}
    lost = next(iter(before))
    content = json.loads(lost.read_text())
    lost.unlink()
    (tmp_path / "study.toml").write_text(FILE.replace("seeds = 2", "seeds = 3"))
    assert cli.main(["sweep", "study.toml", "--json"]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["means"]) == 6
    events = [json.loads(line) for line in err.splitlines()]
    assert [event["event"] for event in events].count("played") == 7
    assert {path: path.stat().st_mtime_ns for path in before if path != lost} == {
        path: time for path, time in before.items() if path != lost
    }
    again = json.loads(lost.read_text())
    assert {**again, "seconds": 0} == {**content, "seconds": 0}
    (tmp_path / "study.toml").write_text(FILE.replace("episodes = 3", "episodes = 4"))
    assert cli.main(["sweep", "study.toml"]) == 2
    assert "begun with the same episodes" in capsys.readouterr().err
