"""From transitions to what the learner sees, and how well a fitted critic does on episodes it has not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.episodes import Transitions
from cmcts.model.interface import Model
from cmcts.training.learning import Arrays, Batch, feasible_value, forward, td_target
from cmcts.training.settings import CriticSettings

SURE_SHARE, SIGMAS = 0.99, 2.0  # of held-out episodes never have so many sigmas above the critic's error


def as_batch(model: Model, transitions: Transitions) -> Batch:
    """Transitions as the learner sees them: features instead of states, and the legal actions of next states."""
    legal = np.zeros((len(transitions), model.action_count), np.bool_)
    for row, state in enumerate(transitions.next_states):
        if not transitions.terminal[row]:
            legal[row, model.legal(state)] = True
    return Batch(
        features=np.stack([model.feature_vector(state) for state in transitions.states]),
        actions=transitions.actions.astype(np.int32),
        costs=transitions.costs.astype(np.float32),
        next_features=np.stack([model.feature_vector(state) for state in transitions.next_states]),
        next_actions=np.maximum(transitions.next_actions, 0).astype(np.int32),
        next_legal=legal | transitions.terminal[:, None],  # never an empty minimum
        continues=(~transitions.terminal).astype(np.float32),
    )


def concatenate(batches: list[Batch]) -> Batch:
    """One batch with the rows of many, in order."""
    return Batch(*(np.concatenate(columns) for columns in zip(*batches, strict=True)))


def held_out_mask(data: list[Transitions], share: float, seed: int) -> NDArray[np.bool_]:
    """[T] which transitions belong to held-out episodes; whole episodes are drawn, with chance `share` each."""
    last = np.concatenate([part.last for part in data])
    episode = np.concatenate([[0], np.cumsum(last)[:-1]])
    chosen = np.random.default_rng(seed).random(int(last.sum())) < share
    return np.asarray(chosen[episode])


def monte_carlo_costs(data: list[Transitions], discounts: Sequence[float]) -> NDArray[np.float64]:
    """Costs from each step to the end of its episode, each by its own discount, [T, M]."""
    costs = np.concatenate([part.costs for part in data])
    last = np.concatenate([part.last for part in data])
    returns = np.zeros_like(costs)
    ahead, factors = np.zeros(costs.shape[1]), np.array(discounts)
    for row in range(len(costs) - 1, -1, -1):
        ahead = costs[row] + (0.0 if last[row] else factors) * ahead
        returns[row] = ahead
    return returns


def worst_of_episodes(values: NDArray[np.float64], last: NDArray[np.bool_]) -> NDArray[np.float64]:
    """[N] the largest value [T] of each episode; `last` [T] says where one ends."""
    begins = np.flatnonzero(np.concatenate([[True], last[:-1]]))
    return np.maximum.reduceat(values, begins)


def conformal_margin(scores: NDArray[np.float64], share: float) -> float:
    """The split conformal margin: a fresh score is within it with probability `share`, if the scores are many enough.

    It is the ceil((n + 1) share)-th smallest of n scores; the largest, where they are too few for that.
    """
    rank = min(len(scores), math.ceil((len(scores) + 1) * share))
    return float(np.sort(scores)[rank - 1])


def held_out_figures(
    arrays: Arrays,
    data: Batch,
    transitions: list[Transitions],
    held_out: NDArray[np.bool_],
    settings: CriticSettings,
    discounts: Sequence[float],
    cost_scale: NDArray[np.float64],
) -> dict[str, Any]:
    """Squared temporal-difference error and calibration of mean and sigma on episodes the critic has not seen.

    `error` is what the critic cannot tell apart, in cost scales: how far it is off at half of the steps, or two sigmas
    where it is least sure, whichever is more. An episode counts by its worst step, because a decision anywhere in it
    may be the one that a tolerance below the error leaves to chance; the margin is conformal: it covers the next
    episode with probability SURE_SHARE, as far as a tenth of the episodes can say. (Not how far the critic is off at
    its worst step: where dangers strike by chance that is most of a danger's cost, however good the critic.)
    """
    if not held_out.any():
        return {}
    rows = Batch(*(column[held_out] for column in data))
    cost_count = rows.costs.shape[-1]
    values = forward(arrays, rows.features, cost_count)
    ahead = forward(arrays, rows.next_features, cost_count)
    index = np.arange(len(rows.actions))
    if settings.target == "sarsa":
        next_value = ahead.mean(axis=0)[index, rows.next_actions]
    else:
        next_value = np.asarray(feasible_value(ahead, rows.next_legal, settings.pessimism))
    targets = np.asarray(td_target(rows.costs, rows.continues, next_value, discounts))
    mean = values.mean(axis=0)[index, rows.actions]
    sigma = values.std(axis=0)[index, rows.actions]
    returns = monte_carlo_costs(transitions, discounts)[held_out]
    error = mean - returns
    off = np.abs(mean - targets) / cost_scale
    last = np.concatenate([part.last for part in transitions])[held_out]
    apart = conformal_margin(worst_of_episodes(SIGMAS * (sigma / cost_scale).max(axis=1), last), SURE_SHARE)
    return {
        "held_out": int(held_out.sum()),
        "error": float(max(np.median(off, axis=0).max(), apart)),
        "held_out_td_error": float(((mean - targets) ** 2).mean()),
        "calibration": {
            "bias": float(error.mean()),
            "rmse": float(np.sqrt((error**2).mean())),
            "within_two_sigma": float((np.abs(error) <= 2 * sigma + 1e-3 * cost_scale).mean()),
            "sigma_mean": float(sigma.mean()),
        },
    }
