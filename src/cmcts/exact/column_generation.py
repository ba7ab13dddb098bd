"""Column generation: the best mixture of policies that keeps a budget (Dantzig and Wolfe 1960).

Policies are found one at a time. HiGHS mixes those found so far as well as it can,

    maximise sum_k w_k V_R^k  subject to  sum_k w_k V_C^k <= c_hat,  sum_k w_k = 1,  w >= 0,

its dual values are multipliers lambda, and the best policy for the penalised reward R - lambda C joins the mixture,
until none improves it. Every lambda >= 0 bounds the optimum from above by weak duality,

    V_R^* <= max_pi V_R^pi - lambda V_C^pi + lambda c_hat,

and the mixture bounds it from below, so the error of the answer is known: `Mixture.gap`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cmcts.errors import InvalidInput
from cmcts.exact.finite import Floats

_FEASIBILITY = 1e-9  # how far over budget, relative to the largest cost, counts as on budget
_MAX_COLUMNS = 1000


class InfeasibleBudget(InvalidInput):
    """No policy keeps the budget; `least` is the smallest cost that can be had of every constraint, each by itself."""

    def __init__(self, message: str, least: Floats) -> None:
        super().__init__(message)
        self.least = least


class Column(NamedTuple):
    """A deterministic policy as the mixture sees it: what it earns and pays, and the policy itself."""

    reward: float
    costs: Floats  # [M]
    policy: Any = None


class Mixture(NamedTuple):
    """The best mixture of the columns found, with its multipliers and a bound on its error."""

    reward: float
    costs: Floats  # [M]
    multipliers: Floats  # [M]
    gap: float
    weights: Floats  # [K]
    columns: list[Column]


Pricing = Callable[[float, Floats], Column]
"""(weight of the reward, weights of the costs) -> a policy that maximises weight R - weights C."""


def mix_columns(pricing: Pricing, budget: Floats, cost_count: int) -> Mixture:
    """The best mixture of what `pricing` finds, for budgets [M]; an error says what is needed if none keeps them."""
    nothing = np.zeros(cost_count)
    columns = [pricing(1.0, nothing)]
    if (columns[0].costs <= budget).all():
        only = columns[0]
        return Mixture(only.reward, only.costs, nothing, 0.0, np.ones(1), columns)
    for m in range(cost_count):
        columns.append(pricing(0.0, np.eye(cost_count)[m]))
    least = np.array([columns[1 + m].costs[m] for m in range(cost_count)])
    scale = 1.0 + np.max([column.costs for column in columns], axis=0)
    if (least > budget + _FEASIBILITY * scale).any():
        m = int(np.argmax(least - budget))
        which = "" if cost_count == 1 else f" of constraint {m}"
        raise InfeasibleBudget(f"expected a budget{which} of at least {least[m]:.6g}, got {budget[m]:.6g}", least)
    limits = np.maximum(budget, least)
    if cost_count > 1:
        limits = limits + _make_feasible(pricing, columns, limits, scale, least)
    bound = np.inf
    multipliers = nothing
    while True:
        weights, prices, target = _master(columns, limits)
        column = pricing(1.0, prices)
        value = column.reward - prices @ column.costs
        dual = float(value + prices @ np.where(np.isfinite(limits), limits, 0.0))  # what has no limit has no price
        if dual < bound:
            bound, multipliers = dual, prices
        improved = value > target + _FEASIBILITY * (1.0 + abs(target)) and not any(
            _same(column, old) for old in columns
        )
        if not improved or len(columns) >= _MAX_COLUMNS:
            break
        columns.append(column)
    reward = float(sum(weight * column.reward for weight, column in zip(weights, columns, strict=True)))
    costs = np.asarray(sum(weight * column.costs for weight, column in zip(weights, columns, strict=True)))
    return Mixture(reward, costs, multipliers, max(0.0, float(bound) - reward), weights, columns)


def _master(columns: list[Column], budget: Floats) -> tuple[Floats, Floats, float]:
    """The best mixture's weights [K], its multipliers [M], and what a new column's penalised value must exceed."""
    finite = np.isfinite(budget)
    costs = np.stack([column.costs for column in columns])[:, finite]
    result = linear_program(
        -np.array([column.reward for column in columns]),
        A_ub=costs.T if finite.any() else None,
        b_ub=budget[finite] if finite.any() else None,
        A_eq=np.ones((1, len(columns))),
        b_eq=np.ones(1),
    )
    prices = np.zeros(len(budget))
    if finite.any():
        prices[finite] = np.maximum(0.0, -result.ineqlin.marginals)
    weights = np.maximum(result.x, 0.0)
    return weights / weights.sum(), prices, -float(result.eqlin.marginals[0])


def _make_feasible(pricing: Pricing, columns: list[Column], budget: Floats, scale: Floats, least: Floats) -> Floats:
    """Add columns until some mixture keeps all budgets at once, but for a rounding error that is returned, [M].

    By columns again: minimise the sum of what is over budget, each constraint in units of its `scale`.
    """
    finite = np.isfinite(budget)
    over = int(finite.sum())
    while True:
        costs = np.stack([column.costs for column in columns])[:, finite] / scale[finite]
        result = linear_program(
            np.concatenate([np.zeros(len(columns)), np.ones(over)]),
            A_ub=np.hstack([costs.T, -np.eye(over)]),
            b_ub=(budget / scale)[finite],
            A_eq=np.concatenate([np.ones(len(columns)), np.zeros(over)])[None, :],
            b_eq=np.ones(1),
        )
        excess = np.zeros(len(budget))
        excess[finite] = np.maximum(result.x[len(columns) :], 0.0) * scale[finite]
        if result.fun <= _FEASIBILITY:
            return excess
        prices = np.zeros(len(budget))
        prices[finite] = np.maximum(0.0, -result.ineqlin.marginals) / scale[finite]
        column = pricing(0.0, prices)
        if prices @ column.costs >= result.eqlin.marginals[0] - _FEASIBILITY or len(columns) >= _MAX_COLUMNS:
            raise InfeasibleBudget(
                f"expected budgets that can be kept together, got {budget.tolist()}: each one alone needs at least "
                f"{np.round(least, 6).tolist()}, and together they are exceeded by {np.round(excess, 6).tolist()}",
                least,
            )
        columns.append(column)


def linear_program(objective: Floats, **constraints: Any) -> Any:
    """Minimise with HiGHS's simplex method, which ends in a vertex; the arguments and the result are SciPy's."""
    from scipy.optimize import linprog  # slow to import

    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(objective, **constraints, method="highs-ds", options=options)
    if not result.success:
        raise InvalidInput(f"expected a linear program that HiGHS can solve, got: {result.message}")
    return result


def _same(one: Column, other: Column) -> bool:
    scale = 1e-12 * (1.0 + abs(one.reward))
    return abs(one.reward - other.reward) <= scale and bool((np.abs(one.costs - other.costs) <= scale).all())
