"""What a kernel notes when a model or a critic breaks its contract: the first time, with all that an error should say.

Kernels raise nothing. They note the fault, end the search, and judge the action at hand unsafe; `session.py` turns the
note into a `ModelError`. What can go wrong inside a user's own function (an index out of range, a division by zero) is
raised there by Numba, because users' functions are compiled with bounds checked.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import entry_point
from cmcts.compilation.content import inner_kernel as kernel
from cmcts.errors import shown
from cmcts.model.interface import Model

# Not Python's integers: each of these is a type of its own to Numba, and `note_fault` would compile for every kind.
STEP, COUNT, ACTION, ROLLOUT_ACTION, EXPECTED_COSTS, FEATURES, CRITIC, VALUES = (np.int64(kind) for kind in range(1, 9))


@entry_point  # not inlined: it is called once, and from many places
def note_fault(kind, state, action, value, costs, fault):
    """Keep the first fault: what broke, in which state, by which action, and the numbers."""
    if fault[0] == 0.0:
        size = state.shape[0]
        fault[0] = kind
        for k in range(size):
            fault[1 + k] = state[k]
        fault[1 + size] = action
        fault[2 + size] = value
        for m in range(costs.shape[0]):
            fault[3 + size + m] = costs[m]


@kernel
def is_finite(values):
    """Whether a model may be asked about this state, or a critic about these features."""
    finite = True
    for k in range(values.shape[0]):
        finite &= math.isfinite(values[k])
    return finite


@entry_point
def count_legal_actions(model, params, state, work):
    """How many legal actions `state` has, after writing them to `work.legal`; 0 and a fault if they cannot be."""
    count = model.legal_actions(params, state, work.legal)
    actions = work.legal.shape[0]
    if not 0 < count <= actions:
        note_fault(COUNT, state, 0, count, work.costs, work.fault)
        return 0
    for k in range(count):
        if not 0 <= work.legal[k] < actions:
            note_fault(ACTION, state, 0, work.legal[k], work.costs, work.fault)
            return 0
    return count


def fault_message(model: Model, fault: NDArray[np.float64]) -> str:
    """What a noted fault says, in words: [1 + state_size + 2 + cost_count] numbers."""
    size = model.state_size
    kind, state = np.int64(fault[0]), shown(fault[1 : 1 + size])
    action, value, costs = int(fault[1 + size]), float(fault[2 + size]), fault[3 + size :].tolist()
    name = model.action_name(action) if 0 <= action < model.action_count else str(action)
    actions = f"from 0 to {model.action_count - 1}"
    who, where = f"model {model.name!r}", f"in state {state}"
    messages = {
        STEP: f"expected {who} to return a finite reward, finite costs >= 0 and a finite next state, got reward "
        f"{value} and costs {costs} for action {name} {where}",
        COUNT: f"expected legal_actions of {who} to write 1 to {model.action_count} actions and return how many, got "
        f"{value:.0f} {where}",
        ACTION: f"expected legal_actions of {who} to write actions {actions}, got {value:.0f} {where}",
        ROLLOUT_ACTION: f"expected rollout_action of {who} to return an action {actions}, got {value:.0f} {where}",
        EXPECTED_COSTS: f"expected expected_costs of {who} to be finite and >= 0, got {costs} for action {name} "
        f"{where}",
        FEATURES: f"expected finite features from {who}, got NaN or infinity {where}",
        CRITIC: f"expected finite predictions from the critic of {who}, got mean {value} for action {name} {where}: it "
        "can judge no action safe",
        VALUES: f"expected finite leaf values for {who}, got reward {value} and costs {costs} to go {where}",
    }
    return messages[kind]


@kernel
def take_step(model, params, state, action, rng, next_state, time, account, work):
    """`model.step`, its costs charged to `account` as those of step `time`; what cannot be is noted as a fault."""
    reward, terminal = model.step(params, state, action, rng, next_state, work.costs)
    possible = math.isfinite(reward)
    for m in range(account.shape[0]):
        possible = possible and 0.0 <= work.costs[m] < math.inf
        account[m] += work.cost_discounts[time, m] * work.costs[m]
    if not possible:
        note_fault(STEP, state, action, reward, work.costs, work.fault)
    return reward, terminal
