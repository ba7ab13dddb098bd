"""From one CSV to one figure: each function takes a table's rows and returns a figure that could go into a paper.

Planners are told apart by colour, marker and line style, so that figures can be read in grey and by the colour-blind;
intervals are 95 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from cmcts.envs.charts import INK
from cmcts.envs.safe_gridworld.chart import draw_counts
from cmcts.envs.safe_gridworld.model import MOVES
from cmcts.report.figures import COLOURS, NAMES

Rows = Sequence[dict[str, Any]]

STYLES = {"cmcts": ("o", "-"), "cc-mcp": ("s", "--"), "penalized": ("^", ":")}
LABELS = {
    **NAMES,
    "penalized": "MCTS(λ*)",
    "exact": "exact optimum",
    "baseline": "what the trade does",
    "ppo-lagrangian": "PPO-Lagrangian",
    "threshold-uct-authors": "Threshold UCT, its authors' program",
}
# Marker and colour of each planner in the zoo's picture.
ZOO_MARKS = {
    "exact": ("*", INK),
    "frontier": ("D", COLOURS["frontier"]),
    "cmcts": ("o", COLOURS["cmcts"]),
    "cc-mcp": ("s", COLOURS["cc-mcp"]),
    "threshold-uct": ("^", COLOURS["threshold-uct"]),
    "baseline": ("P", "#777777"),
    "ppo-lagrangian": ("X", "#b2182b"),
}
ZOO_TITLES = {
    "icu-sepsis": "ICU-Sepsis",
    "queue": "Queue",
    "inventory": "Inventory",
    "avoid-8": "Avoid, map 8",
    "soft-avoid-8": "SoftAvoid, map 8",
    "taxi": "Taxi",
    "frozen-lake": "FrozenLake",
    "lava-crossing": "LavaCrossing",
}
PAPER_SAFE: dict[Any, Any] = {
    "svg.hashsalt": "cmcts",
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.fontsize": 9,
    "svg.fonttype": "none",
}


def task_title(task: str) -> str:
    """The title of a task: RockSample(7,8) for rocksample-7-8."""
    if task in ZOO_TITLES:
        return ZOO_TITLES[task]
    parts = task.split("-")
    return f"RockSample({parts[1]},{parts[2]})" if parts[0] == "rocksample" else "Safe Gridworld"


def curves(rows: Rows, settings: str) -> Figure:
    """Reward, cost and violations against planning iterations: 3 x 3, a column a map."""
    measures = (
        ("reward", "discounted reward"),
        ("cost", "discounted cost"),
        ("violations", "episodes over budget [%]"),
    )
    return _grid([row for row in rows if row["settings"] == settings], measures, budget=1.0)


def depths(rows: Rows, settings: str = "defaults") -> Figure:
    """Peak tree depth against planning iterations, a panel a map."""
    return _grid([row for row in rows if row["settings"] == settings], (("depth", "peak tree depth"),))


def _grid(rows: Rows, measures: Sequence[tuple[str, str]], budget: float | None = None) -> Figure:
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, panels = make_panels(len(measures), len(tasks))
    for column, task in enumerate(tasks):
        for line, (measure, label) in enumerate(measures):
            axes = panels[line][column]
            for planner in STYLES:
                here = [row for row in rows if row["task"] == task and row["planner"] == planner]
                draw_line(axes, here, measure, LABELS[planner], COLOURS[planner], *STYLES[planner])
            if measure == "cost" and budget is not None:
                draw_budget(axes, budget)
            _iterations_axis(axes, rows, last=line == len(measures) - 1)
            if measure != "reward":
                axes.set_ylim(bottom=0)
            if line == 0:
                axes.set_title(task_title(task))
            if column == 0:
                axes.set_ylabel(label)
    draw_legend(figure, panels)
    return figure


def ablation(rows: Rows, settings: str) -> Figure:
    """Cost and violations against planning iterations for the paper's three ablations: 2 x 3."""
    rows = [row for row in rows if row["settings"] == settings]
    names = list(dict.fromkeys(row["panel"] for row in rows))
    figure, panels = make_panels(2, len(names))
    looks = (("#b2182b", "s", "--"), ("#0b5d6b", "o", "-"))
    for column, panel in enumerate(names):
        labels = list(dict.fromkeys(row["label"] for row in rows if row["panel"] == panel))
        for line, (measure, label) in enumerate((("cost", "discounted cost"), ("violations", "over budget [%]"))):
            axes = panels[line][column]
            for name, (colour, marker, style) in zip(labels, looks, strict=True):
                here = [row for row in rows if row["panel"] == panel and row["label"] == name]
                draw_line(axes, here, measure, name.replace("sigma_max", r"$\sigma_{max}$"), colour, marker, style)
            if measure == "cost":
                draw_budget(axes, 1.0)
            _iterations_axis(axes, rows, last=line == 1)
            axes.set_ylim(bottom=0)
            if line == 0:
                axes.set_title(panel)
            else:
                handles, texts = axes.get_legend_handles_labels()
                axes.legend(handles, texts, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.32))
            if column == 0:
                axes.set_ylabel(label)
    return figure


