"""Units of work: the same results whoever does them, in whatever order, and after whatever went wrong."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from cmcts import cli
from cmcts.errors import InvalidInput
from cmcts.evaluation.blocks import Block, KeptBlocks, block_size, episodes_on
from cmcts.evaluation.episodes import run_episodes
from cmcts.executors import Here, Ray, Tally, UnitFailed, Work, together
from cmcts.executors.sources import pack
from cmcts.executors.units import Halted
from cmcts.executors.worker import do, library
from cmcts.planning.planners import CCMCP
from cmcts.tasks.registry import make
from units_of_work import assert_same_episodes, fails_at_three, square

TASK = make("rocksample-3-2")
PLAYED = {"episodes": 10, "seed": 4, "iterations": 8}


class Elsewhere(Here):
    """Does units as another machine would: on copies of everything, three at a time, the last of them first."""

    slots = 3

    def run(self, work, units):
        there = pickle.loads(pickle.dumps(work))
        for unit in reversed(list(units)):
            yield unit, pickle.loads(pickle.dumps(there.function(unit)))


@pytest.fixture(scope="module")
def planner():
    return CCMCP(TASK.model, TASK.search, TASK.ccmcp_settings)


@pytest.fixture(scope="module")
def alone(planner):
    return run_episodes(planner, TASK.real_world, TASK.budget, **PLAYED)


@pytest.mark.parametrize("executor", [None, Here(1), Here(2), Elsewhere(1)], ids=["none", "one", "cores", "elsewhere"])
def test_episodes_are_the_same_whoever_plays_them(planner, alone, executor):
    assert_same_episodes(alone, episodes_on(executor, planner, TASK.real_world, TASK.budget, **PLAYED))


@pytest.mark.parametrize("executor", [Here(1), Elsewhere(1)], ids=["one", "elsewhere"])
def test_plans_that_are_remembered_are_the_same_in_every_block(planner, executor):
    settings = {**PLAYED, "first_episode": 3, "plans_a_state": 2}
    alone = run_episodes(planner, TASK.real_world, TASK.budget, **settings)
    assert_same_episodes(alone, episodes_on(executor, planner, TASK.real_world, TASK.budget, **settings))


def test_blocks_are_large_enough_to_cost_nothing_and_small_enough_to_share():
    assert block_size(slots=1, episodes=500) == 256
    assert block_size(slots=2, episodes=500) == 31
    assert block_size(slots=100, episodes=500) == 1
    assert block_size(slots=2, episodes=1_000_000) == 64
    assert block_size(slots=2, episodes=1_000_000, device="cuda") == 16384


def test_progress_counts_every_episode(planner):
    heard = []
    episodes_on(
        Elsewhere(1), planner, TASK.real_world, 1.0, on_steps=lambda steps, done: heard.append((steps, done)), **PLAYED
    )
    assert sum(done for _, done in heard) == 10
    assert all(steps >= done for steps, done in heard)


def test_a_killed_evaluation_goes_on_where_it_stopped(planner, alone, tmp_path):
    class Dies(Elsewhere):
        def run(self, work, units):
            yield from list(super().run(work, units))[:4]
            raise KeyboardInterrupt

    def play(executor, on_steps=None):
        kept = KeptBlocks(tmp_path / "kept", {"task": TASK.name})
        return episodes_on(executor, planner, TASK.real_world, TASK.budget, kept=kept, on_steps=on_steps, **PLAYED)

    with pytest.raises(KeyboardInterrupt):
        play(Dies(1))
    assert sorted(path.name for path in (tmp_path / "kept").glob("4-*")) == [
        f"4-{k}-1.safetensors" for k in range(6, 10)
    ]
    heard = []
    assert_same_episodes(alone, play(Here(1), lambda _, done: heard.append(done)))
    assert heard == [4, 6]  # four were there; the rest is one block for an executor with one slot
    assert_same_episodes(alone, play(None))


def test_kept_episodes_of_something_else_are_refused(tmp_path):
    KeptBlocks(tmp_path / "kept", {"task": "a", "budget": [1.0]})
    with pytest.raises(InvalidInput, match=r"begun with budget \[2.0\], got .* with \[1.0\]"):
        KeptBlocks(tmp_path / "kept", {"task": "a", "budget": [2.0]})
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "letter.txt").write_text("Dear")
    with pytest.raises(InvalidInput, match="expected a new or empty folder"):
        KeptBlocks(tmp_path / "else", {})


def test_a_damaged_block_is_named(planner, tmp_path):
    kept = KeptBlocks(tmp_path, {})
    (tmp_path / "4-0-2.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InvalidInput, match=r"4-0-2\.safetensors is damaged"):
        episodes_on(None, planner, TASK.real_world, TASK.budget, kept=kept, **PLAYED)


def test_a_unit_that_fails_is_named_with_its_seed():
    work = Work(fails_at_three, "model m")
    with pytest.raises(UnitFailed, match="model m, 3: ZeroDivisionError: three is too many"):
        list(Here().run(work, [1, 2, 3, 4]))
    assert str(Block(seed=7, first=32, episodes=8)) == "episodes 32 to 39 of seed 7"


def test_the_tally_counts_what_a_person_wants_to_know():
    tally, events = Tally(), []
    tally.listener = events.append
    tally.expect(4)
    tally.size(nodes=2, slots=3)
    for _ in range(4):
        tally.submitted()
    assert (tally.running, tally.flying, tally.seconds_left) == (3, 4, None)
    tally.arrived("a", 0.5, "n1")
    tally.lost("b", "its node died")
    assert (tally.done, tally.retried, tally.flying, tally.running) == (1, 1, 2, 2)
    assert tally.line().startswith("1 of 4 units, 2 running, 1 retried, 2 nodes, ")
    assert [event["event"] for event in events] == ["nodes", "done", "retried"]
    assert events[1] == {
        "event": "done", "unit": "a", "seconds": 0.5, "node": "n1", "done": 1, "running": 3, "retried": 0, "nodes": 2
    }  # fmt: skip


def test_jobs_go_side_by_side_and_the_first_error_ends_them_all():
    class Many(Here):
        slots = 3

        def __init__(self):
            super().__init__()
            self.stopped = threading.Event()

        def halt(self):
            self.stopped.set()

    executor, meeting = Many(), threading.Barrier(3, timeout=20)

    def job(item):
        meeting.wait()  # nobody gets past here alone
        return -item

    assert dict(together(executor, job, [1, 2, 3])) == {1: -1, 2: -2, 3: -3}
    assert list(together(Here(), square, [3, 1])) == [(3, 9), (1, 1)]

    def fails(item):
        if item == 2:
            raise InvalidInput("two")
        assert executor.stopped.wait(20)
        raise Halted("stopped")

    with pytest.raises(InvalidInput, match="two"):
        list(together(executor, fails, [1, 2, 3]))


TASK_FILE = """
import numpy as np
from cmcts import Model, Task, SearchSettings
from cmcts.model.worlds import world_of
import neighbour

