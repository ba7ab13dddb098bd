"""From records to tables: one row a seed, and means with 95 % intervals over seeds.

A seed is a training and its evaluation, so what differs from seed to seed is all that chance had a hand in. Nothing in
the tables depends on who did the work, or on how long that took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cmcts.evaluation.statistics import mean_interval
from cmcts.report.tables import Record, check_table_path, write_table
from cmcts.sweep.table import Row, shown

MEASURES = ("reward", "cost", "over_budget")
OUTCOME = ("seed", "episodes", "budget_kept", *MEASURES, "reward_se", "cost_se", "nothing_safe", "steps")


def table(rows: Sequence[Row], records: Mapping[str, Record]) -> list[Record]:
    """One row a seed; settings that a row does not have, and figures of a critic that was not found, are empty."""
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    lines = []
    for row in rows:
        record = records[row.name]
        values = {name: _cell(row.values.get(name)) for name in names}
        line: Record = {"task": row.task, "planner": row.planner, **values, "seed": row.seed}
        line |= {
            "episodes": record.get("episodes"),
            "budget_kept": record.get("budget"),
            "reward": record.get("reward_mean"),
            "reward_se": record.get("reward_se"),
            "cost": record.get("cost_mean"),
            "cost_se": record.get("cost_se"),
            "over_budget": record.get("violation_rate"),
            "nothing_safe": record.get("nothing_safe_rate"),
            "steps": record.get("steps_mean"),
        }
        lines.append(line)
    return lines


def over_seeds(lines: Sequence[Record]) -> list[Record]:
    """Means over seeds with their 95 % intervals; of a single seed there is none."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for line in lines:
        groups.setdefault(tuple(value for name, value in line.items() if name not in OUTCOME), []).append(line)
    means = []
    for group in groups.values():
        about = {name: value for name, value in group[0].items() if name not in OUTCOME}
        there = [line for line in group if line["reward"] is not None]
        figures: Record = {"seeds": len(there), "infeasible": len(group) - len(there)}
        figures["budget_kept"] = there[0]["budget_kept"] if there else None
        for name in MEASURES:
            values = [line[name] for line in there]
            low, high = mean_interval(values) if len(values) > 1 else (None, None)
            if low is not None and high is not None and name == "over_budget":
                low, high = max(low, 0.0), min(high, 1.0)
            figures[name] = sum(values) / len(values) if values else None
            figures |= {f"{name}_low": low, f"{name}_high": high}
        means.append(about | figures)
    return means


def write(folder: Path, name: str, lines: Sequence[Record]) -> list[Path]:
    """A table as CSV, and as Parquet where pyarrow is installed."""
    from importlib.util import find_spec

    paths = [folder / f"{name}.csv"] + ([folder / f"{name}.parquet"] if find_spec("pyarrow") else [])
    for path in paths:
        check_table_path(path)
        write_table(path, {column: [line[column] for line in lines] for column in lines[0]})
    return paths


def _cell(value: Any) -> Any:
    """One number as a number; several as text."""
    return shown(value) if isinstance(value, tuple) else value
