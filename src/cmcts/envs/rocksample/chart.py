"""RockSample's map, with what planners did on it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from cmcts.envs.charts import INK, draw_grid
from cmcts.envs.rocksample.model import SAMPLE, SENSE, RockSampleParams


def draw_steps(
    params: RockSampleParams, axes: Axes, states: NDArray[np.float64], actions: NDArray[Any], episodes: int
) -> None:
    """Where planners went, what they measured and what they sampled; states are [T, S], actions [T]."""
    size, rocks = int(params.n), params.rocks
    visits = np.zeros((size, size))
    measured, sampled = np.zeros(len(rocks)), np.zeros((size, size))
    for (x, y), action in zip(states[:, :2].astype(int), actions, strict=True):
        visits[x, y] += 1
        if action >= SENSE:
            measured[action - SENSE] += 1
        sampled[x, y] += action == SAMPLE
    draw_grid(axes, size, visits)
    for rock, (x, y) in enumerate(rocks):
        axes.scatter(x, y, s=20 + 700 * measured[rock] / episodes, color="none", edgecolor="#e08214", lw=1.8)
        axes.scatter(x, y, s=10 + 300 * sampled[x, y] / episodes, color="#0b5d6b", marker="s")
    axes.set_xlabel("ring: measured, square: sampled,\nsize: how often an episode", fontsize=8, color=INK)
