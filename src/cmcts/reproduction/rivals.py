"""What the rivals' own commands wrote, if they were run: CSV files in one folder, by default runs/rivals.

python benchmarks/rivals/avoid.py              avoid.csv            a line for each map, threshold and planner
python benchmarks/rivals/ppo_lagrangian.py     ppo_lagrangian.csv   a line for each look at a policy while it learns
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, median, stdev

from cmcts.report.tables import Record, read_rows

AVOID, PPO = "avoid.csv", "ppo_lagrangian.csv"
COMMANDS = {AVOID: "python benchmarks/rivals/avoid.py", PPO: "python benchmarks/rivals/ppo_lagrangian.py"}
ON_MAPS = ("threshold-uct", "cc-mcp", "cmcts", "frontier")  # our planners, besides the exact optimum
ONE_SIDED = 1.645  # standard errors: a mean that lies so far above the threshold does so by chance once in twenty maps

ALL_BUT = 0.9  # of the time that other seeds had

Rows = list[Record]


def written(folder: Path, name: str) -> Rows:
    """The rows of a CSV file; none if its command was not run."""
    file = folder / name
    return read_rows(file) if file.exists() else []


def not_run(name: str) -> str:
    """What to say where there are none."""
    return f"not run: {COMMANDS[name]}"


def on_maps(rows: Rows) -> Rows:
    """A row for each kind of map, threshold and planner: shares of the optimum over the maps, and the mean cost.

    The standard error of a share is that over maps, of a cost that of the episodes on these maps. Programs of others
    are there if somebody measured them.
    """
    best = {(row["kind"], row["map"], row["threshold"]): row["reward"] for row in rows if row["planner"] == "exact"}
    groups = list(dict.fromkeys((row["kind"], row["threshold"]) for row in rows))
    planners = [name for name in dict.fromkeys([*ON_MAPS, *(row["planner"] for row in rows)]) if name != "exact"]
    return [_on_maps(rows, best, *group, planner) for group in groups for planner in planners]


def _on_maps(
    rows: Rows, best: dict[tuple[str, int, float], float], kind: str, threshold: float, planner: str
) -> Record:
    about = {"kind": kind, "threshold": threshold, "planner": planner}
    asked = [row for row in rows if all(row[name] == value for name, value in about.items())]
    # Where nothing can be earned there is nothing to have a share of.
    done = [row for row in asked if row["reward"] is not None and best.get((kind, row["map"], threshold), 0.0) > 1e-9]
    if not done:
        failed = sum(row["reward"] is None for row in asked)
        return {**about, **dict.fromkeys(ON_MAPS_FIGURES), "maps": 0, "failed": failed}
    shares = [row["reward"] / best[kind, row["map"], threshold] for row in done]
    figures = {
        "maps": len(done),
        "failed": sum(row["reward"] is None for row in asked),
        "share_median": median(shares),
        "share_mean": fmean(shares),
        "share_se": stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else None,
        "cost": fmean(row["cost"] for row in done),
        "cost_se": sum(row["cost_se"] ** 2 for row in done) ** 0.5 / len(done),
        "above": sum(row["cost"] - ONE_SIDED * row["cost_se"] > threshold for row in done),
        "iterations": median(row["iterations"] for row in done),
        "training_seconds": fmean(row["training_seconds"] for row in done),
    }
    return {**about, **figures}


ON_MAPS_FIGURES = ("maps", "failed", "share_median", "share_mean", "share_se", "cost", "cost_se", "above",
                   "iterations", "training_seconds")  # fmt: skip


def ppo(rows: Rows, task: str, budget: float) -> Record | None:
    """The mean of each seed's last look, and the lowest and the highest of them; None if this was not run.

    A seed that has not learned as long as the others yet does not count.
    """
    here = [row for row in rows if row["task"] == task and abs(row["budget"] - budget) < 1e-9]
    if not here:
        return None
    seeds = dict.fromkeys(row["seed"] for row in here)
    last = [max((row for row in here if row["seed"] == seed), key=lambda row: row["seconds"]) for seed in seeds]
    last = [row for row in last if row["seconds"] > ALL_BUT * max(row["seconds"] for row in last)]
    found: Record = {"episodes": sum(row["episodes"] for row in last)}
    for name in ("reward", "cost", "violations"):
        values = [row[name] for row in last]
        found |= {name: fmean(values), f"{name}_low": min(values), f"{name}_high": max(values)}
    found |= {name: fmean(row[name] for row in last) for name in ("seconds", "decision_ms")}
    return {**found, "seeds": len(last)}
