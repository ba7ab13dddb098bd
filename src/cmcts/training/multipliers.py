"""The search for the Lagrange multiplier while data is gathered (guided bootstrapping).

The k-th round of data gathering solves the problem with the penalised reward r - lambda_k c and measures V_C, the mean
discounted cost. Three rules say what lambda_(k+1) is, by name:

* "paper": lambda_k = lambda_(k-1) + alpha0 / k (V_C - c_hat). Overshoots when V_C starts far above the budget.
* "sign": lambda_k = lambda_(k-1) + alpha0 / k sign(V_C - c_hat), as the authors' code has it.
* "bracket": V_C falls with lambda, so expand until both sides are known, then bisect. Noise may put measurements in
  the wrong order; the falling curve that fits them best (isotonic regression) then says which side each is on.

Data gathering stops when c_hat - eps <= V_C <= c_hat, or when lambda can no longer matter: it is at a bound, or the
cost does not follow it because the planning model does not see where the cost comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import expect


@dataclass(frozen=True)
class MultiplierSettings:
    """How lambda moves, and when it has moved enough."""

    rule: Literal["bracket", "paper", "sign"] = "bracket"
    """How lambda moves: bracket and bisect, or step by the gap or by its sign alone."""
    initial: float = 1.0
    """lambda at the beginning of a round."""
    maximum: float = 1000.0
    """The largest lambda that is tried."""
    alpha0: float = 4.0
    """Step size of the rules "paper" and "sign"."""
    epsilon: float = 0.1
    """Stop once the mean cost is within this below the budget."""
    max_updates: int = 5
    """Values of lambda to try at most in one round of data gathering."""

    def __post_init__(self) -> None:
        expect(self.rule in ("bracket", "paper", "sign"), 'rule to be "bracket", "paper" or "sign"', self.rule)
        expect(0 <= self.initial <= self.maximum, f"initial multiplier in [0, {self.maximum}]", self.initial)
        expect(self.alpha0 > 0, "alpha0 > 0", self.alpha0)
        expect(self.epsilon >= 0, "epsilon >= 0", self.epsilon)
        expect(self.max_updates >= 1, "max_updates >= 1", self.max_updates)


class Measurement(NamedTuple):
    """The mean discounted costs that were measured under one lambda, with their standard errors."""

    multipliers: NDArray[np.float64]  # [M]
    costs: NDArray[np.float64]  # [M] V_C
    errors: NDArray[np.float64]  # [M] standard errors


EXPANSION = 4.0  # factor by which "bracket" looks for the other side
NO_EFFECT = 2  # so many expansions in a row without a fall in cost, and lambda is taken to have no effect


def next_multipliers(
    past: Sequence[Measurement], budget: NDArray[np.float64], settings: MultiplierSettings
) -> tuple[NDArray[np.float64], str]:
    """The next lambda, and why to stop instead (empty: go on). Constraints move independently, all at once."""
    if not past:
        return np.full(len(budget), settings.initial), ""
    last = past[-1]
    within = (budget - settings.epsilon <= last.costs) & (last.costs <= budget)
    if within.all():
        return last.multipliers, "cost within epsilon of the budget"
    if len(past) >= settings.max_updates:
        return last.multipliers, f"{settings.max_updates} multipliers tried"
    moved = np.array([_move(past, float(budget[m]), m, settings) for m in range(len(budget))])
    moved = np.where(within, last.multipliers, np.clip(moved, 0.0, settings.maximum))
    stuck = within | (moved == last.multipliers) | [_no_effect(past, float(budget[m]), m) for m in range(len(budget))]
    if stuck.all():
        at_maximum = (last.multipliers >= settings.maximum).any()
        return last.multipliers, "maximum multiplier" if at_maximum else "the multiplier has no effect"
    return moved, ""


def _move(past: Sequence[Measurement], budget: float, m: int, settings: MultiplierSettings) -> float:
    current, gap = float(past[-1].multipliers[m]), float(past[-1].costs[m]) - budget
    if settings.rule == "paper":
        return current + settings.alpha0 / len(past) * gap
    if settings.rule == "sign":
        return current + settings.alpha0 / len(past) * float(np.sign(gap))
    lambdas, costs = _falling_costs(past, m)
    too_low, enough = lambdas[costs > budget], lambdas[costs <= budget]
    if len(enough) == 0:
        return max(EXPANSION * float(too_low.max()), 0.25)
    if len(too_low) == 0:
        smaller = float(enough.min()) / EXPANSION
        return smaller if smaller > 0.01 else 0.0
    return 0.5 * (float(too_low.max()) + float(enough.min()))


def _falling_costs(past: Sequence[Measurement], m: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each lambda that was tried, in order, and its cost on the falling curve that fits all measurements best."""
    from scipy.optimize import isotonic_regression

    tried, which = np.unique([row.multipliers[m] for row in past], return_inverse=True)
    count = np.bincount(which)
    mean = np.bincount(which, [row.costs[m] for row in past]) / count
    return tried, np.asarray(isotonic_regression(mean, weights=count, increasing=False).x)


def _no_effect(past: Sequence[Measurement], budget: float, m: int) -> bool:
    """Whether lambda was raised several times and the cost did not fall by more than its error."""
    recent = past[-(NO_EFFECT + 1) :]
    if len(recent) <= NO_EFFECT:
        return False
    raised = all(b.multipliers[m] >= EXPANSION * a.multipliers[m] > 0 for a, b in pairwise(recent))
    first, last = recent[0], recent[-1]
    noise = float(np.hypot(first.errors[m], last.errors[m]))
    return raised and bool(last.costs[m] > budget) and bool(last.costs[m] > first.costs[m] - 2.0 * noise)
