"""Does a planner decide on time? `python benchmarks/deadlines.py`, on an idle core.

Decisions of 20 ms each in states along real episodes of RockSample(11,11), and how many returned within 25 ms, with
`--hogs N` beside so many processes that never rest; then, in a fresh process with a warm cache, the time of import,
loading a bundle and the first decision.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time

import numpy as np

import cmcts

FIRST = """
import time
began = time.perf_counter()
import cmcts
imported = time.perf_counter()
planner = cmcts.CMCTS.load({task!r})
loaded = time.perf_counter()
planner.plan(planner.model.start_state(), 1.0, iterations=1024)
done = time.perf_counter()
print(imported - began, loaded - imported, done - loaded)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="rocksample-11-11")
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=0.02, help="limit of a decision")
    parser.add_argument("--late", type=float, default=0.025, help="what counts as late")
    parser.add_argument("--hogs", type=int, default=0, help="busy processes beside it")
    options = parser.parse_args()

    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.hogs)]
    try:
        decide(options)
    finally:
        for hog in hogs:
            hog.kill()
    start_afresh(options)


def decide(options: argparse.Namespace) -> None:
    """How many decisions of a warm planner are late."""
    planner, task = cmcts.CMCTS.load(options.task), cmcts.make(options.task)
    planner.warm_up()
    gc.freeze()  # what was imported and compiled is not searched for garbage again
    took, busy, iterations = [], [], []
    world, seed, over, agent = task.real_world(), 0, True, None
    while len(took) < options.decisions:
        if over or agent is None:
            state, _ = world.reset(seed=seed)
            agent = cmcts.Agent(planner, task.budget, rng=seed, seconds=options.seconds)
            seed += 1
        began, used = time.perf_counter(), time.thread_time()
        decision = agent.act(state)
        took.append(time.perf_counter() - began)
        busy.append(time.thread_time() - used)
        iterations.append(decision.iterations)
        state, _, terminated, truncated, info = world.step(decision.action)
        agent.observe(info["cost"])
        over = terminated or truncated
    times, cpu, late = 1e3 * np.array(took), 1e3 * np.array(busy), 1e3 * options.late
    limit = f"{1e3 * options.seconds:g} ms"
    print(f"{task.name}, {len(times)} decisions of {limit}, median {np.median(iterations):.0f} simulations")
    on_time, alone = 100 * (times <= late).mean(), 100 * (cpu <= late).mean()
    print(f"within {late:g} ms: {on_time:.2f} %; with less than that on the core: {alone:.2f} %")
    print("ms: " + ", ".join(f"{q} % {np.percentile(times, q):.2f}" for q in (50, 99, 99.9, 100)))
    waited = int(((times - cpu > 2.0) & (times > late)).sum())
    print(f"of {int((times > late).sum())} late ones, {waited} had waited more than 2 ms for the core")


def start_afresh(options: argparse.Namespace) -> None:
    """How long a new process takes to its first decision."""
    code = FIRST.format(task=options.task)
    for _ in range(3):
        output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        imported, loaded, planned = map(float, output.split())
        parts = f"import {imported:.2f} s, load {loaded:.2f} s, first decision {planned:.2f} s"
        print(f"fresh process: {imported + loaded + planned:.2f} s ({parts})")


if __name__ == "__main__":
    main()
