"""Leaf values, as a search reads them: what a rollout would estimate, as an ensemble has learned it (critic/values.py).

They take the critic's place, so that a search is compiled once for both, or share it with a critic that prunes: what
they say stands behind what it says. Their inputs are the features and the prices, which are the same at every leaf of a
search: what they say of a state is remembered like what a critic says.
"""

from __future__ import annotations

import math

import numpy as np

from cmcts.compilation.content import inner_kernel as kernel
from cmcts.search.faults import VALUES, note_fault
from cmcts.search.workspace import remembered


@kernel
def read_values(model, params, values, values_params, multipliers, rules, work):
    """The reward to go of `work.state`, and whether the members agree on it; costs to go go to `work.rollout_costs`."""
    slot = remembered(model, params, values, values_params, work.state, work)
    first = work.memo.mean.shape[1] - 1 - multipliers.shape[0]
    reward, doubt = np.float64(work.memo.mean[slot, first]), np.float64(work.memo.sigma[slot, first])
    sound = math.isfinite(reward)
    for m in range(multipliers.shape[0]):
        cost = np.float64(work.memo.mean[slot, first + 1 + m])
        sound = sound and math.isfinite(cost)
        work.rollout_costs[m] = max(0.0, cost)
        doubt += multipliers[m] * np.float64(work.memo.sigma[slot, first + 1 + m])
    if not sound:
        note_fault(VALUES, work.state, 0, reward, work.rollout_costs, work.fault)
    return reward, doubt <= rules.value_doubt
