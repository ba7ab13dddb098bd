"""The reproduction: its work, its folder, its tables and figures."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from cmcts.errors import InvalidInput
from cmcts.frontier.settings import FrontierSettings
from cmcts.report.tables import read_rows
from cmcts.reproduction import experiments, results
from cmcts.reproduction.charts import FIGURES, curves
from cmcts.reproduction.experiments import EXPERIMENTS, FULL, QUICK, work_of
from cmcts.reproduction.runner import Reproduction, closest_feasible
from cmcts.reproduction.text_tables import TEXTS, comparisons_table, equal_reward_table, markdown_table
from cmcts.reproduction.units import OPTIONS, Cell, Training, Tuning
from cmcts.tasks.registry import make
from cmcts.training.multipliers import Measurement
from cmcts.training.paper import paper_settings
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import TrainingSettings, run_config


class Quiet:
    """Progress for tests: stops like Ctrl-C after so many units."""

    def __init__(self, stop_after=None):
        self.done, self.stop_after = [], stop_after

    def begin(self, unit, *, done):
        if not done and len(self.done) == self.stop_after:
            raise KeyboardInterrupt

    def episodes(self, finished):
        pass

    def finish(self, unit, record):
        self.done.append(unit.name)


TASK = "rocksample-3-2"
TUNING = Tuning(TASK, "defaults", 32, 20)
UNITS = [
    TUNING,
    Cell(TASK, "defaults", "penalized", 32, 10, tuning=TUNING),
    Cell(TASK, "defaults", "cc-mcp", 32, 10),
    Cell(TASK, "paper", "cc-mcp", 16, 10, visits=True),
]


def records(run):
    """All that was recorded but times."""
    timed = ("seconds", "decision_ms", "stage_seconds")
    return {
        file.name: {k: v for k, v in json.loads(file.read_text()).items() if k not in timed}
        for file in sorted((run.path / "records").iterdir())
    }


@pytest.mark.parametrize("scale", [FULL, QUICK])
def test_every_unit_has_a_name_of_its_own_and_comes_after_what_it_needs(scale):
    units = work_of(tuple(EXPERIMENTS), scale)
    assert len({(type(unit), unit.name) for unit in units}) == len(units)
    for position, unit in enumerate(units):
        if isinstance(unit, Cell):
            assert all(units.index(need) < position for need in unit.needs)


def test_the_full_run_covers_the_papers_experiments():
    main = list(experiments.main_figure(FULL))
    assert {cell.iterations for cell in main} == {2**k for k in range(7, 14)}
    assert {(cell.task, cell.planner) for cell in main} == {
        (f"rocksample-{size}", planner)
        for size in ("5-7", "7-8", "11-11")
        for planner in ("cmcts", "cc-mcp", "penalized")
    }
    assert {line.panel for line in experiments.ablation_lines(FULL)} == {
        "planning horizon", "ensemble threshold", "simulator accuracy",
    }  # fmt: skip


def test_settings_of_trainings():
    """Defaults are what `cmcts train` uses, the paper's are its table's, and each option undoes one thing."""
    task = make("rocksample-7-8")
    assert Training("rocksample-7-8", "defaults").settings(3, False) == TrainingSettings.for_task(
        task, seed=3, frontier=FrontierSettings(columns=0)
    )
    assert Training("rocksample-7-8", "paper").settings(3, False) == paper_settings(task, 3)
    changed = Training("rocksample-7-8", "paper", iterations=128, alpha0=8.0, epsilon=0.3).settings(0, False)
    assert (changed.iterations, changed.multiplier.alpha0, changed.multiplier.epsilon) == (128, 8.0, 0.3)
    leak = Training("rocksample-7-8-leak", "paper").settings(0, False)
    assert (leak.multiplier.alpha0, leak.iterations) == (4.0, 1024)
    defaults = Training("safe-gridworld", "defaults").settings(0, False)
    for option in OPTIONS:
        undone = Training("safe-gridworld", "defaults", option=option).settings(0, False)
        assert (undone == defaults) == (option == "all on"), option


def test_an_interrupted_reproduction_goes_on_and_gives_the_same_numbers(tmp_path):
    whole = Reproduction(tmp_path / "whole", quick=True, seed=0)
    whole.run(UNITS, Quiet())
    broken = Reproduction(tmp_path / "broken", quick=True, seed=0)
    with pytest.raises(KeyboardInterrupt):
        broken.run(UNITS, Quiet(stop_after=2))
    assert len(records(broken)) == 2
    resumed, progress = Reproduction(tmp_path / "broken", quick=True, seed=0), Quiet()
    resumed.run(UNITS, progress)
    assert progress.done == [unit.name for unit in UNITS[2:]]
    assert records(resumed) == records(whole)
    assert resumed.rewards(UNITS[1]) == whole.rewards(UNITS[1])
    assert sum(row["count"] for row in resumed.visits(UNITS[3])) == sum(
        row["steps"] for row in read_rows(resumed.path / "episodes" / f"{UNITS[3].name}.csv")
    )


def test_a_folder_keeps_its_scale_and_seed(tmp_path):
    Reproduction(tmp_path, quick=True, seed=0)
    with pytest.raises(InvalidInput, match=r"expected a folder begun with .*'seed': 1.*; use another --out"):
        Reproduction(tmp_path, quick=True, seed=1)


def test_a_half_done_training_with_other_settings_is_not_gone_on_with(tmp_path):
    run, training = Reproduction(tmp_path, quick=True, seed=0), Training(TASK, "paper")
    task, settings = make(TASK), training.settings(0, quick=True)
    other = dataclasses.replace(settings, multiplier=dataclasses.replace(settings.multiplier, max_updates=7))
    RunFolder.create(tmp_path / "critics" / training.name, run_config(task, other))
    with pytest.raises(InvalidInput, match=r"was begun with multiplier.max_updates 7, got 3; use another --out"):
        run.run([training], Quiet())
    assert records(run) == {}


def measured(*costs):
    return [Measurement(np.array([float(k)]), np.array([cost]), np.array([0.01])) for k, cost in enumerate(costs)]


@pytest.mark.parametrize(
    ("costs", "chosen", "feasible"),
    [((1.4, 1.02, 0.9, 0.7), 2, True), ((1.4, 1.0, 0.99), 1, True), ((1.4, 1.02, 1.3), 1, False)],
)
def test_lambda_is_tuned_to_the_largest_cost_that_keeps_the_budget(costs, chosen, feasible):
    """Not to the closest: 1.02 is over the budget of 1."""
    row, keeps = closest_feasible(measured(*costs), np.ones(1))
    assert (row.multipliers.tolist(), keeps) == ([chosen], feasible)


def test_a_tuning_says_whether_it_keeps_the_budget(tmp_path):
    run = Reproduction(tmp_path, quick=True, seed=0)
    run.run([TUNING], Quiet())
    record = run.record(TUNING)
    costs = {row["multiplier"]: row["cost"] for row in record["tried"]}
    assert record["feasible"] == (costs[record["multipliers"][0]] <= 1.0)
    assert record["feasible"] == (min(costs.values()) <= 1.0)


def test_a_cell_whose_training_found_no_critic_says_so(tmp_path):
    run = Reproduction(tmp_path, quick=True, seed=0)
    training = Training(TASK, "paper")
    (tmp_path / "records" / f"{training.name}.json").write_text(json.dumps({"feasible": False, "seconds": 1.0}))
    cell = Cell(TASK, "paper", "cmcts", 32, 10, training)
    run.run([training, cell], Quiet())
    assert run.record(cell)["missing"] == "no feasible critic"
    assert results.row(run, cell, task=TASK)["reward"] is None


def curve_rows():
    numbers = {"episodes": 100, "reward": 10.0, "reward_low": 9.0, "reward_high": 11.0, "cost": 0.9, "cost_low": 0.8,
               "cost_high": 1.0, "violations": 2.0, "violations_low": 0.2, "violations_high": 7.0, "depth": 8.0,
               "depth_low": 7.0, "depth_high": 9.0, "missing": None}  # fmt: skip
    return [
        {"task": task, "settings": "defaults", "planner": planner, "iterations": n, **numbers, "reward": 10.0 + k}
        for task in experiments.MAPS
        for k, planner in enumerate(experiments.PLANNERS)
        for n in (128, 256)
    ]


def test_a_figure_shows_the_rows():
    figure = curves(curve_rows(), "defaults")
    assert len(figure.axes) == 9
    assert [axes.get_title() for axes in figure.axes[:3]] == ["RockSample(5,7)", "RockSample(7,8)", "RockSample(11,11)"]
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert lines["CC-MCP"].get_xdata().tolist() == [128, 256]
    assert lines["CC-MCP"].get_ydata().tolist() == [11.0, 11.0]


def test_every_figure_and_table_has_a_source():
    tables = {name for group in results.TABLES.values() for name in group}
    assert {source for source, _ in FIGURES.values()} <= tables
    assert set(TEXTS) == tables - {"visits", "zoo_picture"}


def test_comparisons_mark_where_cmcts_does_not_earn_more():
    row = {"task": "rocksample-5-7", "settings": "defaults", "iterations": 512, "cost": 1.0, "its_cost": 1.2,
           "violations": 0.0, "its_violations": 30.0}  # fmt: skip
    rows = [
        {**row, "against": "cc-mcp", "difference": 0.5, "low": 0.1, "high": 0.9},
        {**row, "against": "penalized", "difference": -0.25, "low": -0.5, "high": 0.1},
    ]
    assert comparisons_table(rows)[1] == [
        ("RockSample(5,7)", "512", "+0.50 (+0.10 to +0.90)", "1.00, 1.20", "0.0, 30.0 %",
         "-0.25 (-0.50 to +0.10) *", "1.00, 1.20", "0.0, 30.0 %")
    ]  # fmt: skip


def test_a_reward_that_was_not_reached_is_named_so():
    row = {"task": "rocksample-15-15", "planner": "cc-mcp", "paper_iterations": None, "paper_reward": None,
           "iterations": 16384, "reached": False, "reward": 7.5, "reward_low": 7.0, "reward_high": 8.0, "cost": 1.0,
           "violations": 35.0, "decision_ms": 20.0}  # fmt: skip
    assert equal_reward_table([row])[1][0][2:6] == ("N/A", "-", "not by 16384", "7.50 (7.00 to 8.00)")
    assert markdown_table("equal_reward", [row]).splitlines()[2].startswith("| RockSample(15,15) | CC-MCP | N/A |")


@pytest.mark.slow
def test_a_killed_reproduction_goes_on_and_gives_the_same_numbers(tmp_path):
    command = [sys.executable, "-m", "cmcts", "reproduce", "safe-gridworld", "--quick", "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    dice, kills = np.random.default_rng(0), 0
    while True:
        process = subprocess.Popen(
            [*command, str(tmp_path / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            assert process.wait(timeout=dice.uniform(5, 40)) == 0
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    assert kills > 0
    whole, killed = (Reproduction(tmp_path / name, quick=True, seed=0) for name in ("whole", "killed"))
    assert records(killed) == records(whole)
    for table in ("safe_gridworld", "visits"):
        rows = [read_rows(run.path / "tables" / f"{table}.csv") for run in (whole, killed)]
        assert [{k: v for k, v in row.items() if k != "decision_ms"} for row in rows[0]] == [
            {k: v for k, v in row.items() if k != "decision_ms"} for row in rows[1]
        ]
