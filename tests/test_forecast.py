"""How long a training takes: near enough at first, nearer as stages are done, and the same after a kill."""

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest

from cmcts import cli
from cmcts.commands.progress import TrainingEvents, TrainingProgress
from cmcts.evaluation.walks import walk
from cmcts.frontier.settings import FrontierSettings
from cmcts.tasks.registry import make
from cmcts.training.forecast import FirstLook, Forecast, about, first_look, likely_kinds
from cmcts.training.settings import TrainingSettings
from conftest import compiled_only

TASK = make("rocksample-4-2")
ITERATIONS, WORKERS = 512, 2
LOOK = FirstLook(simulations=500_000.0, step_seconds=1e-4, episode_steps=10.0)
DECISION = ITERATIONS / 1_000_000 + 1e-4  # seconds, of both workers


def settings(columns=0, **changes):
    frontier = FrontierSettings(columns=columns)
    return TrainingSettings.for_task(TASK, iterations=ITERATIONS, frontier=frontier, **changes)


def forecast(columns=0, look=LOOK, history=(), workers=WORKERS, watched=False, **changes):
    return Forecast(TASK, settings(columns, **changes), look, workers, watched=watched, history=history)


def schedule(slower=1.0, gathers=3, columns=0):
    """The records of a training of three rounds whose stages take what their work takes at this pace."""

    def searched(phase, steps, **figures):
        return {"phase": phase, "steps": steps, "episodes": steps // 10, "seconds": slower * steps * DECISION} | figures

    rows = [{"phase": "walk", "round": 0, "walked": 40_000, "seconds": 40_000 * 1e-4}]
    for round_ in range(3):
        rows += [searched("gather", 1000, round=round_) for _ in range(gathers)]
        if round_ == 0:
            rows += [searched("explore", 640, round=0) for _ in range(3)]
        rows += [{"phase": "fit", "round": round_, "seconds": 6.0}]
        rows += [searched("evaluate", 4000, round=round_, seconds=2 * slower * 4000 * DECISION) for _ in range(2)]
    rows += [searched("confirm", 4000, round=1, seconds=2 * slower * 4000 * DECISION)]
    rows += [searched("untrained", 4000, round=0)]
    for column in range(columns):
        rows += [searched("screen", 1000, column=column, simulations=1000 * ITERATIONS)]
        rows += [searched("choose", 7000, column=column, simulations=7000 * ITERATIONS)]
    rows += [searched("confirm", 4000, column=0, simulations=4000 * ITERATIONS) for _ in range(columns // 2)]
    return rows


def left_after_each(told, rows):
    left = []
    for row in rows:
        told.finish(row, resumed=False)
        left.append(told.left)
    return left


@pytest.mark.parametrize("columns", [0, 20])
def test_a_forecast_is_near_at_first_and_falls_to_nothing(columns):
    rows = schedule(columns=columns // 2)
    told = forecast(columns)
    seconds = sum(row["seconds"] for row in rows)
    assert seconds / 2 < told.left < 2 * seconds
    left = [told.left, *left_after_each(told, rows)]
    assert max(np.diff(left[:-1])) < 0.1 * left[0], "no stage makes it much longer"
    by_then = seconds - np.cumsum([row["seconds"] for row in rows])
    middle = len(rows) // 2
    assert by_then[middle] / 2 < left[1 + middle] < 2 * by_then[middle]
    assert left[-1] <= max(row["seconds"] for row in rows)
    if columns == 0:
        assert all(later < sooner for sooner, later in pairwise(left))
        assert left[-1] == 0.0


@pytest.mark.parametrize("slower", [0.1, 10.0])
def test_stages_that_are_done_set_a_wrong_first_look_right(slower):
    rows = schedule(slower)
    told, seconds = forecast(), sum(row["seconds"] for row in rows)
    first_round = [row for row in rows if row.get("round") == 0 and row["phase"] != "untrained"]
    left = left_after_each(told, first_round)[-1]
    really = seconds - sum(row["seconds"] for row in first_round)
    assert really / 1.5 < left < 1.5 * really


def test_a_stage_that_waited_for_a_compiler_is_not_believed():
    rows = schedule()
    rows[1]["seconds"] += 60.0
    told = forecast()
    assert max(left_after_each(told, rows[:3])) < forecast().left


def test_rounds_are_as_long_as_those_before():
    few, many = forecast(), forecast()
    for told, gathers in ((few, 1), (many, 5)):
        rows = [row for row in schedule(gathers=gathers) if row.get("round") in (0, 1) and row["phase"] != "confirm"]
        left_after_each(told, [row for row in rows if row["phase"] != "untrained"])
    difference = many.left - few.left
    assert difference == pytest.approx(4 * 1000 * DECISION, rel=0.05), "of the one round that is likely still to come"


def test_a_stage_under_way_counts_by_what_is_left_of_it():
    told = forecast()
    before = told.left
    told.begin("walk", 40_000, round=0)
    assert told.left == pytest.approx(before)
    told.advance(30_000)
    assert told.left == pytest.approx(before - 3.0)
    told.advance(30_000)
    assert told.left == pytest.approx(before - 4.0), "a stage may have more units than it said"
    told.begin("tabulate", 500, column=0, states=5)
    told.begin("screen", 100, column=0)
    assert told.left >= 0.0


@pytest.mark.parametrize("done", [0, 1, 5, 11, 20, 40])
def test_a_run_that_goes_on_is_foreseen_as_it_was(done):
    rows = schedule(columns=10)
    told, again = forecast(20), forecast(20, history=rows[:done])
    left_after_each(told, rows[:done])
    for row in rows[:done]:  # as a resumed training tells them once more
        again.finish(row, resumed=True)
    assert again.left == told.left
    assert (" left, by what was done before" in again.in_words()) == (done > 0)
    assert (" in all, by a first look" in again.in_words()) == (done == 0)
    assert left_after_each(told, rows[done:]) == left_after_each(again, rows[done:])


def test_what_a_training_does_takes_time_and_what_it_leaves_out_does_not():
    plain = forecast().left
    assert forecast(watched=True).left == pytest.approx(plain + 40_000 * 1e-4)
    assert forecast(walk_steps=0).left == pytest.approx(plain - 40_000 * 1e-4)
    assert forecast(untrained=False).left == pytest.approx(plain - 4000 * DECISION)
    assert forecast(max_rounds=1).left < forecast(max_rounds=2).left < plain
    assert forecast(max_rounds=9).left == plain, "patience decides"
    assert forecast(40).left > plain + forecast().a_round
    assert forecast(workers=200).left < plain < forecast(workers=1).left
    assert {kind.name for kind in likely_kinds(TASK, settings(), 10.0, watched=False) if kind.part == "columns"} == {
        "screen",
        "choose",
        "learn",
    }
    assert all(k.stages == 0 for k in likely_kinds(TASK, settings(), 10.0, watched=True)[-4:])


def test_unknown_stages_are_no_fault():
    told = forecast()
    before = told.left
    told.begin("dance", 10)
    told.advance(5)
    told.finish({"phase": "dance", "seconds": 100.0}, resumed=False)
    assert told.left == before


def test_rough_times_are_in_words():
    said = [about(seconds) for seconds in (0.0, 42.4, 100, 3500, 7300)]
    assert said == ["about 1 s", "about 42 s", "about 2 min", "about 58 min", "about 2 h"]


def test_events_say_how_many_seconds_are_left(capsys):
    events = TrainingEvents()
    events.begin("walk", 40_000, round=0)
    events.foresee(forecast())
    for row in schedule():
        events.begin(row["phase"], 100, round=row.get("round", 0))
        events.finish(row, resumed=False)
    events.finish(schedule()[0], resumed=True)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert "left_seconds" not in lines[0]
    assert lines[1]["event"] == "said" and lines[1]["text"].startswith("about ")
    left = [line["left_seconds"] for line in lines[2:]]
    assert {line["event"] for line in lines[2:]} == {"stage begun", "stage done"}
    assert left == sorted(left, reverse=True) and left[0] > 10 and left[-1] == 0


def test_the_live_line_says_how_long_the_whole_still_takes(capsys):
    progress = TrainingProgress(TASK, settings())
    assert progress.bar.tasks[0].fields["left"] == ""
    told = forecast()
    progress.foresee(told)
    progress.begin("walk", 40_000, round=0)
    assert progress.bar.tasks[0].fields["left"] == f"{about(told.left)} left in all"
    first = told.left
    progress.advance(40_000)
    assert told.left < first
    assert progress.bar.tasks[0].fields["left"] == f"{about(told.left)} left in all"
    assert " in all, by a first look" in " ".join(capsys.readouterr().err.split())


@compiled_only
def test_a_first_look_changes_nothing_that_is_trained():
    seen = vars(walk(TASK.model, TASK.training_world, 5, 100))
    look = first_look(TASK)
    assert look.simulations > 0 and look.step_seconds > 0 and 1 <= look.episode_steps <= 100
    again = vars(walk(TASK.model, TASK.training_world, 5, 100))
    assert all((seen[name] == again[name]).all() for name in seen)


@compiled_only
@pytest.mark.parametrize("columns", ["0", "40"])
def test_the_command_begins_and_goes_on_with_a_forecast(monkeypatch, tmp_path, capsys, columns):
    pytest.importorskip("jax")
    from cmcts.training.loop import Outcome

    def some_training(task, settings, run, reporter, **_):
        assert run.history == [] or run.history[0]["phase"] == "walk"
        row = run.find("walk") or run.finish("walk", schedule()[0])
        reporter.finish(row, resumed=len(run.history) > 1)
        return Outcome(None, None, 0)

    monkeypatch.setattr("cmcts.training.loop.train", some_training)
    out = str(tmp_path / "run")
    arguments = ["rocksample-4-2", "--frontier.columns", columns, "--out", out]
    for words, options in ((" in all, by a first look", arguments), (" left, by what was done", ["--resume", out])):
        assert cli.main(["train", *options, "--json"]) == 1
        events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert words in events[0]["text"]
        assert events[1]["left_seconds"] > 0


def test_look_and_workers_scale_the_search_alone():
    slow = dataclasses.replace(LOOK, simulations=LOOK.simulations / 2)
    assert forecast(look=slow, workers=2 * WORKERS).left == pytest.approx(forecast().left)
