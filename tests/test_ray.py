"""Units of work on a real Ray, started by these tests: the same results, whatever happens to workers and nodes.

One node for a minute of tests; two nodes, kills and a lost driver with the slow ones.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("ray")

from cmcts.errors import ClusterWarning
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import run_episodes
from cmcts.executors import Here, Ray, UnitFailed, Work
from cmcts.executors.on_ray import QUEUED
from cmcts.planning.planners import CCMCP
from cmcts.tasks.registry import make
from units_of_work import (
    always_dies,
    assert_same_episodes,
    dies_once,
    fails_at_three,
    hangs_once,
    same_files,
    slow_square,
    square,
)

pytestmark = pytest.mark.extras

TASK = make("rocksample-3-2")
HERE = Path(__file__).parent
SMALL_MEMORY = 100_000_000


def environment():
    """For processes that tests start: they find the library and these tests."""
    paths = os.pathsep.join([str(HERE.parent / "src"), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths, "RAY_USAGE_STATS_ENABLED": "0"}


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


class Nodes:
    """A cluster of two nodes with one core each, and what can happen to them."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        arguments = {"num_cpus": 1, "object_store_memory": SMALL_MEMORY, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=arguments)
        self.second = self.add()

    def add(self):
        return self.cluster.add_node(num_cpus=1, object_store_memory=SMALL_MEMORY)

    @property
    def address(self):
        return self.cluster.address

    def workers(self):
        """The processes that do units on all nodes: children of the nodes' own, which these tests started."""
        raylets = {
            process.process.pid
            for node in self.cluster.list_all_nodes()
            for process in node.all_processes.get("raylet", [])
        }
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                status, title = (folder / "stat").read_text(), (folder / "cmdline").read_text()
            except OSError:
                continue
            if int(status.rpartition(")")[2].split()[1]) in raylets and title.startswith("ray::do"):
                found.append(int(folder.name))
        return sorted(found)

    def kill_one(self):
        workers = self.workers()
        if workers:
            os.kill(workers[0], signal.SIGKILL)
        return len(workers) > 0


@pytest.fixture(scope="module")
def nodes():
    os.environ.update({name: environment()[name] for name in ("PYTHONPATH", "RAY_USAGE_STATS_ENABLED")})
    made = Nodes()
    yield made
    made.cluster.shutdown()


@pytest.fixture
def two(nodes):
    with Ray(nodes.address) as executor:
        yield executor


class Killer:
    """Kills a worker by SIGKILL every so many seconds, but no more than thrice before another unit is done.

    A unit that takes longer than the time between two kills would never be done.
    """

    def __init__(self, nodes, executor, seconds):
        self.nodes, self.tally, self.seconds, self.kills = nodes, executor.tally, seconds, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        done, in_a_row = -1, 0
        while not self.ended.wait(self.seconds):
            in_a_row = in_a_row + 1 if self.tally.done == done else 1
            done = self.tally.done
            if in_a_row <= 3:
                self.kills += self.nodes.kill_one()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.ended.set()
        self.thread.join()


EPISODES = {"episodes": 320, "seed": 4, "iterations": 4096}


@pytest.fixture(scope="module")
def alone():
    return run_episodes(planner(), TASK.real_world, TASK.budget, **EPISODES)


@pytest.mark.slow
def test_on_two_nodes_and_with_a_worker_killed_every_two_seconds(nodes, two, alone):
    assert_same_episodes(alone, episodes_on(two, planner(), TASK.real_world, TASK.budget, **EPISODES))
    assert two.tally.nodes == 2
    with Killer(nodes, two, 2.0) as killer:
        for _ in range(3):
            assert_same_episodes(alone, episodes_on(two, planner(), TASK.real_world, TASK.budget, **EPISODES))
    assert killer.kills >= 3
    assert two.tally.retried >= 1


@pytest.mark.slow
def test_a_whole_node_may_go_in_the_middle_of_a_run(nodes, two, alone):
    events = []
    two.tally.listener = events.append
    removal = threading.Timer(1.5, lambda: nodes.cluster.remove_node(nodes.second, allow_graceful=False))
    removal.start()
    deadline = time.monotonic() + 200
    while not any(event["nodes"] == 1 for event in events):  # Ray takes its time to believe it
        assert_same_episodes(alone, episodes_on(two, planner(), TASK.real_world, TASK.budget, **EPISODES))
        assert time.monotonic() < deadline
    removal.join()
    assert any(event["event"] == "retried" for event in events)
    nodes.second = nodes.add()
    while two.slots < 2:
        time.sleep(0.5)
        assert time.monotonic() < deadline
    assert_same_episodes(alone, episodes_on(two, planner(), TASK.real_world, TASK.budget, **EPISODES))


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True], ids=["in peace", "with workers killed"])
def test_a_training_ends_with_the_same_bits(nodes, two, tmp_path, kill):
    from cmcts.training.loop import train
    from cmcts.training.run_folder import RunFolder
    from cmcts.training.settings import run_config
    from test_training import small_settings

    settings = small_settings()

    def run(name, executor):
        folder = RunFolder.create(tmp_path / name, run_config(TASK, settings))
        train(TASK, settings, folder, executor=executor)
        return folder.path

    inside, cores = run("inside", Here(1)), run("cores", None)
    if kill:
        with Killer(nodes, two, 3.0) as killer:
            there = run("ray", two)
        assert killer.kills >= 1
    else:
        there = run("ray", two)
    assert len(same_files(inside, there, "*.safetensors")) >= 10
    assert same_files(cores, there, "bundle.json") == ["bundle.json"]


