"""A frontier as the page shows it: what any budget buys, what is mixed for this one, and what each column does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cmcts.evaluation.statistics import mean_interval
from cmcts.frontier import Frontier, MixedPolicy
from cmcts.frontier.curve import Point, letters


def frontier_data(
    frontier: Frontier, points: Sequence[Point], chosen: MixedPolicy, first_episode: int
) -> dict[str, Any]:
    """The frontier for a page; its columns played the page's episodes from number `first_episode` on."""
    names = letters(frontier)
    shares = {id(column): share for column, share in zip(chosen.columns, chosen.weights.tolist(), strict=True)}
    shown = [
        {
            "letter": names[id(column)],
            "name": column.settings.name,
            "reward": float(column.confirmed.rewards.mean()),
            "interval": list(mean_interval(column.confirmed.rewards)),
            "costs": column.confirmed.costs.mean(axis=0).tolist(),
            "share": shares.get(id(column), 0.0),
            "episode": first_episode + number,
        }
        for number, column in enumerate(frontier.columns)
    ]
    rows = [point.to_dict() for point in points]
    for row, point in zip(rows, points, strict=True):
        for part, column in zip(row["mixture"], point.policy.columns, strict=True):
            part["letter"] = names[id(column)]
    return {
        "points": rows,
        "columns": sorted(shown, key=lambda column: str(column["letter"])),
        "chosen": Point(chosen, None, None).to_dict(),
    }
