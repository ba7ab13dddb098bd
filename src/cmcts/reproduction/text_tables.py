"""Tables as texts for people: one function a table, from a CSV's rows to a header and lines.

The report and the documentation show the same texts, so that every number in them comes from a CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cmcts.report.tables import Record
from cmcts.reproduction.charts import LABELS, task_title

Texts = tuple[Sequence[str], Sequence[Sequence[str]]]  # header and lines
PLANNERS = ("cmcts", "cc-mcp", "penalized")


def number(value: Any, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def interval(row: Record, name: str, digits: int = 2) -> str:
    """A figure with its interval, as in "10.27 (9.92 to 10.62)"; a dash where there is none."""
    if row.get(name) is None:
        return "-"
    return f"{row[name]:.{digits}f} ({row[f'{name}_low']:.{digits}f} to {row[f'{name}_high']:.{digits}f})"


def rate(row: Record) -> str:
    """Violations in percent, with the upper end of their interval."""
    return "-" if row.get("violations") is None else f"{row['violations']:.1f} % (≤ {row['violations_high']:.1f})"


def settings(row: Record) -> str:
    """Whose settings a row is about, in words."""
    return "paper's" if row["settings"] == "paper" else "defaults"


def missing(row: Record) -> str:
    """Why a row has no numbers, or "" if it has."""
    return row.get("missing") or ""


def curves_table(rows: list[Record]) -> Texts:
    """Reward, cost and violations of the three planners, a line for each number of iterations."""
    keys = list(dict.fromkeys((row["settings"], row["task"], row["iterations"]) for row in rows))
    found = {(row["settings"], row["task"], row["iterations"], row["planner"]): row for row in rows}
    lines = []
    for key in keys:
        cells = [found[*key, planner] for planner in PLANNERS]
        texts = [
            missing(cell) or f"{number(cell['reward'])}, {number(cell['cost'])}, {cell['violations']:.0f} %"
            for cell in cells
        ]
        lines.append((settings({"settings": key[0]}), task_title(key[1]), str(key[2]), *texts))
    return ("settings", "map", "iterations", *(f"{LABELS[p]}: reward, cost, over budget" for p in PLANNERS)), lines


def comparisons_table(rows: list[Record]) -> Texts:
    """C-MCTS minus the others, with the interval; a star where C-MCTS does not earn more."""
    rows = [row for row in rows if row["settings"] == "defaults"]
    keys = list(dict.fromkeys((row["task"], row["iterations"]) for row in rows))
    lines = []
    for task, iterations in keys:
        here = {row["against"]: row for row in rows if (row["task"], row["iterations"]) == (task, iterations)}
        texts = [text for other in PLANNERS[1:] for text in _comparison(here[other])]
        lines.append((task_title(task), str(iterations), *texts))
    header = [
        column for p in PLANNERS[1:] for column in (f"reward, minus {LABELS[p]}", "cost: ours, its", "over budget")
    ]
    return ("map", "iterations", *header), lines


def _comparison(row: Record) -> tuple[str, str, str]:
    if row["difference"] is None:
        return "-", "-", "-"
    star = "" if row["difference"] > 0 else " *"
    return (
        f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f}){star}",
        f"{row['cost']:.2f}, {row['its_cost']:.2f}",
        f"{row['violations']:.1f}, {row['its_violations']:.1f} %",
    )


def against_paper_table(rows: list[Record]) -> Texts:
    """The paper's rewards beside ours, a line for each map and planner."""
    header = ("map, planner", "paper (at iterations)", "ours, paper's settings, planner sees hidden values",
              "ours, paper's settings, honest", "ours, defaults", "best with one reading an episode",
              "constrained optimum")  # fmt: skip
    lines = [
        (
            f"{task_title(row['task'])}, {LABELS[row['planner']]}",
            f"{number(row['paper'])} ({row['paper_iterations']})",
            *(interval(row, f"{label}_reward") for label in ("leak", "paper_settings", "defaults")),
            number(row["one_reading"]),
            number(row["optimum"]),
        )
        for row in rows
    ]
    return header, lines


