"""The search: select, expand, rollout, backup, over one preallocated tree. All planners but one run this code.

A simulation walks down from the root by UCT (`select`), adds the first state it has not seen and opens its actions
(`expand`, where the safety critic prunes), plays on from there by a quick policy (`rollout`), and averages the
discounted reward and costs into every action on the path (`backup`). Actions may have several outcomes: a child is
found by its state, and the reward and costs that are backed up are those that were sampled.

Kernels allocate nothing and raise nothing. Python validates before, and turns a noted fault (faults.py) into an error
after.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cmcts.compilation.content import entry_point
from cmcts.compilation.content import inner_kernel as kernel
from cmcts.random import below, next_uint64, stratify
from cmcts.search.clock import first_stride, look, next_stride
from cmcts.search.faults import (
    FEATURES,
    STEP,
    count_legal_actions,
    is_finite,
    note_fault,
    take_step,
)
from cmcts.search.pruning import (
    charge_expected,
    doubt_root,
    find_floors,
    least_charges,
    prune,
    settle,
)
from cmcts.search.rollouts import rollout
from cmcts.search.tree import ILLEGAL, NO_NODE, ROOT, add_node, find_child
from cmcts.search.values import read_values
from cmcts.search.workspace import remembered


class Rules(NamedTuple):
    """All settings a kernel needs, as plain numbers: planners differ only in these."""

    discount: float  # of the reward; those of the costs are in the workspace
    exploration: float
    relative_exploration: bool  # in units of a node's own spread of returns, else of reward
    horizon: int
    own_rollout: bool  # follow the model's rollout_action, else uniform over the legal actions
    thrifty_rollout: bool  # rollouts refuse steps that exceed what is left of the budget
    guarded_rollout: bool  # thrifty, and rollouts refuse steps that the critic finds unsafe
    rollouts: int  # a leaf
    stratified: bool  # spread the outcomes of an action evenly over its visits
    widening_factor: float  # outcomes of an action visited n times are at most factor * n^power; 0: no limit
    widening_power: float
    has_expected_costs: bool
    cost_samples: int
    use_critic: bool
    remember_critic: bool  # what it said of a state is looked up where the state comes up again
    sigma_max: float
    tolerance: float
    cost_floor: bool
    refuse_unsure: bool  # what the critic is unsure of is unsafe, else only its floor counts
    fallback: int
    expected_accounting: bool  # C_path charges what the critic expected, not what was paid
    tune_multipliers: bool  # CC-MCP: move the multipliers after every simulation
    reward_scale: float  # multipliers move in units of it, a cost scale
    multiplier_max: float
    leaf_values: bool  # they have the critic's place, or share it, and are read before a leaf is rolled out
    value_doubt: float  # it is rolled out where their members disagree by more, in units of reward


@kernel
def plant(tree, state, rules, work, rng):
    """Begin a search: the tree is its root alone."""
    tree.count[0] = 0
    tree.peak_depth[0] = 0
    for m in range(work.costs.shape[0]):
        work.costs[m] = 0.0
    add_node(tree, state, NO_NODE, 0, 0, False, 0.0, work.costs, work.costs)
    draw_salt(tree, rules, rng)
    work.fault[0] = 0.0


@kernel
def draw_salt(tree, rules, rng):
    """Spread outcomes unlike every other search."""
    tree.salt[0] = next_uint64(rng) if rules.stratified else np.uint64(0)


@kernel
def scalarised(tree, node, action, prices):
    """The penalised value Q_R(s, a) - sum_m lambda_m Q_C,m(s, a), at prices lambda of the node's own time."""
    value = tree.reward_values[node, action]
    constraints = prices.shape[0]
    for m in range(constraints):
        value -= prices[m] * tree.cost_values[node, action * constraints + m]
    return value


@kernel
def note_return(tree, node, depth, value, multipliers, work):
    """Count a penalised return from `node` on, of `value` and `work.rollout_costs`, into its mean and variance."""
    for m in range(multipliers.shape[0]):
        value -= multipliers[m] * work.price_growth[depth, m] * work.rollout_costs[m]
    gap = value - tree.return_mean[node]
    tree.return_mean[node] += gap / tree.visits[node]
    tree.return_squares[node] += gap * (value - tree.return_mean[node])


