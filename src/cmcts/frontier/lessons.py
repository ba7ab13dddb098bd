"""What leaf values learn from: the states of priced episodes, and the reward and costs from there to the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.episodes import Transitions
from cmcts.planning.planner import Planner

CUT_OFF = 0.05  # the most that what was not played may weigh, where an episode was truncated
STEPS = 10_000  # of one measurement, at most: more of the same teach little


class Lessons(NamedTuple):
    """T steps: inputs and targets of leaf values (critic/values.py)."""

    inputs: NDArray[np.float32]  # [T, F + M] features, then log(1 + price / unit)
    targets: NDArray[np.float64]  # [T, 1 + M] reward and costs to go, each by its own discount


def joined(lessons: Sequence[Lessons]) -> Lessons:
    """All steps of all of them."""
    inputs = np.concatenate([part.inputs for part in lessons])
    return Lessons(inputs, np.concatenate([part.targets for part in lessons]))


def lessons_of(planner: Planner, steps: Transitions, price_units: Sequence[float]) -> Lessons:
    """The lessons of a priced planner's episodes; steps too close to where an episode was truncated teach nothing."""
    factors = np.array([planner.search.discount, *planner.cost_discounts])
    earned = np.column_stack([steps.rewards, steps.costs])
    targets = np.zeros_like(earned)
    known = np.ones(len(steps), np.bool_)
    ahead, weight = np.zeros(len(factors)), np.zeros(len(factors))
    for row in range(len(steps) - 1, -1, -1):
        if steps.last[row]:
            ahead, weight = np.zeros(len(factors)), np.full(len(factors), 0.0 if steps.terminal[row] else 1.0)
        targets[row] = ahead = earned[row] + factors * ahead
        weight = factors * weight
        known[row] = weight.max() <= CUT_OFF
    rows = np.flatnonzero(known)[:STEPS]
    prices = np.log1p(planner.initial_multipliers() / np.array(price_units))
    features = [planner.model.feature_vector(state) for state in steps.states[rows]]
    inputs = np.column_stack([np.array(features).reshape(len(rows), -1), np.tile(prices, (len(rows), 1))])
    return Lessons(inputs.astype(np.float32), targets[rows])