def leak_table(rows: list[Record]) -> Texts:
    """What planners earn with and without the hidden values in view."""
    keys = list(dict.fromkeys((row["task"], row["planner"], row["iterations"]) for row in rows))
    found = {(row["task"], row["planner"], row["iterations"], row["sees"]): row for row in rows}
    lines = []
    for task, planner, iterations in keys:
        honest, leak = (found[task, planner, iterations, sees] for sees in ("beliefs", "hidden values"))
        texts = [
            missing(cell) or f"{interval(cell, 'reward')}, {number(cell['cost'])}, {cell['violations']:.0f} %"
            for cell in (honest, leak)
        ]
        lines.append((task_title(task), LABELS[planner], str(iterations), *texts))
    return ("map", "planner", "iterations", "sees beliefs: reward, cost, over budget",
            "sees hidden values: reward, cost, over budget"), lines  # fmt: skip


def ablation_table(rows: list[Record]) -> Texts:
    """Cost and violations of each ablation, a line for each point."""
    return ("ablation", "line", "settings", "iterations", "reward", "cost", "over budget"), [
        (row["panel"], row["label"], settings(row), str(row["iterations"]), missing(row) or interval(row, "reward"),
         interval(row, "cost"), rate(row))
        for row in rows
    ]  # fmt: skip


def equal_reward_table(rows: list[Record]) -> Texts:
    """The iterations that C-MCTS and CC-MCP need for equal reward, with wall time."""
    return ("map", "planner", "paper: iterations", "paper: reward", "ours: iterations", "ours: reward", "cost",
            "over budget", "ms a decision"), [
        (task_title(row["task"]), LABELS[row["planner"]], "N/A" if row["paper_iterations"] is None else
         str(row["paper_iterations"]), number(row["paper_reward"]),
         str(row["iterations"]) if row["reached"] else f"not by {row['iterations']}",
         interval(row, "reward"), number(row["cost"]),
         "-" if row["violations"] is None else f"{row['violations']:.1f} %", number(row["decision_ms"]))
        for row in rows
    ]  # fmt: skip


def safe_gridworld_table(rows: list[Record]) -> Texts:
    """Reward and violations on Safe Gridworld, a line for each planner."""
    return ("planner", "settings", "iterations", "episodes", "reward", "over budget", "over budget in the paper"), [
        (LABELS[row["planner"]], settings(row), str(row["iterations"]), str(row["episodes"]),
         missing(row) or interval(row, "reward"),
         "-" if row["violations"] is None else
         f"{row['violations']:.1f} % ({row['violations_low']:.2f} to {row['violations_high']:.2f})",
         f"{row['paper_violations']:.0f} %")
        for row in rows
    ]  # fmt: skip


def grid_search_table(rows: list[Record]) -> Texts:
    """The grid search over alpha0 and epsilon, a line for each training."""
    return ("alpha0", "epsilon", "rounds", "values of lambda", "training [s]", "reward", "cost", "over budget"), [
        (number(row["alpha0"], 0), number(row["epsilon"], 1), str(row["rounds"]), updates(row),
         number(row["seconds"], 0),
         missing(row) or interval(row, "reward"), interval(row, "cost"), rate(row))
        for row in rows
    ]  # fmt: skip


def updates(row: Record) -> str:
    """How many values of lambda were tried in all, and whether a round had to end before one was found."""
    return f"{row['updates']}{' (limit)' if row['cap_hit'] else ''}"


def training_table(rows: list[Record]) -> Texts:
    """Hyperparameters of each critic, and what its training took."""
    return ("task", "settings", "rule", "alpha0", "epsilon", "sigma_max", "target", "iterations", "tolerance", "rounds",
            "values of lambda", "episodes", "simulations [millions]", "time [s]"), [
        (task_title(row["task"]), settings(row), str(row["rule"]),
         "-" if row["rule"] == "bracket" else number(row["alpha0"], 0), number(row["epsilon"], 1),
         number(row["sigma_max"], 1), str(row["target"]), str(row["iterations"]),
         number(row["tolerance"]) if row["feasible"] else "no feasible critic", str(row["rounds"]),
         updates(row), str(row["episodes"]), "-" if row["simulations"] is None else f"{row['simulations'] / 1e6:.1f}",
         number(row["seconds"], 0))
        for row in rows
    ]  # fmt: skip


