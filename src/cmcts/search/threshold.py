"""Threshold UCT: a search whose nodes hold curves, and whose simulations carry a threshold down the tree.

A node's curve (curves.py) is what can be earned from it on for how much expected cost. An action's curve is the sum of
its outcomes' curves, weighted by how often they came; a node's curve is the upper hull of its actions'. A simulation
begins with the budget as its threshold. At every node it takes the action of the vertex at the threshold, or tosses a
coin between two, on curves that are moved up and left for what was seldom tried; and what the action may cost is handed
to its outcomes as the sum of their curves is made: where the next unit of cost earns most.

Kurecka, Nevyhosteny, Novotny and Uncovsky, "Threshold UCT" (AAAI 2025). Where this search differs from theirs, it is so
that no curve promises what nobody has seen:

- An action that was never tried has no curve. Nothing is assumed to be free.
- An action takes part in its node's curve once it was tried a number of times. Until one was, the curve is one vertex,
  the mean of what was paid and earned from the node on. The hull of single rollouts would be a curve of lucky ones.
- A curve is that of a node alone, without the step that led there, and has at most 32 vertices.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import entry_point
from cmcts.compilation.content import inner_kernel as kernel
from cmcts.random import below, uniform
from cmcts.search.clock import first_stride, look, next_stride
from cmcts.search.curves import (
    VERTICES,
    Chain,
    Curves,
    around,
    chain,
    curves,
    minkowski_sum,
    split,
    upper_hull,
    write_curve,
    write_point,
)
from cmcts.search.kernels import expand, follow, note_return, rollout, spread, start_at_root, untried_action
from cmcts.search.tree import ILLEGAL, NO_NODE, ROOT


class CurveTree(NamedTuple):
    """What a tree of N nodes has besides its `Tree`: curves of K vertices, and scratch memory to merge them in."""

    nodes: Curves  # [N]
    actions: NDArray[np.int32]  # [N, K] the action that a vertex of a node's curve begins with
    edges: Curves  # [N] of actions that were tried; an action's row is the number of its oldest outcome
    edge_rows: NDArray[np.int32]  # [N, A] or NO_NODE
    step_costs: NDArray[np.float64]  # [N] mean cost of the steps that led here
    step_rewards: NDArray[np.float64]  # [N]
    cost_mean: NDArray[np.float64]  # [N] of the costs seen from here on
    cost_squares: NDArray[np.float64]  # [N] sum of their squared distances from the mean
    outcomes: NDArray[np.int32]  # [N] those of one action whose curves have several vertices
    weights: NDArray[np.float64]  # [N] their shares of the action's visits
    cursors: NDArray[np.int32]  # [N]
    slopes: NDArray[np.float64]  # [N]
    shares: NDArray[np.float64]  # [N] the thresholds that they get
    tried: NDArray[np.int32]  # [A] actions whose curves are merged
    rows: NDArray[np.int32]  # [A] their rows
    cost_shifts: NDArray[np.float64]  # [A] how far curves are moved to the left
    reward_shifts: NDArray[np.float64]  # [A] and up
    action_cursors: NDArray[np.int32]  # [A]
    made: Chain  # the curve that was merged last


def curve_tree(nodes: int, action_count: int, vertices: int = VERTICES) -> CurveTree:
    """Room for the curves of so many nodes; memory is touched only as nodes are added."""
    n, a = nodes, action_count
    return CurveTree(
        nodes=curves(n, vertices),
        actions=np.empty((n, vertices), np.int32),
        edges=curves(n, vertices),
        edge_rows=np.empty((n, a), np.int32),
        step_costs=np.empty(n),
        step_rewards=np.empty(n),
        cost_mean=np.empty(n),
        cost_squares=np.empty(n),
        outcomes=np.empty(n, np.int32),
        weights=np.empty(n),
        cursors=np.empty(n, np.int32),
        slopes=np.empty(n),
        shares=np.empty(n),
        tried=np.zeros(a, np.int32),
        rows=np.zeros(a, np.int32),
        cost_shifts=np.zeros(a),
        reward_shifts=np.zeros(a),
        action_cursors=np.zeros(a, np.int32),
        made=chain(vertices),
    )


@kernel
def open_node(curved, node):
    """Begin a node that was just added: nothing was seen of it."""
    curved.step_costs[node] = 0.0
    curved.step_rewards[node] = 0.0
    curved.cost_mean[node] = 0.0
    curved.cost_squares[node] = 0.0
    for action in range(curved.edge_rows.shape[1]):
        curved.edge_rows[node, action] = NO_NODE


@kernel
def gather_outcomes(tree, curved, node, action, rules, work):
    """The outcomes of an action as the curves of a sum: (how many have several vertices, cost and reward at the least).

    Outcomes that found no room in a full tree stand at what was seen of the action on average.
    """
    visits, known, count = tree.action_visits[node, action], 0, 0
    cost, reward = 0.0, 0.0
    child = tree.first_child[node, action]
    while child != NO_NODE:
        weight = tree.visits[child] / visits
        known += tree.visits[child]
        cost += weight * (curved.step_costs[child] + work.cost_discounts[1, 0] * curved.nodes.costs[child, 0])
        reward += weight * (curved.step_rewards[child] + rules.discount * curved.nodes.rewards[child, 0])
        if curved.nodes.sizes[child] > 1:
            curved.outcomes[count] = child
            curved.weights[count] = weight
            count += 1
        child = tree.next_sibling[child]
    if known < visits:
        weight = (visits - known) / visits
        cost += weight * tree.cost_values[node, action]
        reward += weight * tree.reward_values[node, action]
    return count, cost, reward


@kernel
def merge_outcomes(tree, curved, node, action, rules, work):
    """An action's curve anew, from its outcomes'; an action without a row has none in the tree."""
    row = curved.edge_rows[node, action]
    if row == NO_NODE:
        return
    count, cost, reward = gather_outcomes(tree, curved, node, action, rules, work)
    size = minkowski_sum(
        curved.nodes,
        curved.outcomes,
        curved.weights,
        count,
        cost,
        reward,
        work.cost_discounts[1, 0],
        rules.discount,
        curved.cursors,
        curved.slopes,
        curved.made,
    )
    write_curve(curved.edges, row, curved.made, size)


@kernel
def merge_actions(tree, curved, node, least, cost_width, reward_width, growth):
    """The hull of the curves of a node's actions, each moved by a width times sqrt(growth / visits).

    Actions of fewer than `least` visits take no part. The hull is left in `curved.made`, with numbers among
    `curved.tried` as labels. Returns its size, 0 if no action takes part.
    """
    count = 0
    for action in range(tree.action_visits.shape[1]):
        visits = tree.action_visits[node, action]
        if visits >= least and curved.edge_rows[node, action] != NO_NODE:
            width = math.sqrt(growth / visits)
            curved.tried[count] = action
            curved.rows[count] = curved.edge_rows[node, action]
            curved.cost_shifts[count] = cost_width * width
            curved.reward_shifts[count] = reward_width * width
            count += 1
    return upper_hull(
        curved.edges,
        curved.rows,
        count,
        curved.cost_shifts,
        curved.reward_shifts,
        curved.action_cursors,
        curved.made,
    )


@kernel
def cost_spread(tree, curved, node):
    """The standard deviation of the costs seen from `node`; 1 if all were alike, for then any width will do."""
    squares = curved.cost_squares[node]
    return math.sqrt(squares / tree.visits[node]) if squares > 0.0 else 1.0


@kernel
def threshold_action(tree, curved, node, threshold, rules, work, rng):
    """The action to descend by, and what it may cost: an untried one at random, else that of the hull at the threshold.

    The widths of `uct_action`, in units of cost as well as of reward: what was seldom tried may be cheaper and better.
    """
    untried = untried_action(tree, node, rng)
    if untried != NO_NODE:
        return untried, threshold
    if rules.relative_exploration:
        reward_width = rules.exploration * spread(tree, node)
        cost_width = rules.exploration * cost_spread(tree, curved, node)
        growth = math.sqrt(tree.visits[node] + 1.0)
    else:
        reward_width = rules.exploration
        cost_width = rules.exploration / rules.reward_scale * work.cost_scale[0]
        growth = math.log(tree.visits[node] + 1.0)
    size = merge_actions(tree, curved, node, 1, cost_width, reward_width, growth)
    if size == 0:
        return any_action(tree, node, rng), threshold
    low, high, chance = around(curved.made.costs, size, threshold)
    cheaper, dearer = curved.tried[curved.made.labels[low]], curved.tried[curved.made.labels[high]]
    if cheaper == dearer or chance == 0.0:
        return cheaper, threshold
    if uniform(rng) < chance:
        return dearer, curved.made.costs[high]
    return cheaper, curved.made.costs[low]


@kernel
def any_action(tree, node, rng):
    """A random legal action: the tree was full before any of them had an outcome in it."""
    legal = 0
    for action in range(tree.action_visits.shape[1]):
        if tree.action_visits[node, action] != ILLEGAL:
            legal += 1
    skip = below(rng, legal)
    for action in range(tree.action_visits.shape[1]):
        if tree.action_visits[node, action] != ILLEGAL:
            if skip == 0:
                return action
            skip -= 1
    return NO_NODE


@kernel
def hand_over(tree, curved, node, action, limit, rules, work):
    """Divide what an action may cost, `limit`, among its outcomes; returns what each gets beyond its share.

    The thresholds of the first outcomes are in `curved.shares`, as many as the second number returned; every other
    outcome has one vertex, and its cost is its share. What exceeds the dearest vertex, or is lacking to the cheapest,
    goes to all outcomes alike. So the limit is what they cost on average: E[c + gamma b'] = limit.
    """
    discount = work.cost_discounts[1, 0]
    count, cost, _ = gather_outcomes(tree, curved, node, action, rules, work)
    over = split(
        curved.nodes,
        curved.outcomes,
        curved.weights,
        count,
        limit - cost,
        discount,
        curved.cursors,
        curved.slopes,
        curved.shares,
    )
    return over / discount, count


@kernel
def share_of(curved, child, count):
    """The share of one outcome, after `hand_over`."""
    for n in range(count):
        if curved.outcomes[n] == child:
            return curved.shares[n]
    return curved.nodes.costs[child, 0]


@kernel
def select(model, params, tree, curved, budget, rules, work, rng):
    """SELECTION. Walk down to a node that is not expanded, with a threshold that begins as the budget."""
    node, depth, threshold = np.int64(ROOT), 0, budget[0]
    terminal = tree.terminal[ROOT]
    start_at_root(tree, work)
    while node != NO_NODE and tree.expanded[node] and depth < rules.horizon:
        action, limit = threshold_action(tree, curved, node, threshold, rules, work, rng)
        child, terminal = follow(model, params, tree, node, action, depth, rules, work, rng)
        if child != NO_NODE and tree.expanded[child]:
            over, count = hand_over(tree, curved, node, action, limit, rules, work)
            threshold = share_of(curved, child, count) + over
        node = child
        depth += 1
    return node, depth, terminal


@kernel
def note_seen(tree, curved, node, depth, value, cost, multipliers, work):
    """Count what was earned and paid from `node` on into its means and spreads."""
    note_return(tree, node, depth, value, multipliers, work)
    gap = cost - curved.cost_mean[node]
    curved.cost_mean[node] += gap / tree.visits[node]
    curved.cost_squares[node] += gap * (cost - curved.cost_mean[node])


@kernel
def bend(tree, curved, node, tries):
    """A node's curve anew: the hull of its actions' curves, or the mean while no action was tried often enough.

    The root has to choose, and takes what there is.
    """
    size = merge_actions(tree, curved, node, tries, 0.0, 0.0, 0.0)
    if size == 0 and node == ROOT:
        size = merge_actions(tree, curved, node, 1, 0.0, 0.0, 0.0)
    if size == 0:
        write_point(curved.nodes, node, curved.cost_mean[node], tree.return_mean[node])
        return
    write_curve(curved.nodes, node, curved.made, size)
    for k in range(size):
        curved.actions[node, k] = curved.tried[curved.made.labels[k]]


@kernel
def backup(tree, curved, leaf, depth, value, multipliers, tries, rules, work):
    """BACKPROPAGATION. Count what was sampled into every node of the path, and merge its curves anew."""
    cost, child = work.rollout_costs[0], leaf
    if leaf != NO_NODE:
        note_seen(tree, curved, leaf, depth, value, cost, multipliers, work)
        write_point(curved.nodes, leaf, curved.cost_mean[leaf], tree.return_mean[leaf])
    for step in range(depth - 1, -1, -1):
        node, action = work.path_nodes[step], work.path_actions[step]
        reward, paid = work.path_rewards[step], work.path_step_costs[step, 0]
        tree.visits[node] += 1
        visits = tree.action_visits[node, action] + 1
        tree.action_visits[node, action] = visits
        value = reward + rules.discount * value
        cost = paid + work.cost_discounts[1, 0] * cost
        tree.reward_values[node, action] += (value - tree.reward_values[node, action]) / visits
        tree.cost_values[node, action] += (cost - tree.cost_values[node, action]) / visits
        if child != NO_NODE:
            seen = tree.visits[child]
            curved.step_rewards[child] += (reward - curved.step_rewards[child]) / seen
            curved.step_costs[child] += (paid - curved.step_costs[child]) / seen
            if curved.edge_rows[node, action] == NO_NODE:
                curved.edge_rows[node, action] = child
        merge_outcomes(tree, curved, node, action, rules, work)
        note_seen(tree, curved, node, step, value, cost, multipliers, work)
        bend(tree, curved, node, tries)
        child = node


@kernel
def simulate(model, params, critic, critic_params, tree, curved, budget, multipliers, tries, rules, work, rng):
    """One simulation: down by thresholds, a rollout, and up by curves."""
    leaf, depth, terminal = select(model, params, tree, curved, budget, rules, work, rng)
    value = 0.0
    work.rollout_costs[0] = 0.0
    if leaf != NO_NODE:
        if tree.visits[leaf] == 0:
            open_node(curved, leaf)
        tree.visits[leaf] += 1
        if not terminal and depth < rules.horizon:
            expand(model, params, critic, critic_params, tree, leaf, budget, rules, work, rng)
    if not terminal:
        for _ in range(rules.rollouts):
            returned = rollout(model, params, critic, critic_params, depth, budget, rules, work, rng)
            value += returned / rules.rollouts
            work.rollout_costs[0] += work.spent[0] / rules.rollouts
    if work.fault[0] == 0.0:
        backup(tree, curved, leaf, depth, value, multipliers, tries, rules, work)


@entry_point
def run(model, params, critic, critic_params, tree, curved, budget, multipliers, tries, rules, work, rng, iterations):
    """So many simulations; stops early at the first fault in `work.fault`."""
    for _ in range(iterations):
        simulate(model, params, critic, critic_params, tree, curved, budget, multipliers, tries, rules, work, rng)
        if work.fault[0] != 0.0:
            return


@entry_point
def run_until(
    model, params, critic, critic_params, tree, curved, budget, multipliers, tries, rules, work, rng, count, limit
):
    """The same, until the clock says that time is up; returns how many simulations were done."""
    done, stride, last = np.int64(0), first_stride(limit, count), np.int64(0)
    while done < count and work.fault[0] == 0.0 and last < limit.end:
        some = min(stride, count - done)
        run(model, params, critic, critic_params, tree, curved, budget, multipliers, tries, rules, work, rng, some)
        done, before = done + some, last
        last = look(limit)
        stride = next_stride(stride, last - before)
    return done
