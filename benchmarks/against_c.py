"""Our search against a hand-written one in C, one core, taking turns: `python benchmarks/against_c.py SOURCE.c`.

The C program takes two arguments, iterations a search and seconds, runs plain UCT on RockSample(7,8) from the start
state with uniform rollouts and an exploration constant of 20, and prints its simulations per second of CPU time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import cmcts
from cmcts.commands.bench import plain, simulations_per_second, with_critic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, metavar="C_SOURCE")
    parser.add_argument("--iterations", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time of one measurement")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    task = cmcts.make("rocksample-7-8")
    planners = {"no critic": plain(task, "uniform"), "5 x (64, 64) critic": with_critic(task)}
    ratios: dict[str, list[float]] = {name: [] for name in planners}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "reference"
        subprocess.run(["gcc", "-O3", "-march=native", str(options.source), "-o", str(program), "-lm"], check=True)
        arguments = [str(program), str(options.iterations), str(options.seconds)]
        for planner in planners.values():
            planner.plan(task.model.start_state(), task.budget, iterations=1)  # compile
        for turn in range(options.rounds):
            output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
            reference = float(output.split()[0])
            line = [f"round {turn + 1}: C {reference:,.0f}/s"]
            for name, planner in planners.items():
                ours = simulations_per_second(planner, task, options.iterations, options.seconds, repeats=1)
                ratios[name].append(ours / reference)
                line.append(f"{name} {ours:,.0f}/s = {ours / reference:.2f}")
            print(", ".join(line), flush=True)
    for name, values in ratios.items():
        print(f"{name}: {statistics.median(values):.2f} of C (median of {options.rounds})")


if __name__ == "__main__":
    main()
