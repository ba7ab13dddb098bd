"""The constrained optimum of a problem, or proven bounds on it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cmcts.errors import expect
from cmcts.exact.finite import STATE_LIMIT, Floats, enumerate_states
from cmcts.exact.solver import solve
from cmcts.model.interface import Model

_EQUAL = 1e-6


@dataclass(frozen=True)
class Optimum:
    """No policy within the budget earns more than `reward_upper` on average, and one earns `reward_lower`."""

    reward_lower: float
    reward_upper: float
    costs: tuple[float, ...]
    """What the policy behind `reward_lower` spends of each constraint."""
    multipliers: tuple[float, ...]
    """lambda*: what one more unit of budget would earn."""
    states: int
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether the two bounds meet, so that the optimum is known."""
        return self.reward_upper - self.reward_lower <= _EQUAL * (1.0 + abs(self.reward_upper))

    def regret(self, reward: float) -> float:
        """The most that a mean reward can fall short of the optimum. Negative only by chance or by overspending."""
        return self.reward_upper - reward

    def bought(self, reward: float, least: Optimum | None) -> float | None:
        """The share of what the budget buys that a mean reward has: of this optimum minus the one at the least budget.

        None where `least` is not known, or the budget buys nothing.
        """
        worth = 0.0 if least is None else self.reward_upper - least.reward_upper
        return 1.0 - self.regret(reward) / worth if worth > _EQUAL * (1.0 + abs(self.reward_upper)) else None

    def to_dict(self) -> dict[str, Any]:
        """For JSON: `reward` only if it is known exactly, the bounds always; a single cost as a number."""
        return {
            **({"reward": self.reward_lower} if self.exact else {}),
            "reward_lower": self.reward_lower,
            "reward_upper": self.reward_upper,
            "cost": self.costs[0] if len(self.costs) == 1 else list(self.costs),
            "multipliers": list(self.multipliers),
            "states": self.states,
            "seconds": self.seconds,
        }


def checked_budget(model: Model, budget: ArrayLike) -> Floats:
    """[M] a budget to solve for; infinite ones are allowed."""
    limits = np.atleast_1d(np.asarray(budget, np.float64))
    expect(limits.shape == (model.cost_count,), f"a budget of {model.cost_count} numbers", budget)
    return limits


def solve_model(
    model: Model,
    budget: ArrayLike,
    discount: float,
    state_limit: int = STATE_LIMIT,
    cost_discounts: tuple[float, ...] = (),
) -> Optimum:
    """The optimum of any model whose states can be listed: it must know its `outcomes` and `starts`."""
    began = time.perf_counter()
    limits = checked_budget(model, budget)
    cmdp = enumerate_states(model, discount, state_limit, cost_discounts)
    solution = solve(cmdp, limits)
    return Optimum(
        reward_lower=solution.reward,
        reward_upper=solution.reward + solution.gap,
        costs=tuple(solution.costs.tolist()),
        multipliers=tuple(solution.multipliers.tolist()),
        states=cmdp.state_count,
        seconds=time.perf_counter() - began,
    )
