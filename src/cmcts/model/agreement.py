"""Whether a model does what it says: samples of `step` and `start` against `expected_costs`, `outcomes` and `starts`.

Samples differ from the truth by chance. A difference is a fault only where Bernstein's inequality leaves it no chance:
a model that is right is accused of being wrong once in a million comparisons.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import shown

Floats = NDArray[np.float64]

_LOG_ODDS = math.log(2e6)
_CLOSE = 1e-9


class Step(NamedTuple):
    """What one step did."""

    next_state: Floats
    reward: float
    costs: Floats
    end: bool


def slack_of_mean(samples: Floats, largest: Floats) -> Floats:
    """[M] how far the mean of samples [n, M] of numbers up to `largest` may be from the truth."""
    spread = np.sqrt(2 * samples.var(axis=0) * _LOG_ODDS / len(samples))
    return np.asarray(spread + 7 * largest * _LOG_ODDS / (3 * (len(samples) - 1)))


def outcomes_fault(listed: Any, steps: list[Step], state_size: int, cost_count: int) -> str:
    """What is wrong with the outcomes of one action in one state, whose steps were these; "" if nothing is.

    One step is all there is where it throws no dice.
    """
    parts = _arrays(listed, 5)
    if parts is None:
        return f"expected (probabilities, next_states, rewards, costs, terminals), got {listed!r}"
    chances, states, rewards, costs, ends = parts
    fault = _sizes_fault(chances, states, state_size, "next states")
    if fault:
        return fault
    for name, part, shape in (
        ("rewards", rewards, (len(chances),)),
        ("costs", costs, (len(chances), cost_count)),
        ("terminals", ends, (len(chances),)),
    ):
        if part.shape != shape:
            return f"expected {name} of shape {shape}, got {part.shape}"
    going = ~ends.astype(np.bool_) & (chances > 0.0)
    reached = [step.next_state for step in steps if not step.end]
    fault = _frequencies_fault(chances[going], states[going], reached, len(steps))
    if fault:
        return fault
    stated, seen = float(chances[~going].sum()), np.mean([step.end for step in steps])
    if abs(stated - seen) > _slack_of_share(stated, len(steps)):
        return f"expected the episode to end as often as step ends it, {seen:.3g}, got probability {stated:.3g}"
    done = np.array([[step.reward, *step.costs] for step in steps], np.float64)
    claimed = np.column_stack([rewards, costs]).astype(np.float64)[chances > 0.0]
    mean = chances[chances > 0.0] @ claimed
    slack = np.full(done.shape[1], _CLOSE * (1.0 + np.abs(mean).max()))
    if len(steps) > 1:
        span = np.vstack([done, claimed])
        slack = slack + slack_of_mean(done, span.max(axis=0) - span.min(axis=0))
    wrong = np.flatnonzero(np.abs(done.mean(axis=0) - mean) > slack)
    if len(wrong):
        what = "reward" if wrong[0] == 0 else "cost"
        return f"expected the mean {what} of step, {done.mean(axis=0)[wrong[0]]:.6g}, got {mean[wrong[0]]:.6g}"
    return ""


def starts_fault(listed: Any, states: list[Floats], state_size: int) -> str:
    """What is wrong with the stated starts, where `start` wrote these; "" if nothing is."""
    parts = _arrays(listed, 2)
    if parts is None:
        return f"expected (probabilities, states), got {listed!r}"
    chances, stated = parts
    return _sizes_fault(chances, stated, state_size, "states") or _frequencies_fault(
        chances[chances > 0.0], stated[chances > 0.0], states, len(states)
    )


def _arrays(listed: Any, count: int) -> list[Floats] | None:
    """So many arrays of numbers, or None if it is something else."""
    if not isinstance(listed, (tuple, list)) or len(listed) != count:
        return None
    try:
        return [np.asarray(part, np.float64) for part in listed]
    except (TypeError, ValueError):
        return None


def _sizes_fault(chances: Any, states: Any, state_size: int, what: str) -> str:
    if chances.ndim != 1 or len(chances) == 0:
        return f"expected a list of probabilities, got shape {chances.shape}"
    if states.shape != (len(chances), state_size):
        return f"expected {what} of shape {(len(chances), state_size)}, got {states.shape}"
    if not (np.isfinite(chances).all() and (chances >= 0).all() and abs(chances.sum() - 1.0) <= _CLOSE):
        return f"expected probabilities >= 0 with sum 1, got {shown(chances)} with sum {chances.sum():.6g}"
    return ""


def _frequencies_fault(chances: Floats, states: Floats, seen: list[Floats], draws: int) -> str:
    """Whether states were seen that are not stated, or more or less often than stated; among so many draws in all."""
    counts = np.zeros(len(chances))
    for state in seen:
        near = (np.abs(states - state) <= _CLOSE * (1.0 + np.abs(state))).all(axis=1)
        if not near.any():
            return f"expected all that happens, got no {shown(state)} among {len(states)} states"
        counts[np.argmax(near)] += 1
    _, group = np.unique(states, axis=0, return_inverse=True)  # a state may be stated in parts
    group = np.ravel(group)
    stated, found = np.bincount(group, chances), np.bincount(group, counts) / draws
    wrong = np.abs(stated - found) > _slack_of_share(stated, draws)
    if wrong.any():
        first = int(np.argmax(wrong))
        state = states[int(np.argmax(group == first))]
        return (
            f"expected {shown(state)} as often as it happens, {found[first]:.3g}, got probability {stated[first]:.3g}"
        )
    return ""


def _slack_of_share(stated: Any, draws: int) -> Any:
    """How far a frequency may be from its probability; nothing is left to chance where there was one draw."""
    if draws == 1:
        return _CLOSE
    return np.sqrt(2 * stated * (1.0 - stated) * _LOG_ODDS / draws) + _LOG_ODDS / (3 * draws)
