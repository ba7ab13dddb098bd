"""How long exact solutions take, and how much memory: `python benchmarks/solver_speed.py [--states 100000]`.

A random sparse problem is listed state by state through its model's `outcomes`, as any user's model would be, and then
solved; RockSample's bounds follow. Each in a process of its own, so that memory peaks are apart.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

ROCKSAMPLES = ("rocksample-3-2", "rocksample-4-3", "rocksample-5-7", "rocksample-7-8", "rocksample-11-11")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--actions", type=int, default=10)
    parser.add_argument("--constraints", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one == "random":
        random_problem(options.states, options.actions, options.constraints)
    elif options.one:
        named_task(options.one)
    else:
        for one in ("random", "safe-gridworld", *ROCKSAMPLES):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--one", one], check=True)


def random_problem(states: int, actions: int, constraints: int) -> None:
    import numpy as np

    from cmcts.exact.finite import enumerate_states
    from cmcts.exact.random_problems import random_params
    from cmcts.exact.solver import solve
    from cmcts.model.tabular import tabular_model

    params = random_params(np.random.default_rng(0), "sparse", states, actions, constraints, start_states=states)
    began = time.perf_counter()
    cmdp = enumerate_states(tabular_model(params), 0.95, state_limit=states)
    listed = time.perf_counter()
    budget = 0.7 * solve(cmdp, [np.inf] * constraints).costs
    solution = solve(cmdp, budget)
    print(
        f"random, {cmdp.state_count} states x {actions} actions, {constraints} constraints: listed in "
        f"{listed - began:.1f} s, solved twice in {time.perf_counter() - listed:.1f} s, gap {solution.gap:.1e}, "
        f"{peak_gib():.2f} GiB",
        flush=True,
    )


def named_task(name: str) -> None:
    from cmcts.tasks.optimum import solve_task
    from cmcts.tasks.registry import make

    found = solve_task(make(name))
    print(
        f"{name}: {found.reward_lower:.6f} to {found.reward_upper:.6f}, {found.states} states, {found.seconds:.1f} s, "
        f"{peak_gib():.2f} GiB",
        flush=True,
    )


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
