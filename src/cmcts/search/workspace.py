"""The memory that one search writes to besides its tree: allocated once, used by every simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import entry_point
from cmcts.search.faults import FEATURES, is_finite, note_fault


class Memo(NamedTuple):
    """A small table of critic outputs by state, kept from search to search; K slots, a newcomer evicts.

    A tree holds a state once for every way that leads to it, guarded rollouts ask the critic about every state they
    pass, and on small problems these are always the same.
    """

    key: NDArray[np.float64]  # [S] the state looked up
    bits: NDArray[np.uint64]  # [S] the same memory
    used: NDArray[np.bool_]  # [K]
    states: NDArray[np.float64]  # [K, S]
    mean: NDArray[np.float32]  # [K, A*M]
    sigma: NDArray[np.float32]  # [K, A*M]


MEMO_SLOTS = 1 << 12  # at most; any power of 2 will do
LARGEST_GROWTH = 1e200  # a price that has overflown would make nothing of a cost of 0
_HASH_PRIME, _HASH_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(52)  # the hash is the high 12 bits of a product


def memo(state_size: int, outputs: int) -> Memo:
    """A table that remembers nothing yet, for states and critic outputs of these sizes."""
    key, slots = np.zeros(state_size), MEMO_SLOTS
    return Memo(
        key,
        key.view(np.uint64),
        np.zeros(slots, np.bool_),
        np.zeros((slots, state_size)),
        np.zeros((slots, outputs), np.float32),
        np.zeros((slots, outputs), np.float32),
    )


@entry_point  # not inlined: the critic is large, and its calls are long
def remembered(model, params, critic, critic_params, state, work):
    """The slot of `work.memo` with the critic's outputs for `state`, evaluated now if it is not there."""
    table = work.memo
    code = np.uint64(0)
    for k in range(state.shape[0]):
        table.key[k] = state[k]
        code = (code ^ table.bits[k]) * _HASH_PRIME
        code = code ^ (code >> np.uint64(29))
    slot = np.int64((code * _HASH_PRIME) >> _HASH_SHIFT) & (table.used.shape[0] - 1)
    known = table.used[slot]
    for k in range(state.shape[0]):
        known = known and table.states[slot, k] == state[k]
    if not known:
        for k in range(state.shape[0]):
            table.states[slot, k] = state[k]
        model.features(params, state, work.features)
        table.used[slot] = is_finite(work.features)  # else the fault is noted again whenever it is asked
        if not table.used[slot]:
            note_fault(FEATURES, state, 0, 0.0, work.costs, work.fault)
        critic.predict(critic_params, work.inputs, work.scratch, table.mean[slot], table.sigma[slot])
    return slot


class Workspace(NamedTuple):
    """What one search writes to besides its tree; H is the horizon."""

    legal: NDArray[np.int64]  # [A]
    state: NDArray[np.float64]  # [S] of the leaf, after `select`
    next_state: NDArray[np.float64]  # [S]
    rollout_state: NDArray[np.float64]  # [S]
    rollout_rows: NDArray[np.float64]  # [2, S] these two on a GPU
    sample_state: NDArray[np.float64]  # [S] next states that only their costs are wanted of
    costs: NDArray[np.float64]  # [M]
    path_costs: NDArray[np.float64]  # [M] C_path of the leaf, after `select`
    rollout_costs: NDArray[np.float64]  # [M] mean over the leaf's rollouts, discounted to the leaf
    spent: NDArray[np.float64]  # [M] discounted costs of one rollout so far
    cost_scale: NDArray[np.float64]  # [M] what tolerances and the like are shares of
    floor: NDArray[np.float64]  # [M] of one action
    floors: NDArray[np.float64]  # [A*M] of every legal action of the node that is judged
    least: NDArray[np.float64]  # [M] the least that any legal action of a state takes from the budget
    overrun: NDArray[np.float64]  # [A]
    doubt: NDArray[np.float64]  # [A] what is added to sigma at the root, in units of the cost scale
    features: NDArray[np.float32]  # [F] the same memory as the first inputs
    inputs: NDArray[np.float32]  # [F + extra] what the critic sees; what leaf values are told besides the features
    memo: Memo  # what the critic said of states seen lately
    scratch: NDArray[np.float32]  # [4, width] for the critic
    discounts: NDArray[np.float64]  # [H + 2] gamma^t of the reward
    cost_discounts: NDArray[np.float64]  # [H + 2, M] gamma_m^t of each cost
    price_growth: NDArray[np.float64]  # [H + 2, M] gamma_m^t / gamma^t: a price of now, seen from t steps ahead
    prices: NDArray[np.float64]  # [M] at the node that `select` is at
    path_nodes: NDArray[np.int64]  # [H + 1]
    path_actions: NDArray[np.int64]  # [H + 1]
    path_rewards: NDArray[np.float64]  # [H + 1]
    path_step_costs: NDArray[np.float64]  # [H + 1, M]
    fault: NDArray[np.float64]  # [3 + S + M] what broke (0: nothing), then state, action, value and costs


def workspace(
    state_size: int,
    action_count: int,
    feature_count: int,
    width: int,
    horizon: int,
    discount: float,
    cost_discounts: Sequence[float],
    *,
    extra_inputs: int = 0,
    outputs: int | None = None,
) -> Workspace:
    """Allocate the scratch memory of one search, whose critic has an output an action and constraint if none said."""
    s, a, m = state_size, action_count, len(cost_discounts)
    inputs = np.zeros(feature_count + extra_inputs, np.float32)
    # Running products and not powers: a discount of 1 stays 1, and a rollout's discounts are a path's.
    factors = np.tile(np.array([discount, *cost_discounts]), (horizon + 2, 1))
    factors[0] = 1.0
    discounts = np.cumprod(factors, axis=0)
    growth = np.cumprod(factors[:, 1:] / factors[:, :1], axis=0)
    return Workspace(
        legal=np.zeros(a, np.int64),
        state=np.zeros(s),
        next_state=np.zeros(s),
        rollout_state=np.zeros(s),
        rollout_rows=np.zeros((2, s)),
        sample_state=np.zeros(s),
        costs=np.zeros(m),
        path_costs=np.zeros(m),
        rollout_costs=np.zeros(m),
        spent=np.zeros(m),
        cost_scale=np.ones(m),
        floor=np.zeros(m),
        floors=np.zeros(a * m),
        least=np.zeros(m),
        overrun=np.zeros(a),
        doubt=np.zeros(a),
        features=inputs[:feature_count],
        inputs=inputs,
        memo=memo(s, a * m if outputs is None else outputs),
        scratch=np.zeros((4, width), np.float32),
        discounts=discounts[:, 0].copy(),
        cost_discounts=discounts[:, 1:].copy(),
        price_growth=np.minimum(growth, LARGEST_GROWTH),
        prices=np.zeros(m),
        path_nodes=np.zeros(horizon + 1, np.int64),
        path_actions=np.zeros(horizon + 1, np.int64),
        path_rewards=np.zeros(horizon + 1),
        path_step_costs=np.zeros((horizon + 1, m)),
        fault=np.zeros(3 + s + m),
    )
