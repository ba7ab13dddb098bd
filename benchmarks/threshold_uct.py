"""Threshold UCT beside CC-MCP: `python benchmarks/threshold_uct.py [--problems 3] [--episodes 200]`.

Simulations a second of CPU time by one thread, on RockSample(7,8) and on a random problem; then reward and cost on
random absorbing problems and RockSample(7,8), in the same worlds, with the exact optimum where there is one.
"""

from __future__ import annotations

import argparse

from cmcts.commands.bench import simulations_per_second
from cmcts.commands.planner_options import make_planner
from cmcts.evaluation.episodes import run_episodes
from cmcts.exact.random_problems import random_problem
from cmcts.tasks.registry import make

PLANNERS = ("threshold-uct", "cc-mcp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=1024)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    problems = [f"random-absorbing-{seed}" for seed in range(options.problems)]
    for name in ("rocksample-7-8", "random-absorbing-0"):
        task = make(name)
        for planner in PLANNERS:
            rate = simulations_per_second(make_planner(task, planner).planner, task, options.iterations, seconds=1.0)
            print(f"{name}, {planner}: {rate:,.0f} simulations/s", flush=True)
    for seed, name in enumerate([*problems, "rocksample-7-8"]):
        task = make(name)
        optimum = f", optimum {random_problem(seed, 'absorbing').solution.reward:.3f}" if name in problems else ""
        print(f"{name}: budget {task.budget[0]:.3f}{optimum}", flush=True)
        for planner in PLANNERS:
            episodes, _ = run_episodes(
                make_planner(task, planner).planner,
                task.real_world,
                task.budget,
                episodes=options.episodes,
                seed=1,
                iterations=options.iterations,
                threads=options.threads,
            )
            found = episodes.summary()
            print(
                f"    {planner:13} reward {found.reward_mean:.3f} ± {found.reward_se:.3f}, "
                f"cost {found.cost_mean:.3f} ± {found.cost_se:.3f}, {found.decision_ms:.1f} ms a decision",
                flush=True,
            )


if __name__ == "__main__":
    main()
