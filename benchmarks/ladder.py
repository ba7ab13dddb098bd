"""Does more budget ever earn less? A frontier at ten budgets, in the real world, on the same worlds.

    python benchmarks/ladder.py rocksample-7-8 --episodes 400

Between a budget and the next, rewards are compared episode by episode. A step down counts if it exceeds two standard
errors of that difference; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings

import numpy as np

from cmcts.evaluation.episodes import run_episodes
from cmcts.evaluation.statistics import standard_error
from cmcts.frontier import Frontier
from cmcts.tasks.registry import make


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--critic", help="a folder that `cmcts train` wrote; the task's own bundle if none is named")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument(
        "--most", type=float, help="the largest budget; what the most reckless column spends by default"
    )
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    task = make(options.task)
    frontier = Frontier.load(options.critic or options.task, task.model)
    warnings.simplefilter("ignore")  # the ends of the ladder are the ends of what was measured
    least, most = float(frontier.least_costs[0]), float(options.most or frontier.largest_costs[0])
    before, down = None, 0
    for budget in np.linspace(least, most, options.steps).tolist():
        policy = frontier.nearest(budget)
        done, _ = run_episodes(policy, task.real_world, budget, episodes=options.episodes, seed=options.seed)
        gained = np.zeros(1) if before is None else done.rewards - before
        falls = bool(gained.mean() < -2 * standard_error(gained))
        down += falls
        row = {
            "budget": budget,
            "reward": float(done.rewards.mean()),
            "reward_se": standard_error(done.rewards),
            "cost": float(done.costs[:, 0].mean()),
            "cost_se": standard_error(done.costs[:, 0]),
            "step": float(gained.mean()),
            "step_se": standard_error(gained),
            "falls": falls,
        }
        print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}))
        sys.stdout.flush()
        before = done.rewards
    print(f"steps down by more than two standard errors: {down} of {options.steps - 1}")
    sys.exit(down > 0)


if __name__ == "__main__":
    main()
