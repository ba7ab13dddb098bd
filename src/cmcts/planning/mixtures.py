"""Mixtures of root actions whose expected cost meets the budget: how CC-MCP's stochastic policy is made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import InvalidInput


def two_action_mixture(low: float, high: float, budget: float) -> tuple[float, float]:
    """Probabilities of a cheap and a dear action whose expected cost comes as close to the budget as it can."""
    if high <= budget:
        return 0.0, 1.0
    if low >= budget:
        return 1.0, 0.0
    dear = (budget - low) / (high - low)
    return 1.0 - dear, dear


def worth_their_cost(
    actions: NDArray[np.int64], rewards: NDArray[np.float64], costs: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Those of some actions that no other of them makes pointless.

    Pointless is what another action does for less (of no constraint more, of one really less) while earning as much,
    as far as can be told: rewards [A] and costs [A, M] are estimates, and rewards are told apart beyond the sum of
    `noise` [A] of the two.
    """
    kept = []
    for action in actions:
        cheaper = (costs[actions] <= costs[action]).all(axis=1) & (costs[actions] < costs[action]).any(axis=1)
        as_good = rewards[actions] >= rewards[action] - (noise[actions] + noise[action])
        if not (cheaper & as_good).any():
            kept.append(action)
    return np.array(kept, np.int64)


def mixture_program(
    costs: NDArray[np.float64], budget: NDArray[np.float64], multipliers: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The mixture for several constraints: a linear program over the actions' weights w.

    minimise sum_m (1 + lambda_m) over_m + lambda_m under_m
    subject to sum_a w_a Q_C,m(a) - over_m + under_m = c_hat_m, sum_a w_a = 1, everything >= 0.

    Overspending weighs more than underspending; with one constraint its solution is `two_action_mixture`'s.
    """
    from scipy.optimize import linprog  # slow to import, and only several constraints need it

    actions, constraints = costs.shape
    identity = np.eye(constraints)
    objective = np.concatenate([np.zeros(actions), 1.0 + multipliers, multipliers])
    equalities = np.block([[costs.T, -identity, identity], [np.ones((1, actions)), np.zeros((1, 2 * constraints))]])
    result = linprog(objective, A_eq=equalities, b_eq=np.concatenate([budget, [1.0]]), method="highs")
    if not result.success:
        raise InvalidInput(f"no mixture of root actions could be found: {result.message}")
    weights = np.maximum(result.x[:actions], 0.0)
    return np.asarray(weights / weights.sum())