def leak(rows: Rows) -> Figure:
    """Reward by the paper's settings: planners that see beliefs, and the same with the hidden rock values in view."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, panels = make_panels(1, len(tasks))
    for axes, task in zip(panels[0], tasks, strict=True):
        for planner in STYLES:
            for sees in ("beliefs", "hidden values"):
                here = [r for r in rows if r["task"] == task and r["planner"] == planner and r["sees"] == sees]
                marker, _ = STYLES[planner]
                style = "-" if sees == "beliefs" else "--"
                draw_line(axes, here, "reward", f"{LABELS[planner]}, {sees}", COLOURS[planner], marker, style,
                      hollow=sees != "beliefs")  # fmt: skip
        axes.set_title(task_title(task))
        _iterations_axis(axes, rows, last=True)
    panels[0][0].set_ylabel("discounted reward")
    draw_legend(figure, panels)
    return figure


def visits(rows: Rows) -> Figure:
    """Safe Gridworld: the share of time on each square, with arrows as long as an action was frequent there."""
    shown = list(dict.fromkeys((row["settings"], row["planner"], row["iterations"]) for row in rows))
    figure, panels = make_panels(1, len(shown), height=3.3)
    for axes, (settings, planner, iterations) in zip(panels[0], shown, strict=True):
        here = [r for r in rows if (r["settings"], r["planner"], r["iterations"]) == (settings, planner, iterations)]
        counts = np.zeros((8, 8, len(MOVES)))
        for row in here:
            counts[row["x"], row["y"], row["action"]] += row["count"]
        draw_counts(axes, counts)
        whose = "paper's settings" if settings == "paper" else "defaults"
        axes.set_title(f"{LABELS[planner]}, {iterations} iterations\n{whose}", color=INK)
    return figure


def zoo(rows: Rows) -> Figure:
    """A panel for each problem: the exact optimum against the budget, and where the planners came out."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    across = min(4, len(tasks))
    figure, panels = make_panels(-(-len(tasks) // across), across)
    flat = [axes for line in panels for axes in line]
    for axes, task in zip(flat, tasks, strict=False):
        here = [row for row in rows if row["task"] == task and row["reward"] is not None]
        curve = [row for row in here if row["planner"] == "curve"]
        axes.plot([row["cost"] for row in curve], [row["reward"] for row in curve], color=INK, lw=1.2)
        for planner, (marker, colour) in ZOO_MARKS.items():
            points = [row for row in here if row["planner"] == planner]
            for row in points:
                axes.errorbar(row["cost"], row["reward"], marker=marker, color=colour, ms=5, lw=0.8, zorder=3,
                              xerr=_reach(row, "cost"), yerr=_reach(row, "reward"), ls="",
                              label=LABELS[planner] if row is points[0] else None)  # fmt: skip
        for budget in dict.fromkeys(row["budget"] for row in rows if row["task"] == task and row["planner"] == "exact"):
            axes.axvline(budget, color=INK, ls=(0, (1, 1)), lw=0.8)
        # Where little can be had at the least budget, all else would be a line at the top.
        seen = [row["reward"] for row in (*curve[1:], *here[len(curve) :])]
        if seen:
            axes.set_ylim(bottom=min(seen) - 0.1 * (max(seen) - min(seen) or 1.0))
        axes.set_title(task_title(task))
        axes.set_xlabel("mean cost")
    for axes in flat[len(tasks) :]:
        axes.set_visible(False)
    panels[0][0].set_ylabel("mean reward")
    draw_legend(figure, panels)
    return figure


def _reach(row: dict[str, Any], name: str) -> list[list[float]] | None:
    """How far a figure's interval reaches down and up."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return None if low is None else [[max(row[name] - low, 0.0)], [max(high - row[name], 0.0)]]


FIGURES: dict[str, tuple[str, Callable[[Rows], Figure]]] = {
    "curves_defaults": ("curves", lambda rows: curves(rows, "defaults")),
    "curves_paper": ("curves", lambda rows: curves(rows, "paper")),
    "depth": ("curves", depths),
    "leak": ("leak", leak),
    "ablation_defaults": ("ablation", lambda rows: ablation(rows, "defaults")),
    "ablation_paper": ("ablation", lambda rows: ablation(rows, "paper")),
    "visits": ("visits", visits),
    "zoo": ("zoo_picture", zoo),
}


def make_panels(lines: int, columns: int, height: float = 2.35) -> tuple[Figure, list[list[Axes]]]:
    """An empty figure, and its panels line by line."""
    with plt.rc_context(PAPER_SAFE):
        figure, panels = plt.subplots(
            lines, columns, figsize=(2.9 * columns, height * lines + 0.35), squeeze=False, layout="constrained"
        )
    for axes in panels.flat:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, [list(line) for line in panels]


def draw_line(
    axes: Axes,
    rows: Rows,
    measure: str,
    label: str,
    colour: str,
    marker: str,
    style: str,
    hollow: bool = False,
    against: str = "iterations",
) -> None:
    """A curve with its interval shaded, if it has one; rows without a figure leave a gap."""
    there = sorted((row for row in rows if row[measure] is not None), key=lambda row: row[against])
    if not there:
        return
    x = [row[against] for row in there]
    low, high = ([row[f"{measure}_{end}"] for row in there] for end in ("low", "high"))
    face = "white" if hollow else colour
    axes.plot(x, [row[measure] for row in there], color=colour, marker=marker, ls=style, lw=1.4, ms=4, label=label,
              markerfacecolor=face)  # fmt: skip
    if None not in low:
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)


def _iterations_axis(axes: Axes, rows: Rows, last: bool) -> None:
    ticks = sorted({row["iterations"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2))
    axes.xaxis.set_minor_formatter(NullFormatter())
    shown = ticks[:: 2 if len(ticks) > 4 else 1]
    axes.set_xticks(shown, [f"{tick}" for tick in shown] if last else [""] * len(shown))
    axes.grid(color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)
    if last:
        axes.set_xlabel("planning iterations")


def draw_budget(axes: Axes, budget: float) -> None:
    """A dotted line at the budget."""
    axes.axhline(budget, color=INK, ls=(0, (1, 1)), lw=1)
    axes.set_ylim(top=max(axes.get_ylim()[1], 1.15 * budget))
    axes.annotate("budget", (1.0, budget), xycoords=("axes fraction", "data"), xytext=(2, 0), rotation=90,
                  textcoords="offset points", ha="left", va="center", fontsize=7, color=INK)  # fmt: skip


def draw_legend(figure: Figure, panels: list[list[Axes]]) -> None:
    """One legend below all panels."""
    labelled: dict[str, Any] = {}
    for axes in (axes for line in panels for axes in line):
        handles, labels = axes.get_legend_handles_labels()
        labelled |= dict(zip(labels, handles, strict=True))
    figure.legend(labelled.values(), labelled.keys(), loc="outside lower center", ncols=3, frameon=False)
