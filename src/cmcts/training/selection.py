"""Which critic is kept: what counts as feasible, which feasible one is best, and when an evaluation can stop early.

The best of many evaluations owes some of its place to luck. Rounds, tolerances and accountings are judged on the same
episodes, and with 24 candidates that all spend 10 % too much, one of them looks feasible more often than not. So the
choice is confirmed on episodes that took no part in it, and only their figures are reported. Whether something else is
better than the critic so chosen is asked on these very episodes, world by world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.episodes import Episodes
from cmcts.evaluation.statistics import standard_error
from cmcts.search.pruning import ROUNDING

SURE = 2.0  # standard errors of a mean difference


def best_feasible(evaluations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The feasible evaluation with the highest reward; between rewards that are hardly different, the safer one.

    Evaluations share their worlds, so a quarter of the standard error already tells them apart. Safer: fewer episodes
    over budget, then the smaller tolerance.
    """
    feasible = [row for row in evaluations if row["feasible"]]
    if not feasible:
        return None
    top = max(feasible, key=lambda row: row["reward_mean"])
    close = [row for row in feasible if row["reward_mean"] >= top["reward_mean"] - 0.25 * top["reward_se"]]
    return min(close, key=lambda row: (row["violations"], row["tolerance"], -row["reward_mean"]))


def ranking(evaluations: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The feasible evaluations, each time the best of those that are left."""
    left = list(evaluations)
    while (best := best_feasible(left)) is not None:
        yield best
        left = [row for row in left if row is not best]


def confirmed(
    evaluations: list[dict[str, Any]], confirm: Callable[[dict[str, Any], int], dict[str, Any]], attempts: int
) -> dict[str, Any] | None:
    """The record of the best evaluation that is feasible once more, on fresh episodes: `confirm(evaluation, attempt)`.

    None if none of the first `attempts` is. Each attempt has episodes of its own.
    """
    for attempt, evaluation in zip(range(attempts), ranking(evaluations)):  # noqa: B905 - whichever ends first
        record = confirm(evaluation, attempt)
        if record["feasible"]:
            return record
    return None


def earns_more(others: NDArray[np.float64], rewards: NDArray[np.float64]) -> bool:
    """Whether other rewards [N] are higher than these [N'] in the worlds that both have, and hardly by chance."""
    shared = min(len(others), len(rewards))
    gains = others[:shared] - rewards[:shared]
    return bool(gains.mean() > SURE * standard_error(gains))


def least_excess(
    evaluations: list[dict[str, Any]], budget: NDArray[np.float64], cost_scale: NDArray[np.float64]
) -> float:
    """By how much the mean cost of whichever evaluation is nearest to it exceeds the budget, in cost scales."""
    return min(float(((np.array(row["cost_means"]) - budget) / cost_scale).max()) for row in evaluations)


def is_feasible(costs: NDArray[np.float64], budget: NDArray[np.float64]) -> bool:
    """Whether the mean costs, plus one standard error each, are within the budget; costs are [N, M]."""
    errors = np.array([standard_error(costs[:, m]) for m in range(len(budget))])
    return bool((costs.mean(axis=0) + errors <= budget + ROUNDING).all())


def hopeless(parts: list[Episodes], budget: NDArray[np.float64], total: int, best: dict[str, Any] | None) -> bool:
    """Whether the rest of an evaluation cannot matter: it is infeasible even if no further episode costs anything, its
    cost is clearly above the budget, or its reward clearly below that of the best feasible critic.
    """
    costs = np.concatenate([part.costs for part in parts])
    rewards = np.concatenate([part.rewards for part in parts])
    if not is_feasible(np.concatenate([costs, np.zeros((total - len(costs), costs.shape[1]))]), budget):
        return True
    if any(costs[:, m].mean() - 3 * standard_error(costs[:, m]) > budget[m] + ROUNDING for m in range(len(budget))):
        return True
    return best is not None and bool(rewards.mean() + 3 * standard_error(rewards) < best["reward_mean"])
