"""All planners at equal time a decision, on the same worlds: `python benchmarks/equal_time.py`.

Every planner has so many milliseconds for a decision, whatever its settings say, in the task's real world and at the
task's own budget: the frontier's mixture, C-MCTS with its critic, CC-MCP, Threshold UCT, and a fixed price. One
decision at a time, so that a millisecond is one of one core. Results go to a file of JSON lines, and a second call goes
on where the first one stopped; then a table is printed. The machine must be quiet: what runs beside it takes its time.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from cmcts.commands.planner_options import make_planner
from cmcts.evaluation.episodes import run_episodes
from cmcts.frontier import Frontier
from cmcts.tasks.registry import make
from cmcts.tasks.task import Task

TASKS = ("safe-gridworld", "rocksample-5-7", "rocksample-7-8", "rocksample-11-11")
PLANNERS = ("frontier", "cmcts", "cc-mcp", "threshold-uct", "penalized")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--planners", nargs="+", default=PLANNERS, choices=PLANNERS)
    parser.add_argument("--milliseconds", nargs="+", type=float, default=(1.0, 5.0, 20.0))
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--file", type=Path, default=Path("runs/equal_time.jsonl"))
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    known = {(row["task"], row["planner"], row["milliseconds"], row["episodes"]) for row in rows}
    for name in options.tasks:
        task = make(name)
        for planner in options.planners:
            for milliseconds in options.milliseconds:
                if (name, planner, milliseconds, options.episodes) not in known:
                    row = measured(task, planner, milliseconds, options.episodes)
                    rows.append(row)
                    with options.file.open("a") as out:
                        out.write(json.dumps(row) + "\n")
                    print(row, flush=True)
    asked = [row for row in rows if row["episodes"] == options.episodes and row["task"] in options.tasks]
    print("\n".join(table(asked)))


def measured(task: Task, name: str, milliseconds: float, episodes: int) -> dict[str, Any]:
    """Episodes of one planner with so much time a decision."""
    chosen = Frontier.load(task.name, task.model).nearest() if name == "frontier" else make_planner(task, name).planner
    for planner in chosen.planners if name == "frontier" else (chosen,):
        planner.plan(task.model.start_state(), task.budget, iterations=1)  # compiles
    done, _ = run_episodes(
        chosen,
        task.real_world,
        task.budget,
        episodes=episodes,
        seed=1,
        seconds=1e-3 * milliseconds,
        threads=1,
        lockstep=1,
    )
    found = done.summary()
    return {
        "task": task.name,
        "planner": name,
        "milliseconds": milliseconds,
        "episodes": episodes,
        "reward": found.reward_mean,
        "reward_se": found.reward_se,
        "cost": found.cost_mean,
        "cost_se": found.cost_se,
        "over": float((done.costs[:, 0] > task.budget[0] + 1e-6).mean()),
        "decision_ms": found.decision_ms,
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as a table in Markdown: a line a planner and task, reward and cost for each time."""
    times = sorted({row["milliseconds"] for row in rows})
    lines = [
        "| task | planner | " + " | ".join(f"{time:g} ms: reward | cost" for time in times) + " |",
        "| --- | --- |" + " ---: | ---: |" * len(times),
    ]
    found = {(row["task"], row["planner"], row["milliseconds"]): row for row in rows}
    for task, planner in dict.fromkeys((row["task"], row["planner"]) for row in rows):
        cells = []
        for time in times:
            row = found.get((task, planner, time))
            if row is None:
                cells += ["", ""]
                continue
            half = [1.96 * row[name] if math.isfinite(row[name]) else 0.0 for name in ("reward_se", "cost_se")]
            cells += [f"{row['reward']:.2f} ± {half[0]:.2f}", f"{row['cost']:.3f} ± {half[1]:.3f}"]
        lines.append(f"| {task} | {planner} | " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    main()
