"""Units of work on a real Ray, started by these tests: the same results, whatever happens to workers and nodes.

One node; `test_ray_nodes.py` has two, and kills them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("ray")

from cmcts.errors import ClusterWarning, InvalidInput
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import run_episodes
from cmcts.executors import Ray, UnitFailed, Work
from cmcts.executors.on_ray import QUEUED
from cmcts.planning.planners import CCMCP
from cmcts.tasks.registry import make
from units_of_work import (
    always_dies,
    assert_same_episodes,
    dies_once,
    environment,
    fails_at_three,
    hangs_once,
    slow_square,
    square,
)

pytestmark = pytest.mark.extras

TASK = make("rocksample-3-2")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def local():
    before, os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH"), environment()["PYTHONPATH"]
    with Ray("local", unit_seconds=20.0) as executor:
        yield executor
    if before is not None:
        os.environ["PYTHONPATH"] = before


def planner():
    return CCMCP(TASK.model, TASK.search, TASK.ccmcp_settings)


def test_an_evaluation_is_the_same_on_ray(local):
    settings = {"episodes": 20, "seed": 4, "iterations": 16}
    alone = run_episodes(planner(), TASK.real_world, TASK.budget, **settings)
    assert_same_episodes(alone, episodes_on(local, planner(), TASK.real_world, TASK.budget, **settings))
    assert local.tally.done >= 20 // 2
    assert local.tally.nodes == 1


def test_no_more_units_are_taken_than_are_soon_to_be_done(local):
    taken, most = [], 0

    def units():
        for unit in range(60):
            taken.append(unit)
            yield unit

    done = 0
    for unit, result in local.run(Work(square, "squares"), units()):
        assert result == unit * unit
        done += 1
        most = max(most, len(taken) - done)
    assert done == 60
    assert most <= QUEUED * local.slots


def test_a_unit_that_fails_by_itself_is_named_and_stops_the_run(local):
    with pytest.raises(UnitFailed, match="odd work, 3: ZeroDivisionError: three is too many"):
        list(local.run(Work(fails_at_three, "odd work"), range(6)))
    assert local.tally.flying == 0
    assert dict(local.run(Work(square, "squares"), [2])) == {2: 4}  # and the cluster goes on


def test_jobs_that_are_halted_leave_nothing_behind(local):
    from cmcts.executors import together

    def job(item):
        work = Work(fails_at_three, "odd work") if item == 3 else Work(slow_square, "slow")
        return list(local.run(work, [item] * 100))

    with pytest.raises(UnitFailed, match="three is too many"):
        list(together(local, job, [1, 3]))
    assert local.tally.flying == 0


@pytest.mark.parametrize("fault", [dies_once, hangs_once])
def test_a_lost_unit_is_done_again(local, tmp_path, fault, monkeypatch):
    monkeypatch.setattr(local, "unit_seconds", 1.0)
    before = local.tally.retried
    assert dict(local.run(Work(partial(fault, tmp_path), "unlucky"), range(3))) == {0: 0, 1: 1, 2: 2}
    assert local.tally.retried >= before + 3


def test_a_unit_that_kills_every_worker_is_given_up(local, monkeypatch):
    monkeypatch.setattr("cmcts.executors.on_ray.LOSSES", 2)
    with pytest.raises(UnitFailed, match="deadly, 1: lost 2 times with its worker"):
        list(local.run(Work(always_dies, "deadly"), [1]))


def test_nodes_with_other_processors_are_named(local):
    from cmcts.executors.worker import Reply

    local._processors = {"zen": "east"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        local._take_note(Reply(None, 0.0, "north", "zen", []))
    with pytest.warns(ClusterWarning, match=r"west \(oak\), east \(zen\)"):
        local._take_note(Reply(None, 0.0, "west", "oak", []))
    local._processors = {}


def test_a_task_of_a_file_works_on_workers_that_never_saw_it(tmp_path):
    """The file is gone from where it was when the work is done, and a neighbour of it goes with it."""
    from test_executors import TASK_FILE

    (tmp_path / "mine.py").write_text(TASK_FILE)
    (tmp_path / "neighbour.py").write_text("PRIZE = 2.0\n")
    script = """
import sys, pathlib, warnings
from cmcts import make, PenalizedMCTS
from cmcts.executors import Ray, Here
from cmcts.evaluation.blocks import episodes_on
folder = pathlib.Path(sys.argv[1])
task = make(f"{folder}/mine.py:task")
planner = PenalizedMCTS(task.model, 0.5, task.search)
alone = episodes_on(Here(1), planner, task.real_world, task.budget, episodes=4, seed=1, iterations=16)
for file in list(folder.glob("*.py")):
    file.rename(file.with_suffix(".gone"))
sys.path.remove(str(folder))
"""
    script = script.replace("for file in", "SHIP\nfor file in", 1)
    # Modules are packed when Ray is entered: the files go only then.
    script = (
        script.replace("SHIP", 'executor = Ray("local").__enter__()')
        + """
there = episodes_on(executor, planner, task.real_world, task.budget, episodes=4, seed=1, iterations=16)
print((alone[0].rewards == there[0].rewards).all(), there[0].rewards.tolist(), executor.tally.done)
executor.__exit__()
"""
    )
    file = tmp_path / "run.txt"
    file.write_text(script)
    ended = subprocess.run(
        [sys.executable, str(file), str(tmp_path)], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert ended.stdout == "True [2.0, 2.0, 2.0, 2.0] 4\n", ended.stderr


def test_a_process_that_has_joined_one_cluster_does_not_take_it_for_another(local):
    with pytest.raises(InvalidInput, match=r"no other Ray cluster than 127\.0\.0\.1:1, got one at "):
        Ray("127.0.0.1:1").__enter__()
    assert dict(local.run(Work(square, "squares"), [2])) == {2: 4}


@pytest.mark.parametrize("address", ["127.0.0.1:1", "auto"])
def test_a_cluster_that_is_not_there_is_named(address):
    script = f"""
from cmcts.executors import Ray
from cmcts.errors import InvalidInput
try:
    Ray({address!r}).__enter__()
except InvalidInput as error:
    print(error)
"""
    nowhere = {**environment(), "RAY_ADDRESS": "127.0.0.1:1"}
    ended = subprocess.run([sys.executable, "-c", script], env=nowhere, capture_output=True, text=True, timeout=180)
    where = "RAY_ADDRESS 127.0.0.1:1" if address == "auto" else address
    assert ended.stdout.startswith(f"expected a Ray cluster at {where} "), ended.stderr