@kernel
def spread(tree, node):
    """The standard deviation of the returns seen from `node`; 1 if all were alike, for then any width will do."""
    squares = tree.return_squares[node]
    return math.sqrt(squares / tree.visits[node]) if squares > 0.0 else 1.0


@kernel
def untried_action(tree, node, rng):
    """A random one of the actions that were never tried, or NO_NODE."""
    actions = tree.action_visits.shape[1]
    untried = 0
    for action in range(actions):
        if tree.action_visits[node, action] == 0:
            untried += 1
    if untried > 0:
        skip = below(rng, untried)
        for action in range(actions):
            if tree.action_visits[node, action] == 0:
                if skip == 0:
                    return action
                skip -= 1
    return NO_NODE


@kernel
def uct_action(tree, node, prices, rules, rng):
    """The action to descend by: an untried one at random, else the one with the largest score.

    With an absolute k that is UCT's, Q_lambda + k sqrt(log(N + 1) / n). With a relative one it is
    Q_lambda + k sigma sqrt(sqrt(N + 1) / n), where sigma is the standard deviation of the returns seen from this node.
    """
    actions = tree.action_visits.shape[1]
    untried = untried_action(tree, node, rng)
    if untried != NO_NODE:
        return untried
    if rules.relative_exploration:
        width, growth = rules.exploration * spread(tree, node), math.sqrt(tree.visits[node] + 1.0)
    else:
        width, growth = rules.exploration, math.log(tree.visits[node] + 1.0)
    best, best_score = 0, -math.inf
    for action in range(actions):
        visits = tree.action_visits[node, action]
        if visits > 0:
            score = scalarised(tree, node, action, prices) + width * math.sqrt(growth / visits)
            if score > best_score:
                best, best_score = action, score
    return best


@kernel
def outcomes_are_full(tree, node, action, rules):
    """Progressive widening: whether (node, action) already has as many outcomes as its visits allow."""
    outcomes = 0
    child = tree.first_child[node, action]
    while child != NO_NODE:
        outcomes += 1
        child = tree.next_sibling[child]
    visits = tree.action_visits[node, action]
    return outcomes > 0 and outcomes >= rules.widening_factor * max(visits, 1) ** rules.widening_power


@kernel
def revisited_child(tree, node, action, rng):
    """One of the known outcomes of (node, action), in proportion to its visits."""
    total = 0
    child = tree.first_child[node, action]
    while child != NO_NODE:
        total += tree.visits[child]
        child = tree.next_sibling[child]
    skip = below(rng, total)
    child = tree.first_child[node, action]
    while skip >= tree.visits[child]:
        skip -= tree.visits[child]
        child = tree.next_sibling[child]
    return child


@kernel
def follow(model, params, tree, node, action, depth, rules, work, rng):
    """Take `action` in `node`, as step number `depth` of a simulation, to an outcome that is known or new.

    Leaves the step on the path, and where it led in `work.state`. Returns the outcome's node, which is NO_NODE if it is
    new and the tree is full, and whether the episode ends there.
    """
    constraints = work.costs.shape[0]
    work.path_nodes[depth] = node
    work.path_actions[depth] = action
    if rules.widening_factor > 0.0 and outcomes_are_full(tree, node, action, rules):
        child = revisited_child(tree, node, action, rng)
        reward, terminal = tree.reward[child], tree.terminal[child]
        for k in range(work.state.shape[0]):
            work.state[k] = tree.states[child, k]
        for m in range(constraints):
            work.costs[m] = tree.costs[child, m]
            work.path_costs[m] += work.cost_discounts[depth, m] * work.costs[m]
    else:
        stream = rng[0]
        if rules.stratified:
            series = node * tree.action_visits.shape[1] + action
            stratify(rng, tree.salt[0], series, tree.action_visits[node, action])
        reward, terminal = take_step(
            model, params, tree.states[node], action, rng, work.state, depth, work.path_costs, work
        )
        if rules.stratified:
            rng[0] = stream
        child = find_child(tree, node, action, work.state, terminal)
    work.path_rewards[depth] = reward
    for m in range(constraints):
        work.path_step_costs[depth, m] = work.costs[m]
    if child == NO_NODE:
        if not is_finite(work.state):
            note_fault(STEP, tree.states[node], action, reward, work.costs, work.fault)
            terminal = True
        if tree.count[0] < tree.parent.shape[0]:
            child = add_node(tree, work.state, node, action, depth + 1, terminal, reward, work.costs, work.path_costs)
    return child, terminal


