"""How widely the search explores: half or twice as widely as before, for as long as that leaves more.

The search measures its exploration by the spread of the returns it sees, and one number suits most problems about
equally well. Where it does not, actions differ by far less, or far more, than rollouts do by chance.

A width is judged by the penalised search, at the lambda that gathering ended with, on the same worlds as the others:
the mean of so many differences tells widths apart that are worth telling apart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.statistics import standard_error

EPISODES = 64
HALVINGS, DOUBLINGS = 6, 2
SURE = 1.0  # standard errors of the mean gain


def climb(width: float, penalised_returns: Callable[[float], NDArray[np.float64]]) -> float:
    """The best width that halving, or else doubling, leads to; `penalised_returns` has an entry an episode."""
    best, returns = width, penalised_returns(width)
    for factor, steps in ((0.5, HALVINGS), (2.0, DOUBLINGS)):
        for _ in range(steps):
            others = penalised_returns(best * factor)
            gains = others - returns
            if not gains.mean() > SURE * standard_error(gains):
                break
            best, returns = best * factor, others
        if best != width:
            break
    return best