def multipliers_table(rows: list[Record]) -> Texts:
    """The multiplier lambda* of each map."""
    return ("task", "settings", "lambda*"), [
        (task_title(row["task"]) + (", hidden values in view" if row["task"].endswith("leak") else ""), settings(row),
         number(row["multiplier"]))
        for row in rows
    ]  # fmt: skip


def options_table(rows: list[Record]) -> Texts:
    """What each departure from the paper is worth."""
    return ("task", "option", "reward", "cost", "over budget", "rounds"), [
        (task_title(row["task"]), row["option"], missing(row) or interval(row, "reward"), interval(row, "cost"),
         rate(row), str(row["rounds"]))
        for row in rows
    ]  # fmt: skip


def zoo_table(rows: list[Record]) -> Texts:
    """Every planner on every problem of the zoo, a line for each, with what was not run."""
    lines = []
    for row in rows:
        planner = str(row["planner"])
        name = LABELS.get(planner, planner)
        if row["remark"]:
            name += f" ({row['remark']})"
        share = "-" if row["bought"] is None else f"{100 * row['bought']:.0f} %"
        trained = "-" if row["training_seconds"] is None else f"{row['training_seconds']:.0f} s"
        figures = (
            (missing(row), *[""] * 6)
            if missing(row)
            else (known(row, "reward"), share, known(row, "cost"), rate(row), trained,
                  number(row["decision_ms"]), row["judged"])
        )  # fmt: skip
        lines.append((task_title(row["task"]), f"{row['budget']:g}", name, *figures))
    return ("problem", "budget", "planner", "reward", "of what the budget buys", "cost", "episodes over budget",
            "training", "ms a decision", "judged by"), lines  # fmt: skip


def known(row: Record, name: str, digits: int = 3) -> str:
    """A figure with its interval, or without where it is exact."""
    exact = row[name] is not None and row[f"{name}_low"] == row[f"{name}_high"]
    return f"{row[name]:.{digits}f}" if exact else interval(row, name, digits)


def avoid_maps_table(rows: list[Record]) -> Texts:
    """The maps of the Threshold UCT benchmark, a line for each kind, threshold and planner."""
    lines = []
    for row in rows:
        about = (row["kind"], number(row["threshold"]), LABELS.get(row["planner"], row["planner"] or "-"))
        if not row["maps"]:
            failed = f"no: {row['failed']} trainings found nothing" if row["failed"] else "not run"
            lines.append((*about, failed, *["-"] * 5))
            continue
        maps = f"{row['maps']}" + (f", and on {row['failed']} no training found anything" if row["failed"] else "")
        cost = f"{row['cost']:.3f} ± {row['cost_se']:.3f}"
        mean = number(row["share_mean"]) + ("" if row["share_se"] is None else f" ± {row['share_se']:.2f}")
        lines.append((*about, maps, number(row["share_median"]), mean, cost, str(row["above"]),
                      f"{row['iterations']:.0f}"))  # fmt: skip
    return ("maps", "threshold", "planner", "run on", "share of the optimum, median", "mean ± s.e.", "cost ± s.e.",
            "maps surely above the threshold", "simulations a decision, median"), lines  # fmt: skip


TEXTS: dict[str, Callable[[list[Record]], Texts]] = {
    "against_paper": against_paper_table,
    "curves": curves_table,
    "comparisons": comparisons_table,
    "multipliers": multipliers_table,
    "leak": leak_table,
    "ablation": ablation_table,
    "equal_reward": equal_reward_table,
    "safe_gridworld": safe_gridworld_table,
    "grid_search": grid_search_table,
    "training": training_table,
    "options": options_table,
    "zoo": zoo_table,
    "avoid_maps": avoid_maps_table,
}


def markdown_table(name: str, rows: list[Record]) -> str:
    """A table of the page as Markdown, for the documentation."""
    header, lines = TEXTS[name](rows)
    marks = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, marks, *lines))
