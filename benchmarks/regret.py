"""Regret and violation on random problems: `python benchmarks/regret.py --kind sparse --problems 20`.

Every problem is solved exactly, then played by CC-MCP (2^15 iterations a decision), by C-MCTS (2^10) with a critic
trained by the normal recipe, and by the frontier of that training. Columns of a frontier that decide by the state alone
are judged without episodes: by their decisions in every state, over at most --seeds plans each on average. Regret is
what a planner's mean reward lacks of the constrained optimum, as a share of what the budget buys: the optimum there
minus the optimum at the budget of the most frugal policy. Violation is the mean cost above the budget, as a share of
the budget; of several constraints, the largest. Problems have eight states, three actions and one constraint, unless
--shape says otherwise. Results go to a file of JSON lines, and a second call goes on where the first
one stopped. Problems are divided among as many processes as there are cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from cmcts.commands.watching import executor_for
from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.devices import cores
from cmcts.evaluation.blocks import episodes_on
from cmcts.exact.random_problems import RandomProblem, frugal_costs, random_problem
from cmcts.exact.solver import solve
from cmcts.executors import Here, together
from cmcts.frontier import Frontier
from cmcts.frontier.audit import Judge
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CCMCP, CMCTS
from cmcts.tasks.registry import make
from cmcts.tasks.task import Task

CCMCP_ITERATIONS, CMCTS_ITERATIONS = 1 << 15, 1 << 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first problem's seed")
    parser.add_argument("--kind", choices=("absorbing", "sparse", "dense"), default="absorbing")
    parser.add_argument("--shape", nargs=3, type=int, metavar=("STATES", "ACTIONS", "CONSTRAINTS"), default=())
    parser.add_argument("--episodes", type=int, default=200, help="for each planner and problem")
    parser.add_argument(
        "--planners", nargs="+", choices=("cc-mcp", "cmcts", "frontier"), default=["cc-mcp", "cmcts", "frontier"]
    )
    parser.add_argument(
        "--seeds", type=int, default=400, help="plans a state, on average, to tabulate a column's decisions"
    )
    parser.add_argument("--threads", type=int)
    parser.add_argument("--jobs", type=int, default=cores(), help="processes side by side, a core each")
    parser.add_argument("--folder", type=Path, default=Path("runs/regret"))
    parser.add_argument("--ray", metavar="local|auto|ADDRESS", help="on a Ray cluster, all problems side by side")
    parser.add_argument("--every", type=int, default=1, help="of the problems, for one of several jobs")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    more = "".join(f"-{size}" for size in options.shape)
    file = options.folder / f"{options.kind}{more}.jsonl"
    jobs = min(options.jobs, options.problems)
    if jobs > 1 and options.ray is None:
        side_by_side(jobs, options)
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(row["task"], row["planner"], row["episodes"]) for row in rows}
    writing = threading.Lock()

    def solve_problem(seed: int) -> None:
        task = make(f"random-{options.kind}-{seed}{more}")
        for name in options.planners:
            if (task.name, name, options.episodes) not in done:
                row = measure(task, seed, name, options)
                with writing, file.open("a") as out:
                    rows.append(row)
                    out.write(json.dumps(row) + "\n")
                    print({key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()}, flush=True)

    with executor_for(options.ray, "cpu") as options.executor:
        seeds = range(options.first, options.first + options.problems, options.every)
        for _ in together(options.executor or Here(), solve_problem, seeds):
            pass
    names = {f"random-{options.kind}-{seed}{more}" for seed in seeds}
    report([row for row in rows if row["episodes"] == options.episodes and row["task"] in names])


def side_by_side(jobs: int, options: argparse.Namespace) -> None:
    """Every so many-th problem in a process of its own: one search seldom keeps two cores busy, two trainings do."""
    shares = [sorted(os.sched_getaffinity(0))[k::jobs] for k in range(jobs)] if hasattr(os, "sched_getaffinity") else []
    processes = []
    for k in range(jobs):
        first, count = options.first + k, options.problems - k
        mine = ["--jobs", "1", "--every", str(jobs), "--first", str(first), "--problems", str(count)]

        def bind(k: int = k) -> None:
            if shares and shares[k]:
                os.sched_setaffinity(0, shares[k])

        processes.append(subprocess.Popen([sys.executable, *sys.argv, *mine], preexec_fn=bind))  # the last one counts
    if failed := [process.args for process in processes if process.wait() != 0]:
        raise SystemExit(f"failed, call again to go on: {failed[0]}")


def measure(task: Task, seed: int, name: str, options: argparse.Namespace) -> dict[str, Any]:
    problem = random_problem(seed, options.kind, *options.shape)
    row = {"task": task.name, "planner": name, "episodes": options.episodes, "optimum": problem.solution.reward}
    row["budget"] = problem.budget.tolist()
    if name == "frontier":
        return row | measure_frontier(task, problem, options)
    iterations = CCMCP_ITERATIONS if name == "cc-mcp" else CMCTS_ITERATIONS
    planner = CCMCP(task.model, task.search, task.ccmcp_settings) if name == "cc-mcp" else trained(task, options)
    if planner is None:
        return row | {"feasible": False}
    episodes, _ = episodes_on(
        options.executor,
        planner,
        task.real_world,
        task.budget,
        episodes=options.episodes,
        seed=1,
        iterations=iterations,
        threads=options.threads,
    )
    played = np.column_stack([episodes.rewards, episodes.costs])
    return row | figures(problem, played.mean(axis=0), played.std(axis=0, ddof=1) / np.sqrt(len(played)))


def figures(problem: RandomProblem, means: Any, errors: Any) -> dict[str, Any]:
    """What a planner's mean reward and costs, [1 + M] with their standard errors, come to beside the optimum."""
    best = problem.solution.reward
    bought = best - solve(problem.cmdp, frugal_costs(problem.cmdp)).reward
    over = (means[1:] - problem.budget) / problem.budget
    worst = int(np.argmax(over))
    return {
        "feasible": True,
        "reward": float(means[0]),
        "reward_se": float(errors[0]),
        "costs": means[1:].tolist(),
        "cost_ses": errors[1:].tolist(),
        "regret": float((best - means[0]) / bought),
        "regret_se": float(errors[0] / bought),
        "violation": float(over[worst]),
        "violation_se": float(errors[1 + worst] / problem.budget[worst]),
    }


