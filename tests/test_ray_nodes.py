"""Units of work on two nodes of a real Ray: workers killed, a node removed, the driver killed; the same results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("ray")

from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import run_episodes
from cmcts.executors import Here, Ray, Work
from cmcts.planning.planners import CCMCP
from cmcts.tasks.registry import make
from units_of_work import assert_same_episodes, environment, same_files, square

pytestmark = [pytest.mark.extras, pytest.mark.slow]

TASK = make("rocksample-3-2")
SMALL_MEMORY = 100_000_000


def planner():
    return CCMCP(TASK.model, TASK.search, TASK.ccmcp_settings)


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


def test_on_two_nodes_and_with_a_worker_killed_every_two_seconds(nodes, two, alone):
    assert_same_episodes(alone, episodes_on(two, planner(), TASK.real_world, TASK.budget, **EPISODES))
    assert two.tally.nodes == 2
    with Killer(nodes, two, 2.0) as killer:
        for _ in range(3):
            assert_same_episodes(alone, episodes_on(two, planner(), TASK.real_world, TASK.budget, **EPISODES))
    assert killer.kills >= 3
    assert two.tally.retried >= 1


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
