"""Figures: where planners went, and how they compare. Colours are told apart by colour-blind readers and in grey."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cmcts.envs.charts import INK
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import Summary, Transitions
from cmcts.tasks.task import Task

NAMES = {
    "frontier": "frontier",
    "cmcts": "C-MCTS",
    "cc-mcp": "CC-MCP",
    "threshold-uct": "Threshold UCT",
    "penalized": "MCTS, fixed penalty",
}
COLOURS = {
    "frontier": "#b5179e",
    "cmcts": "#0b5d6b",
    "cc-mcp": "#e08214",
    "threshold-uct": "#3a7d1e",
    "penalized": "#8e7cc3",
}


def where_they_went(task: Task, journeys: Mapping[str, Transitions]) -> Figure:
    """Where planners went, one panel each, as the task draws it."""
    if task.draw_steps is None:
        raise InvalidInput(f"expected task {task.name!r} to have a function draw_steps, got None")
    panels = _panels(len(journeys))
    size = (task.model.untimed or task.model).state_size
    for axes, (name, steps) in zip(panels, journeys.items(), strict=True):
        task.draw_steps(axes, steps.states[:, :size], steps.actions, max(int(steps.last.sum()), 1))
        axes.set_title(NAMES.get(name, name), color=INK, fontsize=11, fontweight="bold")
    figure = panels[0].figure
    assert isinstance(figure, Figure)
    return figure


def _discounted(discount: float) -> str:
    return "discounted " if discount < 1.0 else ""


def comparison(task: Task, summaries: Mapping[str, Summary], optimum: float | None = None) -> Figure:
    """Reward, each cost and episodes over budget, with standard errors; dashed: the optimum and the budgets."""
    names, constraints = list(summaries), range(task.model.cost_count)
    panels = _panels(2 + len(constraints), height=2.9)
    colours = [COLOURS.get(name, INK) for name in names]
    rows = list(summaries.values())
    bars: list[tuple[str, list[float], list[float] | None]] = [
        (_discounted(task.discount) + "reward", [row.reward_mean for row in rows], [row.reward_se for row in rows]),
        *(
            (
                _discounted(task.cost_discounts[m]) + task.model.cost_name(m),
                [row.cost_means[m] for row in rows],
                [row.cost_ses[m] for row in rows],
            )
            for m in constraints
        ),
        ("episodes over budget [%]", [100.0 * row.violation_rate for row in rows], None),
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


def frontier_figure(
    task: Task, rows: Sequence[tuple[float, float, float, float, float | None]], rivals: Mapping[str, Summary]
) -> Figure:
    """Reward against budget: ours with its 95 % interval, the optimum where it is known, and other planners as points.

    Rows are (budget, reward, low, high, optimum).
    """
    axes = _panels(1, height=3.4)[0]
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.set_size_inches(5.6, 3.6)
    budgets, rewards, low, high, optima = (list(column) for column in zip(*rows, strict=True))
    known = [(b, best) for b, best in zip(budgets, optima, strict=True) if best is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color=INK, ls="--", lw=1.2, label="optimum")
    axes.fill_between(budgets, low, high, color=COLOURS["frontier"], alpha=0.22, lw=0)
    axes.plot(budgets, rewards, color=COLOURS["frontier"], lw=1.8, marker="o", ms=3.5, label="frontier, 95 % interval")
    for name, marker in (("cmcts", "s"), ("cc-mcp", "^")):
        if name in rivals:
            seen = rivals[name]
            axes.errorbar(seen.cost_mean, seen.reward_mean, 2 * seen.reward_se, 2 * seen.cost_se, fmt=marker, ms=6,
                          color=COLOURS[name], capsize=2.5, lw=1.2, label=f"{NAMES[name]}, at its cost")  # fmt: skip
    axes.set_xlabel(f"budget for {task.model.cost_name(0)} (points stand at their mean)", fontsize=9)
    axes.set_ylabel(_discounted(task.discount) + "reward", fontsize=9)
    axes.set_title(f"{task.name}: what a budget buys", fontsize=10, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    return figure


def picture(figure: Figure, form: str, dpi: int = 160) -> bytes:
    """The figure as the content of a .png, .svg or .pdf file; the figure is closed."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=dpi)
    plt.close(figure)
    return buffer.getvalue()


def png(figure: Figure, dpi: int = 120) -> bytes:
    """The figure as a file's content; the figure is closed."""
    return picture(figure, "png", dpi)


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
