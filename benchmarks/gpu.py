"""What a GPU does, beside the CPU of the same machine: `python benchmarks/gpu.py [--part rates|tasks|episodes]`.

Rates are simulations a second of wall-clock time, from Python's call to the roots back in its memory; the ratio is to
one core, measured in the same run. Episodes are measured end to end, worlds and all.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from typing import Any

import numpy as np
from numba import cuda

import cmcts
from cmcts.commands.bench import gpu_simulations_per_second, plain, random_ensemble, simulations_per_second, with_critic
from cmcts.evaluation.episodes import run_episodes
from cmcts.planning.decision import Decision
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.search.tree import bytes_per_node
from cmcts.tasks.task import Task

ITERATIONS = 1024
LANES = (1, 32, 1024, 8192, 32768, 131072)
TASKS = ("rocksample-5-7", "rocksample-7-8", "rocksample-11-11", "rocksample-15-15", "safe-gridworld")
PRICE = 3.0


def planners(task: Task) -> dict[str, Planner]:
    critic = with_critic(task)
    directed = dataclasses.replace(critic.search, rollout="directed")
    return {
        "uniform": plain(task, "uniform"),
        "directed": plain(task, "directed"),
        "uniform, 5 x (64, 64) critic": critic,
        "directed, 5 x (64, 64) critic": CMCTS(task.model, random_ensemble(task.model), directed, critic.pruning),
        "C-MCTS as shipped": CMCTS.load(task.name),
    }


def rates() -> None:
    task = cmcts.make("rocksample-7-8")
    bandwidth = copied_bytes_per_second()
    print(f"\n{task.name}, {ITERATIONS} iterations; a copy on the card moves {bandwidth / 1e12:.2f} TB/s\n")
    print(f"| planner | one core | {' | '.join(f'{lanes:,}' for lanes in LANES)} | ratio | of the bandwidth |")
    print(f"|{' --- |' * (len(LANES) + 4)}")
    for name, planner in planners(task).items():
        core = simulations_per_second(planner, task, ITERATIONS, 1.0)
        measured = [gpu_simulations_per_second(planner, task, ITERATIONS, lanes) for lanes in LANES]
        best, moved = max(measured), bytes_per_simulation(planner, task)
        cells = " | ".join(f"{rate / 1e6:.2f}" for rate in measured)
        share = f"{100 * best * moved / bandwidth:.0f} % ({moved:,.0f} B)"
        print(f"| {name} | {core / 1e6:.2f} | {cells} | {best / core:.0f} | {share} |", flush=True)


def bytes_per_simulation(planner: Planner, task: Task) -> float:
    """The least that a simulation must move: a new node, written, and the rows of the nodes on its path, read.

    Of a node on the path its state, visits, values and costs are read, and of one action written again. Rollouts and
    critics are left out: what they touch stays in caches.
    """
    decision = planner.plan(task.model.start_state(), task.budget, iterations=ITERATIONS, keep_tree=True)
    tree = decision.tree
    assert tree is not None
    depth = float(tree.visits[1 : decision.tree_size].sum()) / ITERATIONS
    rows = (tree.states, tree.action_visits, tree.first_child, tree.reward_values, tree.cost_values)
    read = sum(array[0].nbytes for array in rows)
    written = 4 + 8 + 8 * task.model.cost_count + 4
    return bytes_per_node(tree) + depth * (read + written)


def copied_bytes_per_second() -> float:
    source = cuda.device_array(1 << 32, np.uint8)
    target = cuda.device_array_like(source)
    target.copy_to_device(source)
    cuda.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        target.copy_to_device(source)
    cuda.synchronize()
    return 10 * 2 * source.nbytes / (time.perf_counter() - began)


def tasks() -> None:
    print("\nshipped C-MCTS and MCTS with a price, as their tasks have it, 32,768 lanes\n")
    print("| task | iterations | C-MCTS: one core | GPU | ratio | priced: one core | GPU | ratio |")
    print(f"|{' --- |' * 8}")
    for name in TASKS:
        task = cmcts.make(name)
        cells = []
        for planner in (CMCTS.load(name), PenalizedMCTS(task.model, PRICE, task.search)):
            core = simulations_per_second(planner, task, task.iterations, 0.5)
            rate = gpu_simulations_per_second(planner, task, task.iterations, 32768)
            cells.append(f"{core / 1e6:.2f} | {rate / 1e6:.1f} | {rate / core:.0f}")
        print(f"| {name} | {task.iterations} | {' | '.join(cells)} |", flush=True)


def episodes(count: int, cpu_count: int) -> None:
    """Columns as a frontier measures them; the CPU plays fewer episodes, in the same blocks, and its time is scaled."""
    task = cmcts.make("rocksample-11-11")
    longer = dataclasses.replace(task.search, iterations=4 * task.iterations)
    columns = {
        f"price {PRICE:g}": PenalizedMCTS(task.model, PRICE, task.search),
        f"price {PRICE:g}, 4 x the search": PenalizedMCTS(task.model, PRICE, longer),
        "guarded by the critic": CMCTS.load(task.name),
    }
    print(f"\n{task.name}, training world: {count:,} episodes on the GPU, {cpu_count:,} on {os.cpu_count()} cores\n")
    print("| column | device | s for all | of it planning | reward | cost | times faster |")
    print(f"|{' --- |' * 7}")
    for name, planner in columns.items():
        seconds: dict[str, float] = {}
        for device, played in (("cuda", count), ("cpu", cpu_count)):
            planner.plan_batch([task.model.start_state()], [task.budget], iterations=1, rngs=[0], device=device)
            timed = TimedBatches(planner)
            began = time.perf_counter()
            done, _ = run_episodes(planner, task.training_world, task.budget, episodes=played, seed=0, device=device)
            elapsed, summary, scale = time.perf_counter() - began, done.summary(), count / played
            timed.stop()
            seconds[device] = scale * elapsed
            reward = f"{summary.reward_mean:.3f} ± {summary.reward_se:.3f}"
            cost = f"{summary.cost_mean:.4f} ± {summary.cost_se:.4f}"
            planning = f"{timed.seconds:.1f}" if device == "cuda" else ""  # the cores plan in no batches
            times = f"{seconds['cpu'] / seconds['cuda']:.1f}" if device == "cpu" else ""
            print(
                f"| {name} | {device} | {seconds[device]:.1f} | {planning} | {reward} | {cost} | {times} |", flush=True
            )


class TimedBatches:
    """Seconds that a planner's batches take, until `stop`: decisions know only their own, in threads beside others."""

    def __init__(self, planner: Planner) -> None:
        self._planner, self._plan, self.seconds = planner, planner.plan_batch, 0.0
        planner.plan_batch = self._timed  # type: ignore[method-assign]

    def _timed(self, *arguments: Any, **options: Any) -> list[Decision]:
        began = time.perf_counter()
        decisions = self._plan(*arguments, **options)
        self.seconds += time.perf_counter() - began
        return decisions

    def stop(self) -> None:
        del self._planner.plan_batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("rates", "tasks", "episodes"), help="all of them by default")
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--cpu-episodes", type=int, default=2_500)
    options = parser.parse_args()
    print(f"{cuda.get_current_device().name}, {os.cpu_count()} cores")
    if options.part in (None, "rates"):
        rates()
    if options.part in (None, "tasks"):
        tasks()
    if options.part in (None, "episodes"):
        episodes(options.episodes, options.cpu_episodes)


if __name__ == "__main__":
    main()
