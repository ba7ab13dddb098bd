"""What any budget buys: a frontier's mixture at a ladder of budgets, beside the optimum where it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cmcts.errors import InvalidInput
from cmcts.exact import Optimum
from cmcts.frontier.frontier import Frontier
from cmcts.frontier.mixture import Floats
from cmcts.frontier.policy import MixedPolicy
from cmcts.frontier.settings import Keep
from cmcts.tasks.optimum import solve_training
from cmcts.tasks.task import Task

STEPS = 10


@dataclass(frozen=True, eq=False)
class Point:
    """The mixture for one budget, the optimum there if it is known, and the mixture's share of what the budget buys."""

    policy: MixedPolicy
    optimum: float | None
    bought: float | None

    @classmethod
    def at(
        cls,
        task: Task,
        frontier: Frontier,
        limits: Floats,
        keep: Keep = "mean",
        share: float | None = None,
        least: Optimum | None = None,
    ) -> Point:
        """What `limits` [M] buy, in the training world; `least` is the optimum of the least budget, if it is known."""
        policy = frontier.at(limits, keep=keep, share=share)
        try:
            best = solve_training(task, limits)
        except InvalidInput:
            return cls(policy, None, None)
        return cls(policy, best.reward_upper, best.bought(policy.reward_mean, least))

    def to_dict(self) -> dict[str, Any]:
        """By name, for JSON."""
        policy = self.policy
        columns = zip(policy.weights.tolist(), policy.columns, strict=True)
        return {
            "budget": policy.budget.tolist(),
            "reward_mean": policy.reward_mean,
            "reward_interval": list(policy.reward_interval),
            "cost_means": policy.cost_means.tolist(),
            "cost_bounds": policy.cost_bounds.tolist(),
            "over_budget": policy.over_budget,
            "prices": policy.prices.tolist(),
            "optimum": self.optimum,
            "bought": self.bought,
            "mixture": [{"share": share, "policy": column.settings.name} for share, column in columns],
        }

    def to_row(self) -> tuple[float, float, float, float, float | None]:
        """Budget, reward, its interval, and the optimum: for a figure."""
        low, high = self.policy.reward_interval
        return float(self.policy.budget[0]), self.policy.reward_mean, low, high, self.optimum


def ladder(frontier: Frontier, steps: int = STEPS) -> Sequence[Floats]:
    """Budgets to show: of one constraint, even steps from the least that can be kept to the most that is spent."""
    if len(frontier.budget) > 1:
        return [np.asarray(frontier.budget)]
    least, most = float(frontier.least_costs[0]), float(frontier.largest_costs[0])
    own = float(frontier.budget[0])
    limits = np.linspace(least, most, steps).tolist()
    return [np.array([limit]) for limit in sorted({*limits, *([own] if own >= least else [])})]


def letters(frontier: Frontier) -> dict[int, str]:
    """A letter for each column, by its identity, the thriftiest first."""
    order = sorted(frontier.columns, key=lambda column: float(column.confirmed.means[1:].mean()))
    return {id(column): chr(ord("A") + k) if k < 26 else f"A{k}" for k, column in enumerate(order)}
