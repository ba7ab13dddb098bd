"""The best mixture of measured policies within a budget: a linear program, with a margin for what was not measured.

Draw policy k with probability w_k at the start of the episode and keep to it. Over episodes that earns sum_k w_k V_R^k
and costs sum_k w_k V_C^k, so the best mixture within the budget c_hat is

    maximise sum_k w_k V_R^k  subject to  sum_k w_k V_C^k <= c_hat,  sum_k w_k = 1,  w >= 0,

which is the constrained MDP itself if the policies are all there are. `chance` adds a row: sum_k w_k P_k <= delta,
where P_k is the share of policy k's episodes that cost more than the budget.

V and P are means over episodes, and a program that sees a policy's cost too low will buy much of it. So the limits are
lowered until the one-sided upper confidence bound of the mixture's own mean cost keeps the budget. All policies were
measured on the same worlds: the mixture has one cost a world, sum_k w_k c_k, and its standard error is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.columns import Sample
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import OVERSPENT
from cmcts.exact.column_generation import InfeasibleBudget, linear_program

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
_ROUNDING = 1e-9  # of the limit, or of 1: what a simplex vertex may be off by
_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Limits:
    """Rows of the program: what is limited, episode by episode, and to what on average."""

    used: Floats  # [K, N, L] of policy k, in world i, of limit l
    limits: Floats  # [L]

    @classmethod
    def of(cls, samples: list[Sample], budget: Floats, share: float | None) -> Limits:
        """The mean costs within the budget and, with a share, at most that share of the episodes over it."""
        used = np.stack([sample.costs for sample in samples])
        if share is None:
            return cls(used, budget)
        over = (used > budget + OVERSPENT).any(axis=2, keepdims=True)
        return cls(np.concatenate([used, over], axis=2), np.append(budget, share))


class Mixed(NamedTuple):
    """A mixture: how often each policy is drawn, and what one more unit of each limit would earn."""

    weights: Floats  # [K]
    prices: Floats  # [L]


def best_mixture(rewards: Floats, rows: Limits, confidence: float | None = CONFIDENCE) -> Mixed:
    """The best mixture of policies that earned `rewards` [K, N]; without confidence, the measured means are believed.

    `InfeasibleBudget` names what the thriftiest mixture would need.
    """
    means, mean_rewards = rows.used.mean(axis=1), rewards.mean(axis=1)
    quantile = 0.0 if confidence is None else _quantile(confidence, rewards.shape[1])
    margin = np.zeros(len(rows.limits))
    for _ in range(_ROUNDS):
        mixed = _program(mean_rewards, means, rows.limits - margin)
        if mixed is None:
            break
        if confidence is None:
            return mixed
        needed = quantile * _errors(rows.used, mixed.weights)
        if (needed <= margin + _ROUNDING * (1.0 + rows.limits)).all():
            return mixed
        margin = np.maximum(margin, needed)
    least = least_bounds(rows, confidence)
    text = ", ".join(f"{value:.4g}" for value in least)
    raise InfeasibleBudget(
        f"expected a budget that some mixture of the columns is sure to keep, got {rows.limits.tolist()}: each limit "
        f"by itself needs at least {text}",
        least,
    )


def least_bounds(rows: Limits, confidence: float | None = CONFIDENCE) -> Floats:
    """[L] the least limit that some policy is sure to keep, each by itself."""
    return np.asarray(upper_bounds(rows.used, confidence).min(axis=0))


def upper_bounds(used: Floats, confidence: float | None = CONFIDENCE) -> Floats:
    """[K, L] one-sided upper confidence bounds of the means of [K, N, L]."""
    if confidence is None:
        return np.asarray(used.mean(axis=1))
    errors = used.std(axis=1, ddof=1) / np.sqrt(used.shape[1])
    return np.asarray(used.mean(axis=1) + _quantile(confidence, used.shape[1]) * errors)


def _program(rewards: Floats, used: Floats, limits: Floats) -> Mixed | None:
    """The linear program for policies of these means, or None if they cannot keep the limits."""
    if (used.min(axis=0) > limits + _ROUNDING * (1.0 + np.abs(limits))).any():
        return None
    # A limit that a policy just keeps is kept, whatever the rounding of its mean.
    slack = np.maximum(limits, used.min(axis=0))
    try:
        result = linear_program(-rewards, A_ub=used.T, b_ub=slack, A_eq=np.ones((1, len(rewards))), b_eq=np.ones(1))
    except InvalidInput:  # several limits that can be kept one by one, and not together
        return None
    weights = np.maximum(result.x, 0.0)
    return Mixed(weights / weights.sum(), np.maximum(0.0, -result.ineqlin.marginals))


def _errors(used: Floats, weights: Floats) -> Floats:
    """[L] standard errors of what the mixture uses, which is sum_k w_k used_k in every world."""
    mixed = np.tensordot(weights, used, axes=1)
    return np.asarray(mixed.std(axis=0, ddof=1) / np.sqrt(len(mixed)))


def _quantile(confidence: float, episodes: int) -> float:
    from scipy.stats import t

    return float(t.ppf(confidence, episodes - 1))
