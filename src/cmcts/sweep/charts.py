"""Figures of a sweep: reward, cost and episodes over budget against each setting that was varied, a column a task.

Lines are means over seeds, shades their 95 % intervals. Planners, and other settings that were varied, are lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from cmcts.report.figures import COLOURS, NAMES
from cmcts.report.tables import Record
from cmcts.reproduction.charts import STYLES, draw_budget, draw_legend, draw_line, make_panels

MEASURES = (("reward", "reward"), ("cost", "cost"), ("over_budget", "share over budget"))
NOT_SETTINGS = ("task", "planner", "seeds", "infeasible", "budget_kept")
MARKERS, LINES = ("o", "s", "^", "D", "v", "P", "X"), ("-", "--", ":", "-.")


def varied(means: Sequence[Record]) -> list[str]:
    """The settings with more than one value, in the file's order."""
    outcome = {f"{measure}{end}" for measure, _ in MEASURES for end in ("", "_low", "_high")}
    names = [name for name in means[0] if name not in outcome and name not in NOT_SETTINGS]
    return [name for name in names if len({row[name] for row in means if row[name] is not None}) > 1]


def figures(means: Sequence[Record]) -> dict[str, Figure]:
    """A figure for each number that was varied, by its name; if none was, one of the planners side by side."""
    numbers = [
        name for name in varied(means) if all(isinstance(r[name], (int, float)) for r in means if r[name] is not None)
    ]
    return {name.replace(".", "-"): _figure(means, name) for name in numbers} or {"planners": _figure(means, None)}


def _figure(means: Sequence[Record], x: str | None) -> Figure:
    tasks = list(dict.fromkeys(row["task"] for row in means))
    others = [name for name in varied(means) if name != x]
    planners = list(dict.fromkeys(row["planner"] for row in means))
    figure, grid = make_panels(len(MEASURES), len(tasks))
    for column, task in enumerate(tasks):
        for depth, (measure, label) in enumerate(MEASURES):
            axes = grid[depth][column]
            here = [row for row in means if row["task"] == task]
            for number, (name, rows) in enumerate(_lines(here, others).items()):
                planner = rows[0]["planner"]
                colour = COLOURS[planner]
                marker, style = STYLES.get(planner, (MARKERS[number % len(MARKERS)], "-"))
                if others:
                    marker, style = MARKERS[number % len(MARKERS)], LINES[number % len(LINES)]
                placed = [{**row, "_x": planners.index(planner) if x is None else row[x]} for row in rows]
                placed = [row for row in placed if row["_x"] is not None]
                draw_line(axes, placed, measure, name, colour, marker, style, against="_x")
            budgets = {row["budget_kept"] for row in here if isinstance(row["budget_kept"], float)}
            if measure == "cost" and len(budgets) == 1:
                draw_budget(axes, budgets.pop())
            if measure != "reward":
                axes.set_ylim(bottom=0)
            _axis(axes, means, x, planners, last=depth == len(MEASURES) - 1)
            if depth == 0:
                axes.set_title(task.rpartition("/")[2])
            if column == 0:
                axes.set_ylabel(label)
    draw_legend(figure, grid)
    return figure


def _lines(rows: Sequence[Record], others: Sequence[str]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for row in rows:
        settings = "".join(f", {name} {row[name]}" for name in others if row[name] is not None)
        found.setdefault(f"{NAMES.get(row['planner'], row['planner'])}{settings}", []).append(row)
    return found


def _axis(axes: Any, means: Sequence[Record], x: str | None, planners: Sequence[str], *, last: bool) -> None:
    axes.grid(color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)
    if x is None:
        axes.set_xticks(range(len(planners)), [NAMES.get(name, name) if last else "" for name in planners])
        axes.margins(x=0.2)
        return
    values = sorted({row[x] for row in means if row[x] is not None})
    if values[0] > 0 and values[-1] >= 8 * values[0]:
        axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:g}" for value in values] if last else [""] * len(values))
    if last:
        axes.set_xlabel(x)
