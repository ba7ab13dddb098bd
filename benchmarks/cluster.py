"""What a Ray cluster costs: `python benchmarks/cluster.py [--part efficiency|overhead|model]`.

efficiency  an evaluation by Ray with one-core workers beside the thread pool of this process, in turns, after both have
            compiled. Ratios of episodes a second, which needs a machine that does nothing else, and of episodes a
            second of processor time, by all processes together, which does not
overhead    units that do nothing: milliseconds each, one after the other and many at once
model       a simulation of many nodes by a model of the driver, with what `overhead` measured: how many units wait, and
            how long a unit must be to keep all cores busy. The model is first compared with a real Ray on units that
            only sleep, of which this machine can run many at once
"""

from __future__ import annotations

import argparse
import heapq
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import cmcts
from cmcts.evaluation.blocks import BLOCKS_A_SLOT, LARGEST, episodes_on
from cmcts.executors import Executor, Here, Ray, Work
from cmcts.executors.on_ray import QUEUED
from cmcts.planning.planners import CCMCP

TASK, ITERATIONS = "rocksample-7-8", 1024


def nothing(unit: int) -> int:
    return unit


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def efficiency(seconds: float, pairs: int) -> None:
    task = cmcts.make(TASK)
    planner = CCMCP(task.model, task.search, task.ccmcp_settings)

    def rates(executor: Executor | None, episodes: int, seed: int) -> np.ndarray:
        """Episodes a second of wall-clock time, and of processor time."""
        cpu, began = processor_seconds(), time.perf_counter()
        episodes_on(
            executor, planner, task.real_world, task.budget, episodes=episodes, seed=seed, iterations=ITERATIONS
        )
        return episodes / np.array([time.perf_counter() - began, processor_seconds() - cpu])

    with Ray("local") as ray:
        rates(ray, 64, 0)  # compiles, and starts the workers
        episodes = int(seconds * rates(None, 128, 0)[0])
        ratios = []
        for pair in range(pairs):
            # Who goes first changes, for what else the machine does changes as well.
            order: list[Executor | None] = [None, ray] if pair % 2 == 0 else [ray, None]
            measured = {executor is None: rates(executor, episodes, pair) for executor in order}
            threads, there = measured[True], measured[False]
            ratios.append(there / threads)
            print(
                f"{episodes} episodes, {episodes / threads[0]:.0f} s: {threads[0]:.2f} a second in threads, "
                f"{there[0]:.2f} on Ray with {ray.slots} one-core workers, ratio {ratios[-1][0]:.3f}; "
                f"by processor time {threads[1]:.2f} and {there[1]:.2f}, ratio {ratios[-1][1]:.3f} "
                f"(load {os.getloadavg()[0]:.1f})",
                flush=True,
            )
    wall, cpu = np.median(ratios, axis=0)
    print(f"median ratios: {wall:.3f} by the clock, {cpu:.3f} by processor time")


def processor_seconds() -> float:
    """What this process and all that descend from it have used; workers are grandchildren."""
    used, parents = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)], used[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(used[process] for process in family) / os.sysconf("SC_CLK_TCK")


def overhead() -> tuple[float, float]:
    """Seconds a unit in a row, and seconds a unit of driver time when there are many."""
    work = Work(nothing, "nothing")
    with Ray("local") as ray:
        list(ray.run(work, range(200)))
        alone = []
        for unit in range(200):
            began = time.perf_counter()
            list(ray.run(work, [unit]))
            alone.append(time.perf_counter() - began)
        cpu, began, count = time.process_time(), time.perf_counter(), 5000
        list(ray.run(work, range(count)))
        many, used = (time.perf_counter() - began) / count, (time.process_time() - cpu) / count
    here, began = Here(), time.perf_counter()
    list(here.run(work, range(count)))
    inside = (time.perf_counter() - began) / count
    print(
        f"a unit that does nothing: {1e3 * statistics.median(alone):.2f} ms there and back, "
        f"{1e3 * many:.2f} ms of many ({1e3 * used:.2f} ms of them the driver's own), "
        f"{1e3 * inside:.4f} ms in this process"
    )
    return statistics.median(alone), used


@dataclass(frozen=True)
class Run:
    """How a simulated run went."""

    efficiency: float  # of all slots' time, the share that was work
    most_waiting: int  # units that were on their way or done and not yet taken, at most


def simulate(slots: int, unit_seconds: float, driver: float, latency: float, units: int, spread: float = 0.3) -> Run:
    """One driver, which takes `driver` seconds for each unit, and slots that are `latency` there and back away."""
    durations = np.random.default_rng(0).lognormal(-(spread**2) / 2, spread, units) * unit_seconds
    free = [0.0] * slots  # when each slot is free
    arrivals: list[float] = []  # of results at the driver
    now, submitted, most = 0.0, 0, 0
    while submitted < units or arrivals:
        while submitted < units and len(arrivals) < QUEUED * slots:
            now += driver / 2
            begun = max(heapq.heappop(free), now + latency / 2)
            heapq.heappush(
                free, begun + durations[submitted] + latency
            )  # a worker asks for the next one when it is free
            heapq.heappush(arrivals, begun + durations[submitted] + latency / 2)
            submitted += 1
        most = max(most, len(arrivals))
        now = max(now, heapq.heappop(arrivals)) + driver / 2
    return Run(float(durations.sum()) / (slots * now), most)


def model(alone: float, driver: float) -> None:
    slots = 12
    print(f"\nmodel beside a real Ray, {slots} slots, units that sleep:")
    import ray

    ray.init(
        address="local", num_cpus=slots, object_store_memory=100_000_000, include_dashboard=False, log_to_driver=False,
        logging_level="error",
    )  # fmt: skip
    with Ray("auto") as executor:
        list(executor.run(Work(sleep, "sleep"), [0.2] * 4 * slots))
        for seconds in (0.01, 0.03, 0.1, 0.3):
            count = min(40 * slots, int(120 * slots))
            began = time.perf_counter()
            list(executor.run(Work(sleep, "sleep"), [seconds] * count))
            real = seconds * count / slots / (time.perf_counter() - began)
            said = simulate(slots, seconds, driver, alone, count, spread=0.0).efficiency
            print(f"  {1e3 * seconds:4.0f} ms a unit: {real:.2f} real, {said:.2f} by the model", flush=True)
    ray.shutdown()
    print("\n100 nodes by the model, efficiency and most units under way, by the length of a unit:")
    print("| cores a node | 10 ms | 100 ms | 300 ms | 1 s | 3 s | 10 s | driver saturated below |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for cores in (1, 4, 16, 64):
        slots = 100 * cores
        runs = [simulate(slots, s, driver, alone, 50 * slots) for s in (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)]
        cells = " | ".join(f"{run.efficiency:.2f}" for run in runs)
        most = max(run.most_waiting for run in runs)
        print(f"| {cores} ({slots} slots, {most} under way) | {cells} | {slots * driver:.2f} s |", flush=True)
    print(f"an evaluation is cut into {BLOCKS_A_SLOT} units a slot, or units of {LARGEST} episodes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("efficiency", "overhead", "model"))
    parser.add_argument("--seconds", type=float, default=120.0, help="of each evaluation")
    parser.add_argument("--pairs", type=int, default=2, help="evaluations by each, in turns")
    options = parser.parse_args()
    if options.part in (None, "overhead", "model"):
        alone, driver = overhead()
        if options.part != "overhead":
            model(alone, driver)
    if options.part in (None, "efficiency"):
        efficiency(options.seconds, options.pairs)


if __name__ == "__main__":
    main()
