"""Does a planner decide on time? `python benchmarks/deadlines.py`, on an idle core.

Decisions of 20 ms each in states along real episodes of RockSample(11,11), and how many returned within 25 ms: with
`--hogs N` beside so many processes that never rest, with `--threads-beside N` beside so many threads of this process
that run Python without rest. Of those that were late it says what was seen meanwhile: waiting for a core (or for the
interpreter's lock), garbage collections, page faults. Then, in a fresh process with a warm cache, the time of import,
loading a bundle and the first decision.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import threading
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
    parser.add_argument("--threads-beside", type=int, default=0, help="busy Python threads in the same process")
    parser.add_argument("--fresh", type=int, default=3, help="how many fresh processes")
    options = parser.parse_args()

    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.hogs)]
    try:
        decide(options)
    finally:
        for hog in hogs:
            hog.kill()
    start_afresh(options)


def decide(options: argparse.Namespace) -> None:
    """How many decisions of a warm planner are late, and what they waited for."""
    planner, task = cmcts.CMCTS.load(options.task), cmcts.make(options.task)
    planner.warm_up()
    gc.freeze()  # what was imported and compiled is not searched for garbage again
    pauses = Pauses()
    ended = threading.Event()
    for _ in range(options.threads_beside):
        threading.Thread(target=never_rest, args=(ended,), daemon=True).start()
    seen, iterations = [], []
    world, seed, over, agent = task.real_world(), 0, True, None
    while len(seen) < options.decisions:
        if over or agent is None:
            state, _ = world.reset(seed=seed)
            agent = cmcts.Agent(planner, task.budget, rng=seed, seconds=options.seconds)
            seed += 1
        before = measures(pauses)
        decision = agent.act(state)
        seen.append(measures(pauses) - before)
        iterations.append(decision.iterations)
        state, _, terminated, truncated, info = world.step(decision.action)
        agent.observe(info["cost"])
        over = terminated or truncated
    ended.set()
    took, busy, collecting, minor, major, displaced = np.array(seen).T
    late = took > options.late
    limit, bound = f"{1e3 * options.seconds:g} ms", f"{1e3 * options.late:g} ms"
    print(f"{task.name}, {len(took)} decisions of {limit}, median {np.median(iterations):.0f} simulations")
    alone = 100 * (busy <= options.late).mean()
    print(f"within {bound}: {100 * (1 - late.mean()):.2f} %; with less than that on the core: {alone:.2f} %")
    print("ms: " + ", ".join(f"{q:g} % {1e3 * np.percentile(took, q):.2f}" for q in (50, 99, 99.9, 100)))
    waited = took - busy > 0.002
    print(
        f"of {late.sum()} late ones {(late & waited).sum()} had waited more than 2 ms for the core or the interpreter, "
        f"{(late & (displaced > 0)).sum()} had been displaced, {(late & (collecting > 0.001)).sum()} had collected "
        f"garbage for more than 1 ms, {(late & (minor + major > 100)).sum()} had more than 100 page faults"
    )
    print(
        f"of all, {(waited).sum()} had waited so long; at most {1e3 * collecting.max():.2f} ms of garbage collection, "
        f"{minor.max():.0f} page faults, {major.max():.0f} of them from disk"
    )


class Pauses:
    """The seconds that garbage collection has taken so far."""

    def __init__(self) -> None:
        self.seconds, self._began = 0.0, 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._began


def measures(pauses: Pauses) -> np.ndarray:
    """So far: seconds, those on a core, those of garbage collection, page faults without and with the disk, and how
    often this thread was displaced."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    counts = (used.ru_minflt, used.ru_majflt, used.ru_nivcsw)
    return np.array([time.perf_counter(), time.thread_time(), pauses.seconds, *counts])


def never_rest(ended: threading.Event) -> None:
    """Run Python, as a careless program around a planner may."""
    count = 0
    while not ended.is_set():
        for number in range(1000):
            count += number


def start_afresh(options: argparse.Namespace) -> None:
    """How long a new process takes to its first decision."""
    code = FIRST.format(task=options.task)
    for _ in range(options.fresh):
        output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        imported, loaded, planned = map(float, output.split())
        parts = f"import {imported:.2f} s, load {loaded:.2f} s, first decision {planned:.2f} s"
        print(f"fresh process: {imported + loaded + planned:.2f} s ({parts})")


if __name__ == "__main__":
    main()