@kernel
def start_at_root(tree, work):
    """Begin a simulation: nothing is spent, and the root's state is in `work.state`."""
    for m in range(work.costs.shape[0]):
        work.path_costs[m] = 0.0
    for k in range(work.state.shape[0]):
        work.state[k] = tree.states[ROOT, k]


@kernel
def select(model, params, tree, multipliers, rules, work, rng):
    """SELECTION. Walk down to a node that is not expanded; it may be new, terminal or at the horizon.

    Leaves the path, the leaf's state and its C_path in `work`. Returns (leaf, depth); the leaf is NO_NODE when the tree
    is full, and its state then lives in `work.state` alone.
    """
    node, depth = np.int64(ROOT), 0  # a bare constant has a type of its own: what is called below would compile twice
    terminal = tree.terminal[ROOT]
    start_at_root(tree, work)
    while node != NO_NODE and tree.expanded[node] and depth < rules.horizon:
        for m in range(work.costs.shape[0]):
            work.prices[m] = multipliers[m] * work.price_growth[depth, m]
        action = uct_action(tree, node, work.prices, rules, rng)
        node, terminal = follow(model, params, tree, node, action, depth, rules, work, rng)
        depth += 1
    return node, depth, terminal


@kernel
def expand(model, params, critic, critic_params, tree, node, budget, rules, work, rng):
    """EXPANSION (Algorithm 1, lines 6 to 11). Open the legal actions of `node` and prune the unsafe ones."""
    actions = tree.action_visits.shape[1]
    constraints = budget.shape[0]
    for action in range(actions):
        tree.action_visits[node, action] = ILLEGAL
    count = count_legal_actions(model, params, tree.states[node], work)
    for k in range(count):
        action = work.legal[k]
        tree.action_visits[node, action] = 0
        tree.first_child[node, action] = NO_NODE
        tree.reward_values[node, action] = 0.0
        for m in range(constraints):
            tree.cost_values[node, action * constraints + m] = 0.0
    tree.expanded[node] = count > 0
    if rules.use_critic and count > 0:
        if rules.remember_critic:
            slot = remembered(model, params, critic, critic_params, tree.states[node], work)
            for k in range(actions * constraints):
                tree.critic_mean[node, k] = work.memo.mean[slot, k]
                tree.critic_sigma[node, k] = work.memo.sigma[slot, k]
        else:
            model.features(params, tree.states[node], work.features)
            if not is_finite(work.features):
                note_fault(FEATURES, tree.states[node], 0, 0.0, work.costs, work.fault)
            critic.predict(critic_params, work.inputs, work.scratch, tree.critic_mean[node], tree.critic_sigma[node])
        if node == ROOT:
            doubt_root(tree, work)
        find_floors(model, params, tree.states[node], count, rules, work, rng)
        if rules.expected_accounting:
            charge_expected(tree, node, count, rules, work)
        prune(tree, node, count, budget, rules, work)


@kernel
def backup(tree, leaf, depth, value, multipliers, rules, work):
    """BACKPROPAGATION. Average the sampled return, V = r + gamma V, and each cost's, into the path's actions."""
    constraints = work.costs.shape[0]
    if leaf != NO_NODE and rules.relative_exploration:
        note_return(tree, leaf, depth, value, multipliers, work)
    for step in range(depth - 1, -1, -1):
        node, action = work.path_nodes[step], work.path_actions[step]
        visits = tree.action_visits[node, action] + 1
        tree.action_visits[node, action] = visits
        tree.visits[node] += 1
        value = work.path_rewards[step] + rules.discount * value
        tree.reward_values[node, action] += (value - tree.reward_values[node, action]) / visits
        for m in range(constraints):
            work.rollout_costs[m] = work.path_step_costs[step, m] + work.cost_discounts[1, m] * work.rollout_costs[m]
            column = action * constraints + m
            tree.cost_values[node, column] += (work.rollout_costs[m] - tree.cost_values[node, column]) / visits
        if rules.relative_exploration:
            note_return(tree, node, step, value, multipliers, work)