P = np.zeros((2, 2, 2)); P[0, :, 1] = 1.0
model = Model.from_tables(P, [[1.0, neighbour.PRIZE], [0, 0]], [[0.0, 1.0], [0, 0]], terminal=[False, True])
task = Task("mine", model, budget=1.0, search=SearchSettings(discount=0.9), real_world=lambda: world_of(model))
"""


def test_a_users_file_is_packed_with_its_neighbours_and_works_where_it_was_never_seen(tmp_path):
    """Packed by one process, imported by another that has no such file, by the names that models travel under."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine.py").write_text(TASK_FILE)
    (folder / "neighbour.py").write_text("PRIZE = 2.0\n")
    packed = subprocess.run(
        [
            sys.executable, "-c",
            "import sys, pathlib; from cmcts.tasks.registry import make; from cmcts.executors.sources import pack;"
            "task = make(sys.argv[1]); import cmcts.executors;"
            "pathlib.Path(sys.argv[2]).write_bytes(pack()); print(sys.modules['neighbour'].__name__, "
            "*[name for name in sys.modules if name.startswith('cmcts_file_mine')])",
            f"{folder}/mine.py:task", str(tmp_path / "packed"),
        ],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    names = packed.stdout.split()
    for file in list(folder.iterdir()):
        file.unlink() if file.is_file() else None
    found = subprocess.run(
        [
            sys.executable, "-c",
            "import sys, pathlib, importlib; from cmcts.executors.sources import unpack;"
            "unpack(pathlib.Path(sys.argv[1]).read_bytes());"
            "module = importlib.import_module(sys.argv[3]); print(module.task.name, module.neighbour.PRIZE)",
            str(tmp_path / "packed"), *names,
        ],
        check=True, capture_output=True, text=True, timeout=120, cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert found.stdout.split() == ["mine", "2.0"]


def test_the_library_and_what_is_installed_are_not_packed():
    import io
    import zipfile

    content = pack()  # these tests' own modules are no part of the installation
    names = set(zipfile.ZipFile(io.BytesIO(content)).namelist())
    assert "units_of_work.py" in names
    assert not {name for name in names if name.startswith(("cmcts/", "numpy/", "pytest/", "_pytest/"))}
    assert content == pack()


def test_a_worker_refuses_another_version_of_the_library():
    with pytest.raises(InvalidInput, match=r"expected cmcts 0\.0 on every node, got "):
        do(b"", b"", "w", 1, 10.0, "0.0")


LIMIT = """
import pickle, time
from cmcts.executors import Work
from cmcts.executors.worker import do, library
print(do(b"", pickle.dumps(Work(abs, "a")), "a", -1, 60.0, library()).result, flush=True)
do(b"", pickle.dumps(Work(time.sleep, "b")), "b", 60, 0.2, library())
print("still there")
"""


def test_a_unit_past_its_limit_ends_its_process():
    ended = subprocess.run([sys.executable, "-c", LIMIT], capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGALRM
    assert ended.stdout == "1\n"


PREPARE = """
import pickle, sys, time, pathlib
from cmcts.executors import Work
from cmcts.executors.worker import do, library
from tests_prepare import prepare
do(b"", pickle.dumps(Work(abs, "a", prepare, "content")), "a", -1, 60.0, library())
"""

PREPARE_MODULE = """
import os, pathlib, time
log = pathlib.Path(os.environ["LOG"])
def prepare():
    with log.open("a") as file: file.write("begin\\n")
    time.sleep(0.3)
    with log.open("a") as file: file.write("end\\n")
"""


def test_one_worker_of_a_machine_compiles_at_a_time(tmp_path):
    (tmp_path / "tests_prepare.py").write_text(PREPARE_MODULE)
    log, paths = tmp_path / "log", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "LOG": str(log), "PYTHONPATH": paths, "TMPDIR": str(tmp_path)}
    workers = [subprocess.Popen([sys.executable, "-c", PREPARE], env=environment) for _ in range(2)]
    assert [worker.wait(120) for worker in workers] == [0, 0]
    assert log.read_text().split() == ["begin", "end"] * 2


def test_warnings_of_a_worker_come_with_its_result():
    import warnings

    reply = do(b"", pickle.dumps(Work(partial(warnings.warn, "dear"), "w")), "w1", UserWarning, 10.0, library())
    assert reply.warnings == [(UserWarning, "dear")]


def test_nothing_of_ray_is_imported_unasked():
    code = (
        "import sys, cmcts, cmcts.executors, cmcts.evaluation, cmcts.cli;"
        "print([name for name in sys.modules if name.split('.')[0] == 'ray'])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "[]\n"


def test_without_ray_it_is_said_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r"needs Ray, got no Ray here: pip install 'cmcts\[ray\]'"):
        Ray("local")
    assert cli.main(["evaluate", "rocksample-5-7", "--ray", "local"]) == 2
    assert capsys.readouterr().err == "cmcts: --ray needs Ray, got no Ray here: pip install 'cmcts[ray]'\n"


def test_an_evaluation_by_command_is_kept_and_resumed(tmp_path, capsys):
    arguments = ["evaluate", "rocksample-3-2", "--planner", "cc-mcp", "--iterations", "8", "--episodes", "4", "--json"]
    assert cli.main([*arguments, "--out", str(tmp_path)]) == 0
    first = json.loads(capsys.readouterr().out)
    assert [path.name for path in (tmp_path / "cc-mcp").glob("*.safetensors")] == ["0-0-4.safetensors"]
    assert cli.main([*arguments, "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == first  # even the times, for nothing was played again
    assert cli.main([*arguments, "--out", str(tmp_path), "--budget", "2"]) == 2
    assert "use another folder" in capsys.readouterr().err


def test_a_log_that_is_no_terminal_gets_lines(monkeypatch, capsys):
    from cmcts.commands import watching

    monkeypatch.setattr(watching, "LOG_SECONDS", 0.01)
    tally = Tally()
    with watching.watched(tally, as_json=False):
        tally.expect(2)
        tally.submitted()
        deadline = time.monotonic() + 20
        while "1 running" not in (said := capsys.readouterr().err) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "0 of 2 units, 1 running, 0 retried, 1 node" in said
    with watching.watched(tally, as_json=True):
        tally.arrived("a", 1.0, "here")
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["event"] == "done"
