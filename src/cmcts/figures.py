"""Figures: where planners went, and how they compare. Colours are told apart by colour-blind readers and in grey."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cmcts.envs.rocksample import SAMPLE, SENSE
from cmcts.envs.safe_gridworld import GOAL, MOVES, SIZE, UNSAFE_SQUARES, WINDY_SQUARES
from cmcts.evaluation import Transitions
from cmcts.tasks import Task

NAMES = {"cmcts": "C-MCTS", "cc-mcp": "CC-MCP", "penalized": "MCTS, fixed penalty"}
COLOURS = {"cmcts": "#0b5d6b", "cc-mcp": "#e08214", "penalized": "#8e7cc3"}
INK = "#264653"


def where_they_went(task: Task, journeys: Mapping[str, Transitions]) -> Figure:
    """Share of episodes' time on each square, one panel a planner, with an arrow for what was done there."""
    panels = _panels(len(journeys))
    for axes, (name, steps) in zip(panels, journeys.items(), strict=True):
        if task.name == "safe-gridworld":
            _safe_gridworld(axes, steps)
        else:
            _rocksample(axes, task, steps)
        axes.set_title(NAMES.get(name, name), color=INK, fontsize=11, fontweight="bold")
    figure = panels[0].figure
    assert isinstance(figure, Figure)
    return figure


def comparison(task: Task, summaries: Mapping[str, Mapping[str, Any]], optimum: float | None = None) -> Figure:
    """Reward, each cost and episodes over budget, with standard errors; dashed: the optimum and the budgets."""
    names, constraints = list(summaries), range(task.model.cost_count)
    panels = _panels(2 + len(constraints), height=2.9)
    colours = [COLOURS.get(name, INK) for name in names]
    rows = list(summaries.values())
    bars: list[tuple[str, list[float], list[float] | None]] = [
        ("discounted reward", [row["reward_mean"] for row in rows], [row["reward_se"] for row in rows]),
        *(
            (
                f"discounted {task.model.cost_name(m)}",
                [row["cost_means"][m] for row in rows],
                [row["cost_ses"][m] for row in rows],
            )
            for m in constraints
        ),
        ("episodes over budget [%]", [100.0 * row["violation_rate"] for row in rows], None),
    ]
    for axes, (title, heights, errors) in zip(panels, bars, strict=True):
        axes.bar([NAMES.get(name, name).replace(", ", "\n") for name in names], heights, yerr=errors, color=colours,
                 width=0.6, capsize=4, error_kw={"ecolor": INK, "lw": 1.2})  # fmt: skip
        for x, height in enumerate(heights):
            lift = errors[x] if errors else 0.0
            axes.annotate(f"{height:.3g}", (x, height + lift), xytext=(0, 3), textcoords="offset points", ha="center",
                          fontsize=9, color=INK)  # fmt: skip
        axes.set_title(title, fontsize=10, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.margins(y=0.18)
    if optimum is not None:
        _mark(panels[0], optimum, f"optimum {optimum:.2f}")
    for m in constraints:
        _mark(panels[1 + m], task.budget[m], f"budget {task.budget[m]:g}")
    figure = panels[0].figure
    assert isinstance(figure, Figure)
    return figure


def png(figure: Figure, dpi: int = 120) -> bytes:
    """The figure as a file's content; the figure is closed."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    plt.close(figure)
    return buffer.getvalue()


def _panels(count: int, height: float = 3.6) -> list[Axes]:
    _, panels = plt.subplots(1, count, figsize=(3.5 * count, height), squeeze=False, layout="constrained")
    return list(panels[0])


def _mark(axes: Axes, height: float, label: str) -> None:
    """A dashed line across, named at its right end."""
    axes.axhline(height, color=INK, ls="--", lw=1)
    paper = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.0}
    axes.annotate(
        label,
        (1.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8,
        color=INK,
        bbox=paper,
    )


def _grid(axes: Axes, size: int, visits: np.ndarray[Any, Any]) -> None:
    shares = visits.T / max(visits.sum(), 1)
    axes.imshow(shares, origin="lower", cmap="Greys", vmin=0, vmax=0.18)
    axes.set_xticks(np.arange(-0.5, size), [])
    axes.set_yticks(np.arange(-0.5, size), [])
    axes.grid(color="#d6d0c4", lw=0.7)
    axes.tick_params(length=0)
    axes.set_xlim(-0.5, size - 0.5)
    axes.set_ylim(-0.5, size - 0.5)


def _safe_gridworld(axes: Axes, steps: Transitions) -> None:
    counts = np.zeros((SIZE, SIZE, len(MOVES)))
    x, y = steps.states[:, :2].astype(int).T
    np.add.at(counts, (x, y, steps.actions), 1)
    safe_gridworld_map(axes, counts)


def safe_gridworld_map(axes: Axes, counts: np.ndarray[Any, Any]) -> None:
    """The map with how often each action was taken on each square, counts[x, y, action].

    Squares are as dark as they were frequent; arrows are as long as their action was frequent on their square.
    """
    visits = counts.sum(axis=2)
    _grid(axes, SIZE, visits)
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


def _rocksample(axes: Axes, task: Task, steps: Transitions) -> None:
    size = int(task.model.params.n)
    rocks = task.model.params.rocks
    visits = np.zeros((size, size))
    measured, sampled = np.zeros(len(rocks)), np.zeros((size, size))
    for (x, y), action in zip(steps.states[:, :2].astype(int), steps.actions, strict=True):
        visits[x, y] += 1
        if action >= SENSE:
            measured[action - SENSE] += 1
        sampled[x, y] += action == SAMPLE
    _grid(axes, size, visits)
    episodes = max(int(steps.last.sum()), 1)
    for rock, (x, y) in enumerate(rocks):
        axes.scatter(x, y, s=20 + 700 * measured[rock] / episodes, color="none", edgecolor="#e08214", lw=1.8)
        axes.scatter(x, y, s=10 + 300 * sampled[x, y] / episodes, color="#0b5d6b", marker="s")
    axes.set_xlabel("ring: measured, square: sampled,\nsize: how often an episode", fontsize=8, color=INK)