@kernel
def greedy_root_action(tree, multipliers):
    """The visited root action with the largest penalised value, or NO_NODE."""
    best, best_value = NO_NODE, -math.inf
    for action in range(tree.action_visits.shape[1]):
        if tree.action_visits[ROOT, action] > 0:
            value = scalarised(tree, ROOT, action, multipliers)
            if value > best_value:
                best, best_value = action, value
    return best


@kernel
def tune_multipliers(tree, budget, multipliers, iteration, rules, work):
    """CC-MCP's dual step: lambda += g / max_m |g_m| / (i + 1), clipped, with g = Q_C(root, greedy action) - c_hat.

    With one constraint that is lambda += sign(g) / (i + 1). The signs of several, each by itself, would not do:
    two actions with gaps (+, -) and (-, +) then balance wherever their values tie, at the wrong multipliers. Gaps are
    in units of the cost scale, and lambda in units of the reward scale a cost scale.
    """
    greedy = greedy_root_action(tree, multipliers)
    if greedy == NO_NODE:
        return
    constraints = budget.shape[0]
    largest = 0.0
    for m in range(constraints):
        gap = (tree.cost_values[ROOT, greedy * constraints + m] - budget[m]) / work.cost_scale[m]
        largest = max(largest, abs(gap))
    if largest == 0.0:
        return
    for m in range(constraints):
        gap = (tree.cost_values[ROOT, greedy * constraints + m] - budget[m]) / work.cost_scale[m]
        moved = multipliers[m] * work.cost_scale[m] / rules.reward_scale + gap / largest / (iteration + 1.0)
        multipliers[m] = min(rules.multiplier_max, max(0.0, moved)) / work.cost_scale[m] * rules.reward_scale


@kernel
def simulate(model, params, critic, critic_params, tree, budget, multipliers, rules, work, rng):
    """One iteration of Algorithm 1."""
    leaf, depth, terminal = select(model, params, tree, multipliers, rules, work, rng)
    value = 0.0
    for m in range(budget.shape[0]):
        work.rollout_costs[m] = 0.0
    if leaf != NO_NODE:
        # Inner nodes are counted by their actions' backups.
        tree.visits[leaf] += 1
        if not terminal and depth < rules.horizon:
            expand(model, params, critic, critic_params, tree, leaf, budget, rules, work, rng)
    elif rules.use_critic and rules.expected_accounting and not terminal and depth < rules.horizon:
        # The tree is full: the leaf is charged as if it had been added.
        least_charges(model, params, critic, critic_params, work.state, rules, work, rng)
        settle(tree, work.path_nodes[depth - 1], work.path_actions[depth - 1], work)
    rollouts = 0 if terminal else rules.rollouts
    shares = rollouts
    if rules.leaf_values and not terminal:
        value, sure = read_values(model, params, critic, critic_params, multipliers, rules, work)
        if sure or depth >= rules.horizon:
            rollouts = 0
        else:  # half is what they say, and half what rollouts return
            shares = 2 * rollouts
            value *= 0.5
            for m in range(budget.shape[0]):
                work.rollout_costs[m] *= 0.5
    for _ in range(rollouts):
        returned = rollout(model, params, critic, critic_params, depth, budget, rules, work, rng)
        value += returned / shares
        for m in range(budget.shape[0]):
            work.rollout_costs[m] += work.spent[m] / shares
    backup(tree, leaf, depth, value, multipliers, rules, work)


@entry_point
def run(model, params, critic, critic_params, tree, budget, multipliers, rules, work, rng, begin, end):
    """Simulations number `begin` to `end` of a search; stops early at the first fault in `work.fault`."""
    for iteration in range(begin, end):
        simulate(model, params, critic, critic_params, tree, budget, multipliers, rules, work, rng)
        if work.fault[0] != 0.0:
            return
        if rules.tune_multipliers:
            tune_multipliers(tree, budget, multipliers, iteration, rules, work)


@entry_point
def run_until(model, params, critic, critic_params, tree, budget, multipliers, rules, work, rng, begin, end, limit):
    """The same, until the clock says that time is up; returns how many simulations were done."""
    done, stride, last = begin, first_stride(limit, end - begin), np.int64(0)
    while done < end and work.fault[0] == 0.0 and last < limit.end:
        upto = min(done + stride, end)
        run(model, params, critic, critic_params, tree, budget, multipliers, rules, work, rng, done, upto)
        done, before = upto, last
        last = look(limit)
        stride = next_stride(stride, last - before)
    return done - begin
