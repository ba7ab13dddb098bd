"""The best mixture of measured policies within a budget: a linear program, with a margin for what was not measured.

Draw policy k with probability w_k at the start of the episode and keep to it. Over episodes that earns sum_k w_k V_R^k
and costs sum_k w_k V_C^k, so the best mixture within the budget c_hat is

    maximise sum_k w_k V_R^k  subject to  sum_k w_k V_C^k <= c_hat,  sum_k w_k = 1,  w >= 0,

which is the constrained MDP itself if the policies are all there are. `chance` adds a row: sum_k w_k P_k <= delta,
where P_k is the share of policy k's episodes that cost more than the budget.

V and P are means over episodes, and a program that sees a policy's cost too low will buy much of it. So the limits are
lowered until the one-sided upper confidence bound of the mixture's own mean cost keeps the budget. Policies are
confirmed on worlds of their own, so the squares of their standard errors add up, weighed by w_k^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.columns import Sample
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import OVERSPENT
from cmcts.evaluation.statistics import standard_error
from cmcts.exact.column_generation import InfeasibleBudget, linear_program

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
_ROUNDING = 1e-9  # of the limit, or of 1: what a simplex vertex may be off by
_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Limits:
    """Rows of the program: what policies use of what is limited, how well that is known, and the limits."""

    used: Floats  # [K, L] by policy k of limit l, on average
    errors: Floats  # [K, L] standard errors of these
    episodes: int  # of the policy that was played the least
    limits: Floats  # [L]

    @classmethod
    def of(cls, samples: Sequence[Sample], budget: Floats, share: float | None = None) -> Limits:
        """The mean costs within the budget and, with a share, at most that share of the episodes over it."""
        used = np.stack([sample.means[1:] for sample in samples])
        errors = np.stack([sample.errors[1:] for sample in samples])
        limits = budget
        if share is not None:
            over = [(sample.costs > budget + OVERSPENT).any(axis=1) for sample in samples]
            used = np.column_stack([used, [row.mean() for row in over]])
            errors = np.column_stack([errors, [standard_error(row.astype(np.float64)) for row in over]])
            limits = np.append(budget, share)
        return cls(used, errors, min(len(sample) for sample in samples), limits)

    def margins(self, weights: Floats, confidence: float | None = CONFIDENCE) -> Floats:
        """[L] how far above its mean the upper confidence bound of a mixture lies."""
        return quantile(confidence, self.episodes) * np.sqrt(weights**2 @ self.errors**2)

    def least(self, confidence: float | None = CONFIDENCE) -> Floats:
        """[L] the least limit that some policy is sure to keep, each by itself."""
        return np.asarray((self.used + quantile(confidence, self.episodes) * self.errors).min(axis=0))


class Mixed(NamedTuple):
    """A mixture: how often each policy is drawn, and what one more unit of each limit would earn."""

    weights: Floats  # [K]
    prices: Floats  # [L]


def best_mixture(rewards: Floats, rows: Limits, confidence: float | None = CONFIDENCE) -> Mixed:
    """The best mixture of policies of mean `rewards` [K]; without confidence, the measured means are believed.

    `InfeasibleBudget` names what the thriftiest mixture would need.
    """
    margin = np.zeros(len(rows.limits))
    for _ in range(_ROUNDS):
        mixed = _program(rewards, rows.used, rows.limits - margin)
        if mixed is None:
            break
        needed = rows.margins(mixed.weights, confidence)
        if (needed <= margin + _ROUNDING * (1.0 + rows.limits)).all():
            return mixed
        margin = np.maximum(margin, needed)
    least = rows.least(confidence)
    text = ", ".join(f"{value:.4g}" for value in least)
    raise InfeasibleBudget(
        f"expected a budget that some mixture of the columns is sure to keep, got {rows.limits.tolist()}: each limit "
        f"by itself needs at least {text}",
        least,
    )


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


def quantile(confidence: float | None, episodes: int) -> float:
    """Standard errors from a mean of so many episodes to its one-sided confidence bound; 0 without confidence."""
    from scipy.stats import t

    return 0.0 if confidence is None else float(t.ppf(confidence, episodes - 1))
