"""Safe Gridworld's map, with what planners did on it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from cmcts.envs.charts import INK, draw_grid
from cmcts.envs.safe_gridworld.model import GOAL, MOVES, SIZE, UNSAFE_SQUARES, WINDY_SQUARES


def draw_steps(axes: Axes, states: NDArray[np.float64], actions: NDArray[Any], episodes: int) -> None:
    """Where planners went; states are [T, 2], actions [T]."""
    counts = np.zeros((SIZE, SIZE, len(MOVES)))
    x, y = states.astype(int).T
    np.add.at(counts, (x, y, actions), 1)
    draw_counts(axes, counts)


def draw_counts(axes: Axes, counts: np.ndarray[Any, Any]) -> None:
    """The map with how often each action was taken on each square, counts[x, y, action].

    Squares are as dark as they were frequent; arrows are as long as their action was frequent on their square.
    """
    visits = counts.sum(axis=2)
    draw_grid(axes, SIZE, visits)
    for squares, colour, hatch in ((UNSAFE_SQUARES, "#d1495b", "xx"), (WINDY_SQUARES, "#3d8fb5", "..")):
        for x, y in squares:
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch=hatch, ec=colour, lw=0, alpha=0.8))
    axes.text(*GOAL, "goal", ha="center", va="center", fontsize=8, color=INK)
    column, line, action = np.nonzero(counts)
    share = counts[column, line, action] / visits[column, line]
    moves = np.asarray(MOVES)[action] * share[:, None] * 0.5
    seen = np.abs(moves).max(axis=1) > 0.02
    axes.quiver(column[seen], line[seen], moves[seen, 0], moves[seen, 1], color="#e08214", angles="xy",
                scale_units="xy", scale=1, width=0.009, headwidth=4, headlength=4)  # fmt: skip
