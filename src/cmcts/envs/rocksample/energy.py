"""RockSample with two budgets: measurements, and the energy of moving.

As RockSample (`cmcts.envs.rocksample.model`), with a second cost and one rule more:

**Costs.** Measurements, 1 each, and energy, 1/n a move: the straight way out of an n x n grid takes 1, before
discounting. Sampling and measuring need no energy. The rover has to leave the grid in the end, so unlike a measurement,
a step away from the exit commits to energy that is spent later.

**Measurement.** A rock answers once. Asked again it costs again and tells nothing new, so a planner asks each rock at
most once. That leaves finitely many beliefs, and small maps can be solved exactly.

The world is in `rocksample_energy_world`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import kernel
from cmcts.envs.rocksample import model as rocksample
from cmcts.envs.rocksample.model import SAMPLE, SENSE, rocksample_model, rocksample_params
from cmcts.model.interface import Model

UNREAD = 0.5


class EnergyParams(NamedTuple):
    """RockSample's map and sensor, and what a move costs."""

    n: int
    rocks: NDArray[np.int64]  # [m, 2]
    rock_at: NDArray[np.int64]  # [n * n] the rock on a square, or -1
    accuracy: NDArray[np.float64]  # [n * n, m] probability that measuring the rock from the square is right
    start_y: int
    move_energy: float


@kernel
def legal_actions(params, state, out):
    """RockSample's legal actions, without measuring rocks that have answered."""
    count = rocksample.legal_actions(params, state, out)
    kept = 0
    for k in range(count):
        action = out[k]
        out[kept] = action
        kept += action < SENSE or state[2 + action - SENSE] == UNREAD
    return kept


@kernel
def step(params, state, action, rng, next_state, costs):
    """RockSample's step, and the energy it costs; a rock that has answered says nothing new."""
    reward, terminal = rocksample.step(params, state, action, rng, next_state, costs)
    if action >= SENSE:
        rock = 2 + action - SENSE
        if state[rock] != UNREAD:
            next_state[rock] = state[rock]
    costs[1] = params.move_energy if action < SAMPLE else 0.0
    return reward, terminal


@kernel
def expected_costs(params, state, action, out):
    """A measurement costs 1, a move its energy."""
    out[0] = 1.0 if action >= SENSE else 0.0
    out[1] = params.move_energy if action < SAMPLE else 0.0


def outcomes(params: EnergyParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """All that `step` can do, as arrays: what RockSample can, with the energy as a second cost."""
    probabilities, next_states, rewards, costs, ends = rocksample.outcomes(params, state, action)  # type: ignore[arg-type]
    if action >= SENSE and state[2 + action - SENSE] != UNREAD:
        next_states[:] = state
    energy = np.full((len(costs), 1), params.move_energy if action < SAMPLE else 0.0)
    return probabilities, next_states, rewards, np.hstack([costs, energy]), ends


def energy_model(n: int, m: int) -> Model:
    """The planning model of RockSample(n, m) with energy, on beliefs."""
    plain = rocksample_model(n, m)
    return Model(
        name="rocksample_energy",
        params=EnergyParams(*rocksample_params(n, m), move_energy=1.0 / n),
        step=step,
        legal_actions=legal_actions,
        features=rocksample.features,
        start=rocksample.start,
        rollout_action=rocksample.rollout_action,
        expected_costs=expected_costs,
        outcomes=outcomes,
        starts=rocksample.starts,
        state_fault=rocksample.state_fault,
        state_size=plain.state_size,
        action_count=plain.action_count,
        feature_count=plain.feature_count,
        cost_count=2,
        cost_names=("measurements", "energy"),
        action_names=plain.action_names,
        feature_description=plain.feature_description,
    )
