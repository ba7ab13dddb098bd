"""What leaf values learn from: states, and the reward and costs of a priced planner from there to the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.episodes import Transitions
from cmcts.exact.finite import FiniteCMDP
from cmcts.exact.solver import evaluate
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


def best_known(lessons: Sequence[Lessons], prices: Sequence[Floats], price_units: Sequence[float]) -> Lessons:
    """At each price the most that any policy is known to be worth in each state, of exact lessons of the same states.

    Each state has the policy that earns most there after paying. No policy that acts on what is known so is worth less
    (generalised policy improvement), and what is learned at one price serves all others: who has learned to take a
    passenger home through water knows the way wherever it is dry.
    """
    known = np.stack([part.targets for part in lessons])
    features, states = lessons[0].inputs[:, : -len(price_units)], np.arange(len(lessons[0].targets))
    parts = []
    for price in prices:
        best = (known[..., 0] - known[..., 1:] @ price).argmax(axis=0)
        told = np.tile(np.log1p(price / np.array(price_units)).astype(np.float32), (len(states), 1))
        parts.append(Lessons(np.column_stack([features, told]), known[best, states]))
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


def exact_lessons(planner: Planner, cmdp: FiniteCMDP, table: Floats, price_units: Sequence[float]) -> Lessons:
    """The same of a planner whose [P] decisions in every state are known: without the luck of episodes."""
    values = evaluate(cmdp, table)
    return Lessons(
        _inputs(planner, cmdp.states, price_units), np.column_stack([values.reward_values, values.cost_values])
    )


def _inputs(planner: Planner, states: Floats, price_units: Sequence[float]) -> NDArray[np.float32]:
    prices = np.log1p(planner.initial_multipliers() / np.array(price_units))
    features = np.array([planner.model.feature_vector(state) for state in states]).reshape(len(states), -1)
    return np.column_stack([features, np.tile(prices, (len(states), 1))]).astype(np.float32)
