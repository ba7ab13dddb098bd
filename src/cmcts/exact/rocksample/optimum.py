"""RockSample's optimum: its beliefs are too many to list, but bounds on it can be proven, and mostly meet."""

from __future__ import annotations

import time

from numpy.typing import ArrayLike

from cmcts.exact.optimum import Optimum, checked_budget
from cmcts.exact.rocksample.bounds import rocksample_bounds
from cmcts.model.interface import Model


def rocksample_optimum(model: Model, budget: ArrayLike, discount: float) -> Optimum:
    """What a `Task` of RockSample gives as its `optimum`."""
    began = time.perf_counter()
    bounds = rocksample_bounds(model.params, float(checked_budget(model, budget)[0]), discount)
    return Optimum(
        reward_lower=bounds.reward_lower,
        reward_upper=bounds.reward_upper,
        costs=(bounds.cost,),
        multipliers=(bounds.multiplier,),
        states=bounds.states,
        seconds=time.perf_counter() - began,
    )
