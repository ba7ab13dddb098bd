"""SIMULATION: how a search plays on from a leaf to see what it is worth.

A rollout follows the model's own policy, or plays at random. A thrifty one refuses what exceeds the rest of the budget,
a guarded one also what the critic finds unsafe, and a frugal one always takes what costs least.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from cmcts.compilation.content import entry_point
from cmcts.compilation.content import inner_kernel as kernel
from cmcts.compilation.gpu import on_gpu
from cmcts.random import below
from cmcts.search.faults import (
    ACTION,
    COUNT,
    CRITIC,
    ROLLOUT_ACTION,
    STEP,
    count_legal_actions,
    is_finite,
    note_fault,
    take_step,
)
from cmcts.search.pruning import ROUNDING, immediate_costs, lowered, refused
from cmcts.search.tree import NO_NODE
from cmcts.search.workspace import remembered


@kernel
def overrun(model, params, state, action, slot, leaf_depth, time, budget, rules, work, rng):
    """By how much step number `time` of a rollout exceeds what is left after C_path and `work.spent`.

    In units of the cost scale, for the constraint that it exceeds most; at most 0 if it can be paid for. The step's
    cost is what is expected now, or what the critic expects it to cost in the end if rollouts are guarded.
    """
    immediate_costs(model, params, state, action, rules, rng, work.sample_state, work.costs, work.floor, work.fault)
    constraints = budget.shape[0]
    worst = -math.inf
    for m in range(constraints):
        prediction = work.floor[m]
        if rules.guarded_rollout:
            mean = np.float64(work.memo.mean[slot, action * constraints + m])
            sigma = np.float64(work.memo.sigma[slot, action * constraints + m])
            prediction = lowered(mean, sigma, prediction, work.cost_scale[m], rules)
            if prediction == math.inf:
                note_fault(CRITIC, state, action, mean, work.costs, work.fault)
            if refused(sigma, work.cost_scale[m], rules):
                worst = max(worst, sigma / work.cost_scale[m])
        ahead = work.spent[m] + work.cost_discounts[time, m] * prediction
        total = work.path_costs[m] + work.cost_discounts[leaf_depth, m] * ahead
        worst = max(worst, (total - budget[m]) / work.cost_scale[m])
    return worst


@entry_point  # not inlined: it is large, and rollouts that do not need it are faster without it
def thrifty_action(model, params, critic, critic_params, state, leaf_depth, time, budget, rules, work, rng):
    """The rollout policy's action if it is affordable, else a random one that is, else the least unaffordable one.

    A rollout that stopped where nothing is affordable would value the rest at 0: where steps cost reward, dead ends
    would be attractive.
    """
    slot = 0
    if rules.guarded_rollout:
        slot = remembered(model, params, critic, critic_params, state, work)
    count = -1  # not asked for yet
    best, least = NO_NODE, math.inf
    first = rules.own_rollout  # its guess is looked at first, the others in random order
    while first or count != 0:
        if first:
            action = model.rollout_action(params, state, rng)
            if not 0 <= action < work.legal.shape[0]:
                note_fault(ROLLOUT_ACTION, state, 0, action, work.costs, work.fault)
                return NO_NODE
            first = False
        else:
            if count < 0:
                count = count_legal_actions(model, params, state, work)
                if count == 0:
                    break
            pick = below(rng, count)
            action = work.legal[pick]
            count -= 1
            work.legal[pick] = work.legal[count]
        over = overrun(model, params, state, action, slot, leaf_depth, time, budget, rules, work, rng)
        if over <= ROUNDING:
            return action
        if over < least - ROUNDING:
            best, least = action, over
    return best


@register_jitable(_nrt=False, forceinline=True)
def in_turn(array, rows, turn):
    """A state of a rollout. On the CPU it is `array`: two of them change places. In a tuple, for numba-cuda's sake."""
    return (array,)


@on_gpu(in_turn)
def _row_in_turn(array, rows, turn):
    """On a GPU it is one of two rows: the compiler then knows its size and place, and unrolls all loops over it."""
    return (rows[turn],)