@pytest.mark.slow
def test_a_reproduction_records_the_same(two, tmp_path):
    from cmcts.reproduction.runner import Reproduction
    from test_reproduction import UNITS, Quiet, records

    runs = {}
    for name, executor in (("inside", Here(1)), ("cores", None), ("ray", two)):
        runs[name] = Reproduction(tmp_path / name, quick=True, seed=0, executor=executor)
        runs[name].run(UNITS, Quiet())
    assert records(runs["inside"]) == records(runs["cores"]) == records(runs["ray"])
    assert len(records(runs["ray"])) == len(UNITS)


STUDY = """
tasks = ["rocksample-3-2"]
planners = ["cmcts", "cc-mcp"]
seeds = 3
episodes = 40
[settings]
iterations = [64, 256]
[training]
iterations = 16
steps_per_multiplier = 100
max_rounds = 1
untrained = false
tolerances = [0.1]
evaluation_episodes = 200
critic = {hidden = [8], steps = 200}
multiplier = {max_updates = 2}
frontier = {columns = 0}
"""


@pytest.mark.slow
def test_a_sweep_whose_driver_is_killed_again_and_again_ends_with_the_same_tables(nodes, tmp_path):
    """Killed in a training and in the rows; what was done is not done again, and the cluster is left as it was."""
    (tmp_path / "study.toml").write_text(STUDY)
    command = [sys.executable, "-m", "cmcts", "sweep", "study.toml"]

    def lines(name):
        return sum(len(file.read_text().splitlines()) for file in (tmp_path / name).rglob("history.jsonl"))

    def driver(*more):
        return subprocess.Popen([*command, *more], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL)

    for progress in (lambda: lines("there") >= 3, lambda: len(list((tmp_path / "there/records").glob("*"))) >= 2):
        process = driver("--out", "there", "--ray", nodes.address)
        deadline = time.monotonic() + 240
        while not progress() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "there" / "records").glob("*.json")}
    assert before
    assert driver("--out", "there", "--ray", nodes.address).wait(400) == 0
    assert driver("--out", "here").wait(400) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for name in ("results.csv", "means.csv"):
        assert (tmp_path / "there" / name).read_text() == (tmp_path / "here" / name).read_text()
    assert same_files(tmp_path / "there", tmp_path / "here", "*.parquet") == ["means.parquet", "results.parquet"]
    with Ray(nodes.address) as still_there:
        assert dict(still_there.run(Work(square, "squares"), [2])) == {2: 4}


@pytest.mark.slow
def test_a_command_writes_json_and_nothing_else_to_standard_output(nodes, tmp_path):
    arguments = ["evaluate", "rocksample-3-2", "--planner", "cc-mcp", "--iterations", "64", "--episodes", "40"]
    arguments += ["--json", "--ray", "auto"]
    ended = subprocess.run(
        [sys.executable, "-m", "cmcts", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**environment(), "RAY_ADDRESS": nodes.address},
    )  # fmt: skip
    figures = json.loads(ended.stdout)
    assert figures["episodes"] == 40
    events = [json.loads(line) for line in ended.stderr.splitlines()]
    assert sum(event["event"] == "done" for event in events) == 20
    assert events[-1]["nodes"] == 2


@pytest.mark.slow
def test_units_that_ask_for_a_gpu_get_one_each():
    """On a node that only says it has two GPUs: what Ray hands out is all that is seen here."""
    script = """
import os, ray
ray.init(address="local", num_cpus=2, num_gpus=2, object_store_memory=100_000_000, include_dashboard=False)
from cmcts.executors import Ray, Work
from cmcts.errors import InvalidInput
def visible(unit): return os.environ["CUDA_VISIBLE_DEVICES"]
with Ray("auto", device="cuda") as executor:
    print(executor.slots, sorted({seen for _, seen in executor.run(Work(visible, "g"), range(20))}) )
with Ray("auto") as executor:
    print(executor.slots, executor.gpu)
ray.shutdown()
try:
    Ray("local", device="cuda").__enter__()
except InvalidInput as error:
    print(error)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert ended.stdout.splitlines() == [
        "2 ['0', '1']",
        "2 False",
        'expected nodes with a GPU in the Ray cluster for device "cuda", got none',
    ], ended.stderr
