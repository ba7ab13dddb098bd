"""Draws frontier.png: what a budget buys on RockSample(7,8), by the frontier that ships, beside the exact optimum.

C-MCTS and CC-MCP play at the task's budget, and stand at the cost they had.

python docs/images/frontier.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import cmcts
from cmcts.commands.planner_options import make_planner
from cmcts.evaluation.episodes import run_episodes
from cmcts.report.figures import frontier_figure, png
from cmcts.tasks.optimum import solve_training

TASK, EPISODES, STEPS, LARGEST = "rocksample-7-8", 400, 13, 3.0


def main() -> None:
    """Solve, play and draw."""
    task, frontier = cmcts.make(TASK), cmcts.Frontier.load(TASK)
    rows = []
    for budget in np.linspace(0.0, LARGEST, STEPS):
        policy = frontier.at(budget)
        low, high = policy.reward_interval
        best = solve_training(task, [budget]).reward_lower
        rows.append((float(budget), policy.reward_mean, low, high, best))
    rivals = {}
    for name in ("cmcts", "cc-mcp"):
        planner = make_planner(task, name).planner
        rivals[name] = run_episodes(planner, task.training_world, task.budget, episodes=EPISODES, seed=0)[0].summary()
    Path(__file__).with_suffix(".png").write_bytes(png(frontier_figure(task, rows, rivals), dpi=110))


if __name__ == "__main__":
    main()
