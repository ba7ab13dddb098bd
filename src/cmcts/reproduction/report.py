"""Tables and figures of a reproduction as files: CSV, PNG, SVG, and one page with all of them."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from cmcts.files import write_atomically
from cmcts.report import html as pages
from cmcts.report.figures import png
from cmcts.report.tables import read_rows, write_rows
from cmcts.reproduction.charts import FIGURES, PAPER_SAFE
from cmcts.reproduction.experiments import Scale
from cmcts.reproduction.results import TABLES
from cmcts.reproduction.runner import Reproduction
from cmcts.reproduction.text_tables import TEXTS

SECTIONS: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "honesty": (
        "The paper's figures beside ours, and the effect of honesty",
        "Published code plans RockSample with the hidden rock values in its state, so that a simulated measurement "
        "foretells the real one. The same experiment with and without that, by the paper's settings; and our defaults, "
        "honest.",
        ("against_paper", "leak"),
        ("leak",),
    ),
    "rocksample": (
        "Reward, cost and violations against planning iterations",
        "Shaded: 95 % intervals. Violations are episodes whose own discounted cost exceeds the budget; the constraint "
        "is on the mean. MCTS(lambda*) is given the multiplier at which it spends the budget. Differences are paired, "
        "both planners in the same worlds; a star marks where C-MCTS does not earn more.",
        ("comparisons", "curves", "multipliers"),
        ("curves_defaults", "curves_paper", "depth"),
    ),
    "ablation": (
        "Planning horizon, ensemble threshold and simulator accuracy",
        "RockSample(7,8). The paper's three ablations, by its settings and by our defaults.",
        ("ablation",),
        ("ablation_paper", "ablation_defaults"),
    ),
    "equal-reward": (
        "Iterations for equal reward",
        "The least number of iterations at which CC-MCP earns as much as C-MCTS, and what a decision then takes.",
        ("equal_reward",),
        (),
    ),
    "safe-gridworld": (
        "Safe Gridworld",
        "Share of time on each square, with arrows as long as an action was frequent there. Crosses: unsafe squares; "
        "dots: the wind that the planning model ignores.",
        ("safe_gridworld",),
        ("visits",),
    ),
    "grid-search": (
        "Grid search over alpha0 and epsilon",
        "RockSample(7,8) by the paper's settings, evaluated in the real world.",
        ("grid_search",),
        (),
    ),
    "training": (
        "Hyperparameters and training cost",
        "One training each, including the episodes that judge whether a critic is feasible.",
        ("training",),
        (),
    ),
    "options": (
        "Each departure from the paper undone in turn",
        "Our defaults with one option as in the paper, trained and evaluated anew.",
        ("options",),
        (),
    ),
    "zoo": (
        "Problems from outside, and rivals",
        "Each line is the exact optimum against the budget, dotted lines are the budgets. Exact figures have no "
        "interval. A frontier's columns that decide by the state alone are judged by their decisions in every state, "
        "where the states are few; else by episodes. Intervals: 95 %. PPO-Lagrangian and the maps of the Threshold UCT "
        "benchmark come from their own commands.",
        ("zoo", "avoid_maps"),
        ("zoo",),
    ),
}


def write_results(run: Reproduction, scale: Scale, names: Sequence[str], note: str) -> Path:
    """All tables, figures and the page of these experiments; returns the page's path."""
    tables, figures = run.path / "tables", run.path / "figures"
    tables.mkdir(exist_ok=True)
    figures.mkdir(exist_ok=True)
    for name in names:
        for table, make_rows in TABLES[name].items():
            rows = make_rows(run, scale)
            if rows:
                write_rows(tables / f"{table}.csv", rows)
    parts = [f"<p class='note'>{html.escape(note)}</p>"]
    for name, (title, text, shown_tables, shown_figures) in SECTIONS.items():
        if name not in names:
            continue
        parts += [f"<h2>{html.escape(title)}</h2>", f"<p>{html.escape(text)}</p>"]
        for figure in shown_figures:
            source = tables / f"{FIGURES[figure][0]}.csv"
            if source.exists():
                parts.append(pages.image(write_figure(figure, read_rows(source), figures), figure.replace("_", " ")))
        for table in shown_tables:
            if (tables / f"{table}.csv").exists():
                parts.append(pages.table(*TEXTS[table](read_rows(tables / f"{table}.csv"))))
    path = run.path / "report.html"
    write_atomically(path, pages.page("C-MCTS: the paper's experiments", "\n".join(parts)))
    return path


def write_figure(name: str, rows: list[dict[str, Any]], folder: Path) -> bytes:
    """A figure as PNG and SVG; returns the PNG."""
    draw = FIGURES[name][1]
    with plt.rc_context(PAPER_SAFE):
        figure = draw(rows)
        write_atomically(folder / f"{name}.svg", _svg(figure))
        picture = png(figure, dpi=150)
    write_atomically(folder / f"{name}.png", picture)
    return picture


def _svg(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
