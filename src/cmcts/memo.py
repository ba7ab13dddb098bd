"""What the critic said of states seen lately: a small table, so that guarded rollouts need not ask it again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation import kernel


class Memo(NamedTuple):
    """A small table of critic outputs by state, kept from search to search; K slots, a newcomer evicts.

    Guarded rollouts ask the critic about every state they pass, and on small problems these are always the same.
    """

    key: NDArray[np.float64]  # [S] the state looked up
    bits: NDArray[np.uint64]  # [S] the same memory
    used: NDArray[np.bool_]  # [K]
    states: NDArray[np.float64]  # [K, S]
    mean: NDArray[np.float32]  # [K, A*M]
    sigma: NDArray[np.float32]  # [K, A*M]


MEMO_BITS = 10
_HASH_PRIME, _HASH_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - MEMO_BITS)


def memo(state_size: int, outputs: int) -> Memo:
    """An empty table."""
    key, slots = np.zeros(state_size), 1 << MEMO_BITS
    return Memo(
        key,
        key.view(np.uint64),
        np.zeros(slots, np.bool_),
        np.zeros((slots, state_size)),
        np.zeros((slots, outputs), np.float32),
        np.zeros((slots, outputs), np.float32),
    )


@kernel
def remembered(model, params, critic, critic_params, state, work):
    """The slot of `work.memo` with the critic's outputs for `state`, evaluated now if it is not there."""
    table = work.memo
    code = np.uint64(0)
    for k in range(state.shape[0]):
        table.key[k] = state[k]
        code = (code ^ table.bits[k]) * _HASH_PRIME
        code = code ^ (code >> np.uint64(29))
    slot = np.int64((code * _HASH_PRIME) >> _HASH_SHIFT)
    known = table.used[slot]
    for k in range(state.shape[0]):
        known = known and table.states[slot, k] == state[k]
    if not known:
        table.used[slot] = True
        for k in range(state.shape[0]):
            table.states[slot, k] = state[k]
        model.features(params, state, work.features)
        critic.predict(critic_params, work.features, work.scratch, table.mean[slot], table.sigma[slot])
    return slot
