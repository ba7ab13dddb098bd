"""Reward against budget in Safe Gridworld's real world, and where the planners lie: writes docs/images/optimum.png.

The curve is exact. Each planner plays at the task's own budget; C-MCTS appears once a trained critic ships.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

from cmcts.commands.planner_options import PLANNERS, make_planner
from cmcts.critic.bundle import shipped
from cmcts.evaluation.episodes import run_episodes
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import solve
from cmcts.tasks.registry import make

LABELS = {"cmcts": "C-MCTS", "cc-mcp": "CC-MCP", "penalized": "penalised MCTS"}
MARKERS = {"cmcts": "o", "cc-mcp": "s", "penalized": "^"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "docs" / "images" / "optimum.png")
    options = parser.parse_args()

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    task = make("safe-gridworld")
    assert task.real_model is not None
    cmdp = enumerate_states(task.real_model, task.discount)
    budgets = np.linspace(0.0, 1.0, 101)
    rewards = [solve(cmdp, budget).reward for budget in budgets]
    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    axes.plot(budgets, rewards, color="black", label="exact optimum")
    axes.fill_between(budgets, rewards, 74, color="0.92", label="no policy gets here")
    for name in PLANNERS:
        if name == "cmcts" and shipped(task.name) is None:
            print("C-MCTS left out: no trained critic ships for this task yet")
            continue
        planner = make_planner(task, name).planner
        episodes, _ = run_episodes(
            planner, task.real_world, task.budget, episodes=options.episodes, seed=0, iterations=task.iterations
        )
        summary = episodes.summary()
        print(name, summary)
        axes.errorbar(
            summary.cost_mean,
            summary.reward_mean,
            xerr=2 * summary.cost_se,
            yerr=2 * summary.reward_se,
            fmt=MARKERS[name],
            capsize=3,
            label=f"{LABELS[name]}, budget 0",
        )
    axes.set_xlabel("mean discounted cost (budget for the curve)")
    axes.set_ylabel("mean discounted reward")
    axes.set_xlim(-0.03, 1.0)
    axes.set_ylim(top=74)
    axes.legend(loc="lower right", frameon=False)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.output, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
