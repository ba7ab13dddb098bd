"""The budgets that a frontier is built for, and steps between prices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHARES_OF_BUDGET = (0.25, 0.5, 1.0, 2.0, 4.0)
SHARES_OF_RECKLESS_COST = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
SAME_BUDGET = 1.2  # budgets closer than this, as a ratio, are not told apart


def ladder(budget: Floats, reckless_costs: Floats) -> list[Floats]:
    """Budgets that a frontier is built for, smallest first: around the task's own, and up to what recklessness costs.

    With several constraints, all of them together, and each one alone while the others are loose.
    """
    rows = [share * budget for share in SHARES_OF_BUDGET] + [
        share * reckless_costs for share in SHARES_OF_RECKLESS_COST
    ]
    rows = [np.minimum(row, reckless_costs) for row in rows] + [budget]
    if len(budget) > 1:
        rows += [np.where(np.arange(len(budget)) == m, budget, reckless_costs) for m in range(len(budget))]
    kept: list[Floats] = [budget]
    for row in rows:
        if not any(close(row, other, SAME_BUDGET) for other in kept):
            kept.append(row)
    return sorted(kept, key=lambda row: float(row.sum()))


def lifted(rungs: Sequence[Floats], budget: Floats, least: Floats) -> list[Floats]:
    """The ladder above what cannot be avoided: rungs below `least` move up, as far as they were from the budget.

    What nobody can keep says nothing of which policies are worth having.
    """
    room = np.maximum(budget - least, 0.0)
    shares = [np.divide(rung, budget, out=np.ones_like(rung), where=budget > 0) for rung in rungs]
    moved = [
        np.where(rung < least, least + np.minimum(share, 1.0) * room, rung)
        for rung, share in zip(rungs, shares, strict=True)
    ]
    return sorted(distinct(moved), key=lambda row: float(row.sum()))


def between(prices: Sequence[Floats]) -> list[Floats]:
    """Prices with those halfway between neighbours, as ratios go; between a price and none, half of it."""
    rows = sorted(distinct(prices), key=lambda row: float(row.sum()))
    halves = [
        np.where((one > 0) & (other > 0), np.sqrt(one * other), (one + other) / 2) for one, other in pairwise(rows)
    ]
    return sorted([*rows, *halves], key=lambda row: float(row.sum()))


def close(one: Floats, other: Floats, ratio: float) -> bool:
    """Whether two vectors differ by at most this ratio in every number."""
    low, high = np.minimum(one, other), np.maximum(one, other)
    return bool((high <= ratio * low).all())


def distinct(rows: Sequence[Floats]) -> list[Floats]:
    """The vectors without those that equal an earlier one."""
    return [row for k, row in enumerate(rows) if not any((row == other).all() for other in rows[:k])]
