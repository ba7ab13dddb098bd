"""A frontier as the page shows it: what any budget buys, what is mixed for this one, and what each column does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cmcts.critic.columns import Sample
from cmcts.evaluation.statistics import CONFIDENCE
from cmcts.frontier import Frontier, MixedPolicy
from cmcts.frontier.curve import Point, letters
from cmcts.frontier.mixture import quantile


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
            "reward": column.confirmed.reward,
            "interval": _interval(column.confirmed),
            "costs": column.confirmed.means[1:].tolist(),
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


def _interval(sample: Sample) -> list[float]:
    """Where a column's mean reward lies."""
    reach = quantile(0.5 + CONFIDENCE / 2, len(sample)) * float(sample.errors[0])
    return [sample.reward - reach, sample.reward + reach]
