"""How sure is a figure? Intervals for means, for rates, and for the difference of two planners on the same worlds.

All intervals are two-sided at 95 %.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
RESAMPLES = 4000


class Interval(NamedTuple):
    """A confidence interval from `low` to `high`."""

    low: float
    high: float


def standard_error(values: ArrayLike) -> float:
    """The standard error of the mean of some values; 0 for a single value."""
    array = np.asarray(values, np.float64)
    return float(array.std(ddof=1) / np.sqrt(len(array))) if len(array) > 1 else 0.0


def mean_interval(values: ArrayLike) -> Interval:
    """Student's interval for the mean: mean ± t standard errors; of a single value, everything is possible."""
    from scipy.stats import t

    array = np.asarray(values, np.float64)
    if len(array) < 2:
        return Interval(-np.inf, np.inf)
    reach = float(t.ppf(0.5 + CONFIDENCE / 2, len(array) - 1)) * standard_error(array)
    return Interval(float(array.mean()) - reach, float(array.mean()) + reach)


def rate_interval(count: int, total: int) -> Interval:
    """Clopper and Pearson's exact interval for a rate of which `count` in `total` were seen.

    >>> print(f"0 of 1000: at most {100 * rate_interval(0, 1000).high:.2f} %")
    0 of 1000: at most 0.37 %
    """
    from scipy.stats import binomtest

    interval = binomtest(count, total).proportion_ci(CONFIDENCE, method="exact")
    return Interval(float(interval.low), float(interval.high))


class Difference(NamedTuple):
    """The difference of two planners' means over the same worlds, first minus second."""

    mean: float
    interval: Interval

    @property
    def sign(self) -> int:
        """1 or -1 if the interval lies on one side of zero, else 0."""
        return int(self.interval.low > 0) - int(self.interval.high < 0)


def paired_difference(first: ArrayLike, second: ArrayLike, rng: np.random.Generator | int = 0) -> Difference:
    """Mean of the differences episode by episode, with a bootstrap interval (BCa).

    Pairing takes out what both planners owe to a world alone, so that fewer episodes tell them apart.
    """
    from scipy.stats import bootstrap

    differences: NDArray[np.float64] = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    mean = float(differences.mean())
    if np.ptp(differences) == 0:
        return Difference(mean, Interval(mean, mean) if len(differences) > 1 else Interval(-np.inf, np.inf))
    result: Any = bootstrap(
        (differences,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=max(1, 4_000_000 // len(differences)),
        confidence_level=CONFIDENCE,
        method="BCa",
        vectorized=True,
        rng=np.random.default_rng(rng),
    )
    return Difference(mean, Interval(float(result.confidence_interval.low), float(result.confidence_interval.high)))