def measure_frontier(task: Task, problem: RandomProblem, options: argparse.Namespace) -> dict[str, Any]:
    """The mixture for the problem's budget: each column exactly if it can be, else by episodes in the real world."""
    if train_once(task, options) is None:
        return {"feasible": False}
    frontier = Frontier.load(options.folder / task.name, task.model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        policy = frontier.nearest(problem.budget)
    judge = Judge(problem.cmdp, options.seeds, 4 * options.episodes, options.executor)
    return {
        "mixture": policy.describe(),
        "warnings": [str(warning.message) for warning in caught],
        **figures(problem, *judge.figures(policy, task, task.real_world)),
    }


def trained(task: Task, options: argparse.Namespace) -> Planner | None:
    """C-MCTS with a critic trained as `cmcts train` does it; None if no critic was feasible."""
    bundle = train_once(task, options)
    return None if bundle is None or bundle.critic is None else CMCTS.load(options.folder / task.name, task.model)


def train_once(task: Task, options: argparse.Namespace) -> Bundle | None:
    """What `cmcts train` leaves of a task; a training that is under way is resumed."""
    from cmcts.training.loop import train
    from cmcts.training.run_folder import RunFolder
    from cmcts.training.settings import TrainingSettings, run_config

    path = options.folder / task.name
    if not (path / "bundle.json").exists():
        settings = TrainingSettings.for_task(task)
        run = RunFolder.open(path) if path.exists() else RunFolder.create(path, run_config(task, settings))
        return train(task, settings, run, executor=options.executor).bundle
    return bundles.load(path, task.model)


def report(rows: list[dict[str, Any]]) -> None:
    for name in sorted({row["planner"] for row in rows}):
        mine = [row for row in rows if row["planner"] == name]
        played = [row for row in mine if row["feasible"]]
        print(f"\n{name}: {len(played)} of {len(mine)} problems played")
        if not played:
            continue
        for figure in ("regret", "violation"):
            values = np.array([row[figure] for row in played])
            quantiles = ", ".join(f"{q}%: {np.percentile(values, q):+.3f}" for q in (0, 10, 25, 50, 75, 90, 100))
            print(f"  {figure:9}  mean {values.mean():+.3f}   {quantiles}")
        over = sum(row["violation"] > 2 * row["violation_se"] for row in played)
        print(f"  mean cost over budget by more than two standard errors: {over} of {len(played)}")


if __name__ == "__main__":
    main()
