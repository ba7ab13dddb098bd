"""Draws three_planners.png: one RockSample(7,8) episode, the same hidden rocks, planned by each of the three planners.

python docs/images/three_planners.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

import cmcts
from cmcts import Agent
from cmcts.commands.planner_options import PLANNERS, make_planner
from cmcts.envs.rocksample.model import SAMPLE, SENSE
from cmcts.envs.rocksample.world import RockSampleWorld
from cmcts.evaluation.playing import Step, play_episode

SEED = 3
NAMES = {"cmcts": "C-MCTS", "cc-mcp": "CC-MCP", "penalized": "MCTS with a penalty"}
GOOD, BAD, PATH, SENSOR = "#2a9d8f", "#e76f51", "#264653", "#e9a13b"


def draw(axes: Axes, task: cmcts.Task, name: str, steps: list[Step], good: np.ndarray) -> None:
    """One panel: the map, the path, and what was measured and sampled on it."""
    rocks, n = task.model.params.rocks, task.model.params.n
    for k in range(n + 1):
        axes.plot([-0.5, n - 0.5], [k - 0.5] * 2, color="#d6d0c4", lw=0.8, zorder=0)
        axes.plot([k - 0.5] * 2, [-0.5, n - 0.5], color="#d6d0c4", lw=0.8, zorder=0)
    axes.scatter(*rocks.T, s=130, marker="s", c=[GOOD if g else BAD for g in good], zorder=2)
    places = np.array([step.decision.state[:2] for step in steps])
    places = np.vstack([places, places[-1] + (1, 0)])
    axes.plot(*places.T, color=PATH, lw=2.5, zorder=3, solid_capstyle="round")
    axes.scatter(*places[0], s=60, color=PATH, zorder=4)
    axes.annotate("", places[-1] + (0.15, 0), places[-1] - (0.2, 0), arrowprops={"arrowstyle": "-|>", "color": PATH})
    for step, place in zip(steps, places[:-1], strict=True):
        action = step.decision.action
        if action >= SENSE:
            rock = rocks[action - SENSE]
            bow = {"arrowstyle": "-", "color": SENSOR, "lw": 2, "ls": (0, (2, 1.5)), "connectionstyle": "arc3,rad=0.3"}
            axes.annotate("", place, rock, arrowprops=bow | {"shrinkA": 0, "shrinkB": 0})
            axes.scatter(*rock, s=330, marker="o", color="none", edgecolor=SENSOR, lw=2, zorder=4)
        elif action == SAMPLE:
            axes.scatter(*place, s=190, marker="*", color="white", edgecolor=PATH, lw=1.3, zorder=5)
    last = steps[-1]
    cost, budget = float(last.discounted_costs[0]), task.budget[0]
    axes.set_title(NAMES[name], fontweight="bold", fontsize=12, color=PATH)
    over = cost > budget + 1e-6
    axes.text(
        (n - 1) / 2,
        -0.95,
        f"reward {last.discounted_reward:.1f}, cost {cost:.2f} of {budget:g}",
        ha="center",
        va="center",
        fontsize=11,
        color=BAD if over else PATH,
    )
    axes.set(aspect="equal", xlim=(-0.6, n + 0.4), ylim=(-1.3, n - 0.4))
    axes.axis("off")


def main() -> None:
    """Plan the three episodes and draw them side by side."""
    task = cmcts.make("rocksample-7-8")
    world = task.real_world()
    assert isinstance(world, RockSampleWorld)
    world.reset(seed=SEED)
    figure, panels = plt.subplots(1, len(PLANNERS), figsize=(11, 4.3), dpi=110)
    for axes, name in zip(panels, PLANNERS, strict=True):
        planner = make_planner(task, name).planner
        steps = list(play_episode(task, Agent(planner, task.budget, rng=SEED), seed=SEED))
        draw(axes, task, name, steps, world._good)  # a planner never sees these
    marks = [
        Line2D([], [], marker="s", color="none", markerfacecolor=GOOD, markeredgecolor="none", markersize=10),
        Line2D([], [], marker="s", color="none", markerfacecolor=BAD, markeredgecolor="none", markersize=10),
        Line2D([], [], color=SENSOR, lw=2, ls=(0, (2, 1.5))),
        Line2D([], [], marker="*", color="none", markerfacecolor="white", markeredgecolor=PATH, markersize=13),
    ]
    labels = ["good rock (hidden)", "bad rock (hidden)", "measurement: cost 1", "sample"]
    figure.legend(marks, labels, loc="lower center", ncols=4, frameon=False, fontsize=10)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.92, bottom=0.09, wspace=0.03)
    figure.savefig(Path(__file__).with_suffix(".png"), metadata={"Software": None})


if __name__ == "__main__":
    main()
