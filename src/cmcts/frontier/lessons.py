"""What leaf values learn from: states, and the reward and costs to go at a price, of what is best or of a planner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.episodes import Transitions
from cmcts.exact.finite import FiniteCMDP
from cmcts.exact.solver import best_policy, evaluate
from cmcts.model.interface import Model
from cmcts.planning.planner import Planner

Floats = NDArray[np.float64]

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


def solved_lessons(model: Model, cmdp: FiniteCMDP, prices: Sequence[Floats], price_units: Sequence[float]) -> Lessons:
    """At each price, what the policy that leaves most after paying it is worth in each state: nothing is played."""
    features = np.array([model.feature_vector(state) for state in cmdp.states])
    parts = []
    for price in prices:
        _, pairs = best_policy(cmdp, cmdp.rewards - (cmdp.costs * cmdp.cost_weights) @ price)
        values = evaluate(cmdp, np.bincount(pairs, minlength=cmdp.pair_count))
        inputs = np.column_stack([features, np.tile(_told(price, price_units), (len(features), 1))])
        parts.append(Lessons(inputs.astype(np.float32), np.column_stack([values.reward_values, values.cost_values])))
    return joined(parts)


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
    return Lessons(_inputs(planner, steps.states[rows], price_units), targets[rows])


def _inputs(planner: Planner, states: Floats, price_units: Sequence[float]) -> NDArray[np.float32]:
    features = np.array([planner.model.feature_vector(state) for state in states]).reshape(len(states), -1)
    told = _told(planner.initial_multipliers(), price_units)
    return np.column_stack([features, np.tile(told, (len(states), 1))]).astype(np.float32)


def _told(price: Floats, price_units: Sequence[float]) -> Floats:
    return np.asarray(np.log1p(price / np.array(price_units)))