@kernel
def rollout(model, params, critic, critic_params, leaf_depth, budget, rules, work, rng):
    """SIMULATION. The discounted reward of playing on from `work.state`; its discounted costs go to `work.spent`."""
    total = 0.0
    for m in range(budget.shape[0]):
        work.spent[m] = 0.0
    # Two buffers take turns as state and next state; `work.state` itself stays, for the next rollout of this leaf.
    this, other, rows, turn = work.rollout_state, work.next_state, work.rollout_rows, 0
    (first,) = in_turn(this, rows, turn)
    for k in range(first.shape[0]):
        first[k] = work.state[k]
    action, reward, actions = NO_NODE, 0.0, work.legal.shape[0]
    if not (rules.thrifty_rollout or rules.own_rollout):
        # Uniform rollouts are the longest: a loop of their own, without the tests below, makes them 3 % faster.
        for time in range(rules.horizon - leaf_depth):
            (state,), (next_state,) = in_turn(this, rows, turn), in_turn(other, rows, 1 - turn)
            count = model.legal_actions(params, state, work.legal)
            if not 0 < count <= actions:
                note_fault(COUNT, state, 0, count, work.costs, work.fault)
                break
            action = work.legal[below(rng, count)]
            if not 0 <= action < actions:
                note_fault(ACTION, state, 0, action, work.costs, work.fault)
                break
            reward, terminal = take_step(model, params, state, action, rng, next_state, time, work.spent, work)
            total += work.discounts[time] * reward
            this, other = other, this
            turn = 1 - turn
            if terminal:
                break
    else:
        for time in range(rules.horizon - leaf_depth):
            (state,), (next_state,) = in_turn(this, rows, turn), in_turn(other, rows, 1 - turn)
            if rules.thrifty_rollout:
                if not is_finite(state):
                    break
                action = thrifty_action(
                    model, params, critic, critic_params, state, leaf_depth, time, budget, rules, work, rng
                )
                if action == NO_NODE:
                    break
            else:
                action = model.rollout_action(params, state, rng)
                if not 0 <= action < actions:
                    note_fault(ROLLOUT_ACTION, state, 0, action, work.costs, work.fault)
                    break
            reward, terminal = take_step(model, params, state, action, rng, next_state, time, work.spent, work)
            total += work.discounts[time] * reward
            this, other = other, this
            turn = 1 - turn
            if terminal:
                break
    # Only the last state is looked at: what is not finite mostly stays so, and a look at every step costs 5 % of speed.
    (last,), (before,) = in_turn(this, rows, turn), in_turn(other, rows, 1 - turn)
    if not is_finite(last):
        note_fault(STEP, before, action, reward, work.costs, work.fault)
    return total


@kernel
def frugal_rollout(model, params, critic, critic_params, leaf_depth, rules, work, rng):
    """(cost, reward) of playing on from `work.state` by whatever costs least at once, or by the critic's word in all.

    Of equally cheap actions it takes the rollout policy's, else a random one. Steps are charged what they are expected
    to cost, if the model says that: small risks then show in every rollout.
    """
    returned = 0.0
    work.spent[0] = 0.0
    state, next_state = work.rollout_state, work.next_state
    for k in range(state.shape[0]):
        state[k] = work.state[k]
    for time in range(rules.horizon - leaf_depth):
        # The budget is what was paid on the way to the leaf: nothing is left.
        action = thrifty_action(
            model, params, critic, critic_params, state, leaf_depth, time, work.path_costs, rules, work, rng
        )
        if action == NO_NODE:
            break
        if rules.has_expected_costs:
            immediate_costs(
                model, params, state, action, rules, rng, work.sample_state, work.costs, work.floor, work.fault
            )
        reward, terminal = take_step(model, params, state, action, rng, next_state, time, work.least, work)
        paid = work.floor[0] if rules.has_expected_costs else work.costs[0]
        work.spent[0] += work.cost_discounts[time, 0] * paid
        returned += work.discounts[time] * reward
        if not is_finite(next_state):
            note_fault(STEP, state, action, reward, work.costs, work.fault)
            break
        state, next_state = next_state, state
        if terminal:
            break
    return work.spent[0], returned
