"""`cmcts bench`: how fast the search is, how long it compiles, and what a node takes.

The measuring functions serve `benchmarks/` as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from cmcts.devices import Device, validate_device

if TYPE_CHECKING:
    from cmcts.critic.ensemble import SafetyCritic
    from cmcts.model.interface import Model
    from cmcts.planning.planner import Planner
    from cmcts.tasks.task import Task

BATCH = 16
EXPLORATION, HORIZON = 20.0, 132  # fixed, so that figures stay comparable whatever the tasks' defaults

FIRST_DECISION = """
import time
began = time.perf_counter()
import cmcts
task = cmcts.make("rocksample-7-8")
planner = cmcts.CMCTS(task.model, cmcts.immediate_costs_only(task.model), task.search, task.pruning)
state = task.model.start_state()
ready = time.perf_counter()
planner.plan(state, task.budget, iterations=1024)
print(ready - began, time.perf_counter() - ready, flush=True)
"""


@dataclass(frozen=True)
class Bench:
    """Measure simulations a second, compile times and memory on this machine."""

    json: bool = False
    """Print JSON instead of a table."""
    seconds: float = 1.0
    """CPU time of each measurement; it is made three times, and the median counts."""
    device: Device = "cpu"
    """With cuda, batches on the GPU as well."""

    def run(self) -> None:
        """Measure and print."""
        from rich.console import Console

        from cmcts.errors import expect

        expect(self.seconds > 0, "seconds > 0", self.seconds)
        validate_device(self.device)
        rows: list[dict[str, Any]] = []
        with Console(stderr=True).status("measuring") as status:
            on_gpu = gpu_measurements() if self.device != "cpu" else ()
            for row in chain(measurements(self.seconds), on_gpu):
                rows.append(row)
                status.update(f"measured {row['task']}, {row['planner']}, {row['rollout']}, {row['iterations']}")
            status.update("compiling in fresh processes")
            summary = compile_times() | memory()
        if self.json:
            from json import dumps

            print(dumps([*rows, summary], indent=2))
        else:
            _print(rows, summary)


def _print(rows: list[dict[str, Any]], summary: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0))
    for column in ("task", "planner", "rollout", "critic"):
        table.add_column(column, no_wrap=True)
    for column in ("iters", "batch", "cores", "sim/s", "ms"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            *(str(row[key]) for key in ("task", "planner", "rollout", "critic", "iterations", "batch")),
            str(row["threads"] or "GPU"),
            f"{row['simulations_per_second']:,.0f}",
            f"{row['ms_per_decision']:.2f}",
        )
    console = Console(highlight=False)
    console.print(table)
    for name, value in summary.items():
        console.print(f"{name:35} {value:.4g}")


def measurements(seconds: float) -> Iterator[dict[str, Any]]:
    """The rows of the benchmark, as they are measured; `penalized` with lambda = 0 is plain UCT."""
    from cmcts.commands.planner_options import PLANNERS, make_planner
    from cmcts.tasks.registry import make

    task = make("rocksample-7-8")

    def row(
        planner: Planner, name: str, rollout: str, critic: str, iterations: int = 1 << 10, threads: int | None = None
    ) -> dict[str, Any]:
        if threads is None:
            rate = simulations_per_second(planner, task, iterations, seconds)
        else:
            rate = batch_simulations_per_second(planner, task, iterations, threads, seconds)
        return {
            "task": task.name,
            "planner": name,
            "rollout": rollout,
            "critic": critic,
            "iterations": iterations,
            "threads": threads or 1,
            "batch": 1 if threads is None else BATCH,
            "simulations_per_second": rate,
            "ms_per_decision": 1000 * iterations / rate,
        }

    uniform, directed = plain(task, "uniform"), plain(task, "directed")
    yield row(uniform, "penalized", "uniform", "none")
    yield row(with_critic(task), "cmcts", "uniform", "5x64x64")
    yield row(directed, "penalized", "directed", "none")
    yield row(uniform, "penalized", "uniform", "none", 1 << 17)
    for threads in (1, 2):
        yield row(uniform, "penalized", "uniform", "none", threads=threads)
    for name in PLANNERS:
        critic = "default" if name == "cmcts" else "none"
        yield row(make_planner(task, name).planner, name, task.search.rollout, critic, task.iterations)
    task = make("safe-gridworld")
    yield row(plain(task, "directed"), "penalized", "directed", "none", task.iterations)


def gpu_measurements() -> Iterator[dict[str, Any]]:
    """Rows of the same kind for batches on a GPU."""
    from cmcts.commands.planner_options import make_planner
    from cmcts.tasks.registry import make

    task = make("rocksample-7-8")
    planners = (
        (plain(task, "uniform"), "penalized", "uniform", "none"),
        (plain(task, "directed"), "penalized", "directed", "none"),
        (with_critic(task), "cmcts", "uniform", "5x64x64"),
        (make_planner(task, "cmcts").planner, "cmcts", task.search.rollout, "default"),
    )
    for planner, name, rollout, critic in planners:
        for lanes in (1024, 32768):
            rate = gpu_simulations_per_second(planner, task, 1 << 10, lanes)
            about = {"task": task.name, "planner": name, "rollout": rollout, "critic": critic, "iterations": 1 << 10}
            figures = {"simulations_per_second": rate, "ms_per_decision": 1000 * (1 << 10) / rate}
            yield about | {"threads": None, "batch": lanes} | figures


def gpu_simulations_per_second(planner: Planner, task: Task, iterations: int, lanes: int) -> float:
    """Of wall-clock time, searching from the start state in so many lanes at once: the best of three."""
    import numpy as np

    searches, constraints = planner.lanes, task.model.cost_count
    states = np.tile(task.model.start_state(), (lanes, 1))
    budgets = np.tile(np.array(task.budget, np.float64), (lanes, 1))
    multipliers = np.broadcast_to(planner.initial_multipliers(), (lanes, constraints))
    rngs = np.random.default_rng(0).integers(1 << 63, size=(lanes, 1), dtype=np.uint64)
    searches.search(states[:1], budgets[:1], multipliers[:1], rngs[:1], 1)  # compile
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        searches.search(states, budgets, multipliers, rngs, iterations)
        seconds.append(time.perf_counter() - began)
    return lanes * iterations / min(seconds)


def plain(task: Task, rollout: Literal["directed", "uniform"]) -> Planner:
    """Plain UCT: no critic, no penalty."""
    from cmcts.planning.planners import PenalizedMCTS
    from cmcts.search.settings import SearchSettings

    settings = SearchSettings(exploration=EXPLORATION, horizon=HORIZON, rollout=rollout)
    return PenalizedMCTS(task.model, [0.0] * task.model.cost_count, settings)


def with_critic(task: Task) -> Planner:
    """UCT with a random ensemble that is asked at every expansion, and never trusted: the same tree, plus its cost."""
    from cmcts.planning.planners import CMCTS
    from cmcts.search.pruning import PruningSettings
    from cmcts.search.settings import SearchSettings

    never = PruningSettings(sigma_max=0.0, cost_floor=False, unsure="floor")
    settings = SearchSettings(exploration=EXPLORATION, horizon=HORIZON, rollout="uniform")
    return CMCTS(task.model, random_ensemble(task.model), settings, never)


def random_ensemble(model: Model, members: int = 5, hidden: tuple[int, ...] = (64, 64)) -> SafetyCritic:
    """An untrained critic of the usual size."""
    from itertools import pairwise

    import numpy as np

    from cmcts.critic.ensemble import ensemble

    random = np.random.default_rng(0)
    sizes = [model.feature_count, *hidden, model.action_count * model.cost_count]
    layers = list(pairwise(sizes))
    weights = [random.normal(size=(members, rows, columns)) / rows**0.5 for rows, columns in layers]
    return ensemble(weights, [np.zeros((members, columns)) for _, columns in layers], model.cost_count)


def simulations_per_second(planner: Planner, task: Task, iterations: int, seconds: float, repeats: int = 3) -> float:
    """Of CPU time, by one thread, searching from the start state again and again: the median of `repeats`."""
    from statistics import median

    import numpy as np

    from cmcts.random import stream

    session, rng = planner.session(), stream(0)
    state, budget = task.model.start_state(), np.array(task.budget)
    multipliers = planner.initial_multipliers()

    def search() -> None:
        session.begin(state, budget, multipliers, rng, iterations + 1)
        session.run(iterations)

    session.begin(state, budget, multipliers, rng, iterations + 1)
    session.run(1)
    rates = []
    for _ in range(repeats):
        searches, began = 0, time.process_time()
        while (elapsed := time.process_time() - began) < seconds:
            search()
            searches += 1
        rates.append(searches * iterations / elapsed)
    return float(median(rates))


def batch_simulations_per_second(
    planner: Planner, task: Task, iterations: int, threads: int, seconds: float, repeats: int = 3
) -> float:
    """Of wall-clock time, planning a batch of start states over some threads: the median of `repeats`."""
    from statistics import median

    import numpy as np

    states = np.stack([task.model.start_state()] * BATCH)
    budgets = np.tile(np.array(task.budget), (BATCH, 1))
    planner.plan_batch(states, budgets, iterations=iterations, rngs=range(BATCH), threads=threads)
    rates = []
    for _ in range(repeats):
        batches, began = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds:
            planner.plan_batch(states, budgets, iterations=iterations, rngs=range(BATCH), threads=threads)
            batches += 1
        rates.append(batches * BATCH * iterations / elapsed)
    return float(median(rates))


def compile_times() -> dict[str, float]:
    """A first decision in fresh processes: without and with the compiled search on disk, and from process start."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        _, cold, _ = _first_decision(environment)
        imports, warm, total = _first_decision(environment)
    return {
        "compile_cold_s": cold,
        "compile_warm_s": warm,
        "import_s": imports,
        "process_start_to_first_decision_s": total,
    }


def _first_decision(environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds of imports, of the first plan, and from process start to decision."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", FIRST_DECISION], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        imports, plan = map(float, process.stdout.readline().split())
        return imports, plan, time.perf_counter() - began


def memory() -> dict[str, float]:
    """Bytes that one more node takes on RockSample(7,8)."""
    from cmcts.search.tree import allocate, bytes_per_node
    from cmcts.tasks.registry import make

    model = make("rocksample-7-8").model
    sizes = (model.state_size, model.action_count, model.cost_count)
    plain_tree, critic_tree = (allocate(1 << 12, *sizes, critic=critic) for critic in (False, True))
    return {"bytes_per_node": bytes_per_node(plain_tree), "bytes_per_node_with_critic": bytes_per_node(critic_tree)}
