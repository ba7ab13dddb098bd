"""What a trained frontier buys on a problem whose states can be listed, against the exact optimum, without noise.

    cmcts train queue --out runs/queue
    python benchmarks/finite.py queue --critic runs/queue --budgets 2 5 8

Columns are judged in the training world, by their decisions in every state, over at most --seeds plans a state on
average that no training has made; those with a guard, which mind what is left of a budget above 0, by --episodes
episodes.
With --world real, in the real world. "Bought" is the reward as a share of what the budget buys: the optimum there minus
that at the least budget.
"""

from __future__ import annotations

import argparse
import json
import warnings

import numpy as np

from cmcts.exact.finite import enumerate_states
from cmcts.frontier import Frontier
from cmcts.frontier.audit import Judge
from cmcts.tasks.optimum import least_optimum, solve_task, solve_training
from cmcts.tasks.registry import make


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--critic", required=True, help="a folder that `cmcts train` wrote, or a task that ships one")
    parser.add_argument("--budgets", nargs="+", type=float, help="the task's own, if none is named")
    parser.add_argument("--seeds", type=int, default=100, help="plans a state, on average and at most")
    parser.add_argument("--episodes", type=int, default=1000, help="of columns with a guard and a budget above 0")
    parser.add_argument("--world", choices=("training", "real"), default="training")
    options = parser.parse_args()
    task = make(options.task)
    frontier = Frontier.load(options.critic, task.model)
    real = options.world == "real"
    model, world = (task.real_model, task.real_world) if real else (task.training_model, task.training_world)
    solver = solve_task if real else solve_training
    assert model is not None, "the world's model"
    judge = Judge(enumerate_states(model, task.discount, 200_000, task.cost_discounts), options.seeds, options.episodes)
    least = least_optimum(task, solver)
    for budget in [np.array([limit]) for limit in options.budgets or []] or [np.array(task.budget)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            policy = frontier.nearest(budget)
        (reward, *costs), (reward_se, *cost_ses) = judge.figures(policy, task, world).tolist()
        best = solver(task, budget)
        row = {
            "budget": budget.tolist(),
            "optimum": best.reward_upper,
            "reward": reward,
            "reward_se": reward_se,
            "bought": best.bought(reward, least),
            "costs": costs,
            "cost_ses": cost_ses,
            "mixture": policy.describe(),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
