"""Regret and violation on random problems with one constraint: `python benchmarks/regret.py --problems 50`.

Every problem is solved exactly, then played by CC-MCP (2^15 iterations a decision), by C-MCTS (2^10) with a critic
trained by the normal recipe, and by the frontier of that training. Columns of a frontier that decide by the state alone
are judged without noise: their decisions in every state, over --seeds seeds, are evaluated exactly. Regret is what a
planner's mean reward lacks of the constrained optimum, as a share of what the budget buys: the optimum at this budget
minus the optimum at the least budget that can be kept. Violation is the mean cost above the budget, as a share of the
budget. Results go to a file of JSON lines, and a second call goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cmcts.commands.watching import executor_for
from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.tabulated import exact_values
from cmcts.exact.random_problems import RandomProblem, random_problem
from cmcts.exact.solver import least_cost_to_go, solve
from cmcts.executors import Here, Work, together
from cmcts.frontier import Frontier
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
    parser.add_argument("--episodes", type=int, default=200, help="for each planner and problem")
    parser.add_argument(
        "--planners", nargs="+", choices=("cc-mcp", "cmcts", "frontier"), default=["cc-mcp", "cmcts", "frontier"]
    )
    parser.add_argument("--seeds", type=int, default=100, help="searches a state, to tabulate a column's decisions")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--folder", type=Path, default=Path("runs/regret"))
    parser.add_argument("--ray", metavar="local|auto|ADDRESS", help="on a Ray cluster, all problems side by side")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / f"{options.kind}.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(row["task"], row["planner"], row["episodes"]) for row in rows}
    writing = threading.Lock()

    def solve_problem(seed: int) -> None:
        task = make(f"random-{options.kind}-{seed}")
        for name in options.planners:
            if (task.name, name, options.episodes) not in done:
                row = measure(task, seed, name, options)
                with writing, file.open("a") as out:
                    rows.append(row)
                    out.write(json.dumps(row) + "\n")
                    print({key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()}, flush=True)

    with executor_for(options.ray, "cpu") as options.executor:
        seeds = range(options.first, options.first + options.problems)
        for _ in together(options.executor or Here(), solve_problem, seeds):
            pass
    names = {f"random-{options.kind}-{seed}" for seed in range(options.first, options.first + options.problems)}
    report([row for row in rows if row["episodes"] == options.episodes and row["task"] in names])


def measure(task: Task, seed: int, name: str, options: argparse.Namespace) -> dict[str, Any]:
    problem = random_problem(seed, options.kind)
    cmdp, budget, best = problem.cmdp, float(problem.budget[0]), problem.solution.reward
    least = float(cmdp.start @ np.minimum.reduceat(least_cost_to_go(cmdp)[:, 0], cmdp.first_pair))
    bought = best - solve(cmdp, least).reward
    if name == "frontier":
        return measure_frontier(task, problem, best, bought, options)
    iterations = CCMCP_ITERATIONS if name == "cc-mcp" else CMCTS_ITERATIONS
    planner = CCMCP(task.model, task.search, task.ccmcp_settings) if name == "cc-mcp" else trained(task, options)
    row = {"task": task.name, "planner": name, "episodes": options.episodes, "optimum": best, "budget": budget}
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
    summary = episodes.summary()
    return row | {
        "feasible": True,
        "reward": summary.reward_mean,
        "reward_se": summary.reward_se,
        "cost": summary.cost_mean,
        "cost_se": summary.cost_se,
        "regret": (best - summary.reward_mean) / bought,
        "regret_se": summary.reward_se / bought,
        "violation": (summary.cost_mean - budget) / budget,
        "violation_se": summary.cost_se / budget,
    }


def measure_frontier(
    task: Task, problem: RandomProblem, best: float, bought: float, options: argparse.Namespace
) -> dict[str, Any]:
    """The mixture for the problem's budget: each column exactly if it can be, else by episodes in the real world."""
    row = {"task": task.name, "planner": "frontier", "episodes": options.episodes, "optimum": best}
    row["budget"] = budget = float(problem.budget[0])
    if train_once(task, options) is None:
        return row | {"feasible": False}
    frontier = Frontier.load(options.folder / task.name, task.model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        policy = frontier.nearest(budget)
    figures = []
    for column, planner in zip(policy.columns, policy.planners, strict=True):
        if column.settings.guard == "none":
            work = Work(partial(tabulated_values, planner, problem.cmdp), f"decisions of {planner.model.name}, seeds")
            ((_, values),) = (options.executor or Here()).run(work, [options.seeds])
            figures.append((values.reward, float(values.costs[0]), 0.0, 0.0))
        else:
            own = column.settings.budget
            episodes, _ = episodes_on(
                options.executor, planner, task.real_world, own, episodes=4 * options.episodes, seed=1
            )
            seen = episodes.summary()
            figures.append((seen.reward_mean, seen.cost_mean, seen.reward_se, seen.cost_se))
    reward, cost, reward_se, cost_se = policy.weights @ np.array(figures)
    return row | {
        "feasible": True,
        "mixture": policy.describe(),
        "warnings": [str(warning.message) for warning in caught],
        "reward": reward,
        "reward_se": reward_se,
        "cost": cost,
        "cost_se": cost_se,
        "regret": (best - reward) / bought,
        "regret_se": reward_se / bought,
        "violation": (cost - budget) / budget,
        "violation_se": cost_se / budget,
    }


def tabulated_values(planner: Planner, cmdp: Any, seeds: int) -> Any:
    return exact_values(planner, cmdp, seeds=seeds)


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
