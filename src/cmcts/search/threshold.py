"""Threshold UCT: a search whose nodes hold curves, and whose simulations carry a threshold down the tree.

A node's curve (curves.py) is what can be earned from it on for how much expected cost. An action's curve is the sum of
its outcomes' curves, weighted by how often they came; a node's curve is the upper hull of its actions'. A simulation
begins with the budget as its threshold. At every node it takes the action of the vertex at the threshold, or tosses a
coin between two, on curves that are moved up and left for what was seldom tried; and what the action may cost is handed
to its outcomes as the sum of their curves is made: where the next unit of cost earns most.

Kurecka, Nevyhosteny, Novotny and Uncovsky, "Threshold UCT" (AAAI 2025). Where this search differs from theirs, it is so
that no curve promises what nobody has seen, or what luck has made:

- Nothing is assumed to be free. A leaf has two rollouts, one as ever and a frugal one, which always takes what costs
  least at once: its curve goes from the one to the other, and stands for the actions that were not tried yet.
- A step costs what the model expects, where the model says that, and not what few samples of it cost.
- The hull of several estimates is the luckiest of them. So before it is taken, each action's curve is lowered by as
  many standard errors of the returns seen from its node as the search is cautious, and made dearer in the same way.
- A critic is a floor under what an action costs.
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
    append_vertex,
    around,
    chain,
    copy_curve,
    curves,
    minkowski_sum,
    split,
    upper_hull,
    write_curve,
    write_point,
)
from cmcts.search.faults import CRITIC, count_legal_actions, note_fault
from cmcts.search.kernels import (
    expand,
    follow,
    note_return,
    spread,
    start_at_root,
    untried_action,
)
from cmcts.search.pruning import find_floors, immediate_costs, lowered
from cmcts.search.rollouts import frugal_rollout, rollout
from cmcts.search.tree import ILLEGAL, NO_NODE, ROOT
from cmcts.search.workspace import remembered


class CurveTree(NamedTuple):
    """What a tree of N nodes has besides its `Tree`: curves of K vertices, and scratch memory to merge them in."""

    nodes: Curves  # [N]
    actions: NDArray[np.int32]  # [N, K] the action that a vertex of a node's curve begins with
    edges: Curves  # [N] of actions that were tried; an action's row is the number of its oldest outcome
    edge_rows: NDArray[np.int32]  # [N, A] or NO_NODE
    edge_costs: NDArray[np.float64]  # [N] in an action's row, what it is expected to cost at once; if the model says it
    leaves: Curves  # [N] of two vertices: what the rollouts from a node found when it was a leaf
    floors: NDArray[np.float64]  # [N, A] the least that the critic expects of an action; one row if there is none
    step_costs: NDArray[np.float64]  # [N] mean cost of the steps that led here
    step_rewards: NDArray[np.float64]  # [N]
    cost_mean: NDArray[np.float64]  # [N] of the costs seen from here on
    cost_squares: NDArray[np.float64]  # [N] sum of their squared distances from the mean
    frugal_mean: NDArray[np.float64]  # [N] of the costs of the frugal rollouts that were begun below
    frugal_squares: NDArray[np.float64]  # [N] sum of their squared distances from the mean
    outcomes: NDArray[np.int32]  # [N] those of one action whose curves have several vertices
    weights: NDArray[np.float64]  # [N] their shares of the action's visits
    cursors: NDArray[np.int32]  # [N]
    slopes: NDArray[np.float64]  # [N]
    shares: NDArray[np.float64]  # [N] the thresholds that they get
    tried: NDArray[np.int32]  # [A + 1] actions whose curves are merged, and NO_NODE for the node's own rollouts
    rows: NDArray[np.int32]  # [A + 1] their rows
    cost_shifts: NDArray[np.float64]  # [A + 1] how far curves are moved to the left
    reward_shifts: NDArray[np.float64]  # [A + 1] and up
    action_cursors: NDArray[np.int32]  # [A + 1]
    made: Chain  # the curve that was merged last


def curve_tree(nodes: int, action_count: int, vertices: int = VERTICES, *, critic: bool = False) -> CurveTree:
    """Room for the curves of so many nodes; memory is touched only as nodes are added."""
    n, a = nodes, action_count
    return CurveTree(
        nodes=curves(n, vertices),
        actions=np.empty((n, vertices), np.int32),
        edges=curves(n, vertices),
        edge_rows=np.empty((n, a), np.int32),
        edge_costs=np.empty(n),
        leaves=curves(n, 2),
        floors=np.empty((n if critic else 1, a)),
        step_costs=np.empty(n),
        step_rewards=np.empty(n),
        cost_mean=np.empty(n),
        cost_squares=np.empty(n),
        frugal_mean=np.empty(n),
        frugal_squares=np.empty(n),
        outcomes=np.empty(n, np.int32),
        weights=np.empty(n),
        cursors=np.empty(n, np.int32),
        slopes=np.empty(n),
        shares=np.empty(n),
        tried=np.zeros(a + 1, np.int32),
        rows=np.zeros(a + 1, np.int32),
        cost_shifts=np.zeros(a + 1),
        reward_shifts=np.zeros(a + 1),
        action_cursors=np.zeros(a + 1, np.int32),
        made=chain(vertices),
    )


@kernel
def open_node(curved, node):
    """Begin a node that was just added: nothing was seen of it."""
    curved.step_costs[node] = 0.0
    curved.step_rewards[node] = 0.0
    curved.cost_mean[node] = 0.0
    curved.cost_squares[node] = 0.0
    curved.frugal_mean[node] = 0.0
    curved.frugal_squares[node] = 0.0
    for action in range(curved.edge_rows.shape[1]):
        curved.edge_rows[node, action] = NO_NODE


@kernel
def gather_outcomes(tree, curved, node, action, rules, work):
    """The outcomes of an action as the curves of a sum: (how many have several vertices, cost and reward at the least).

    Outcomes that found no room in a full tree stand at what was seen of the action on average.
    """
    visits, known, count = tree.action_visits[node, action], 0, 0
    row, cost, reward = curved.edge_rows[node, action], 0.0, 0.0
    child = tree.first_child[node, action]
    while child != NO_NODE:
        weight = tree.visits[child] / visits
        known += tree.visits[child]
        paid = curved.edge_costs[row] if rules.has_expected_costs else curved.step_costs[child]
        cost += weight * (paid + work.cost_discounts[1, 0] * curved.nodes.costs[child, 0])
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
    if rules.guarded_rollout:
        cost = max(cost, curved.floors[node, action])
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
def merge_actions(tree, curved, node, own, cost_width, reward_width, growth):
    """The hull of the curves of a node's actions, each moved left and up by a width times sqrt(growth / visits).

    With `own`, what the node's own rollouts found stands for the actions that were never tried. The hull is left in
    `curved.made`, with numbers among `curved.tried` as labels. Returns its size, 0 if nothing takes part.
    """
    count, untried = 0, False
    for action in range(tree.action_visits.shape[1]):
        visits = tree.action_visits[node, action]
        untried = untried or visits == 0
        if visits > 0 and curved.edge_rows[node, action] != NO_NODE:
            take_part(curved, count, action, curved.edge_rows[node, action])
            curved.cost_shifts[count] = cost_width * math.sqrt(growth / visits)
            curved.reward_shifts[count] = reward_width * math.sqrt(growth / visits)
            count += 1
    if own and untried:
        copy_curve(curved.leaves, node, curved.edges, ROOT)  # a free row: the root is nobody's outcome
        take_part(curved, count, NO_NODE, ROOT)
        curved.cost_shifts[count] = cost_width * math.sqrt(growth)
        curved.reward_shifts[count] = reward_width * math.sqrt(growth)
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
def take_part(curved, count, action, row):
    """Note curve number `count` of those that are merged."""
    curved.tried[count] = action
    curved.rows[count] = row


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
    size = merge_actions(tree, curved, node, False, cost_width, reward_width, growth)
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
def note_seen(tree, curved, node, depth, value, cost, frugal_cost, multipliers, work):
    """Count what was earned and paid from `node` on into its means and spreads."""
    note_return(tree, node, depth, value, multipliers, work)
    gap = cost - curved.cost_mean[node]
    curved.cost_mean[node] += gap / tree.visits[node]
    curved.cost_squares[node] += gap * (cost - curved.cost_mean[node])
    gap = frugal_cost - curved.frugal_mean[node]
    curved.frugal_mean[node] += gap / tree.visits[node]
    curved.frugal_squares[node] += gap * (frugal_cost - curved.frugal_mean[node])


@kernel
def bend(tree, curved, node, caution):
    """A node's curve anew: the hull of its actions' curves, each moved down and to the right by its doubt.

    The doubt about costs is that of the frugal rollouts: what costs nothing for sure is not doubted. The root has to
    choose an action, so its own rollouts do not count. Where no action has an outcome in a full tree the curve is the
    mean of what was seen.
    """
    reward_doubt = caution * math.sqrt(tree.return_squares[node] / tree.visits[node])
    cost_doubt = caution * math.sqrt(curved.frugal_squares[node] / tree.visits[node])
    size = merge_actions(tree, curved, node, node != ROOT, -cost_doubt, -reward_doubt, 1.0)
    if size == 0:
        write_point(curved.nodes, node, curved.cost_mean[node], tree.return_mean[node])
        return
    write_curve(curved.nodes, node, curved.made, size)
    for k in range(size):
        curved.actions[node, k] = curved.tried[curved.made.labels[k]]


@kernel
def note_leaf(curved, leaf, cost, value, frugal_cost, frugal_value):
    """A leaf's curve, through what its two rollouts found."""
    if frugal_cost <= cost:
        size = append_vertex(curved.made, 0, frugal_cost, frugal_value, 0)
        size = append_vertex(curved.made, size, cost, value, 0)
    else:
        size = append_vertex(curved.made, 0, cost, value, 0)
        size = append_vertex(curved.made, size, frugal_cost, frugal_value, 0)
    write_curve(curved.leaves, leaf, curved.made, size)
    write_curve(curved.nodes, leaf, curved.made, size)


@kernel
def note_floors(model, params, critic, critic_params, tree, curved, node, rules, work, rng):
    """What the critic expects each legal action of a node to cost at the least."""
    slot = remembered(model, params, critic, critic_params, tree.states[node], work)
    count = count_legal_actions(model, params, tree.states[node], work)
    find_floors(model, params, tree.states[node], count, rules, work, rng)
    for k in range(count):
        action = work.legal[k]
        mean, sigma = np.float64(work.memo.mean[slot, action]), np.float64(work.memo.sigma[slot, action])
        curved.floors[node, action] = lowered(mean, sigma, work.floors[action], work.cost_scale[0], rules)
        if curved.floors[node, action] == math.inf:
            note_fault(CRITIC, tree.states[node], action, mean, work.costs, work.fault)


@kernel
def backup(model, params, tree, curved, leaf, depth, value, frugal_cost, multipliers, caution, rules, work, rng):
    """BACKPROPAGATION. Count what was sampled into every node of the path, and merge its curves anew."""
    cost, child = work.rollout_costs[0], leaf
    if leaf != NO_NODE:
        note_seen(tree, curved, leaf, depth, value, cost, frugal_cost, multipliers, work)
    for step in range(depth - 1, -1, -1):
        node, action = work.path_nodes[step], work.path_actions[step]
        reward, paid = work.path_rewards[step], work.path_step_costs[step, 0]
        tree.visits[node] += 1
        visits = tree.action_visits[node, action] + 1
        tree.action_visits[node, action] = visits
        value = reward + rules.discount * value
        cost = paid + work.cost_discounts[1, 0] * cost
        frugal_cost *= work.cost_discounts[1, 0]
        tree.reward_values[node, action] += (value - tree.reward_values[node, action]) / visits
        tree.cost_values[node, action] += (cost - tree.cost_values[node, action]) / visits
        if child != NO_NODE:
            seen = tree.visits[child]
            curved.step_rewards[child] += (reward - curved.step_rewards[child]) / seen
            curved.step_costs[child] += (paid - curved.step_costs[child]) / seen
            if curved.edge_rows[node, action] == NO_NODE:
                open_edge(model, params, tree, curved, node, action, child, rules, work, rng)
        merge_outcomes(tree, curved, node, action, rules, work)
        note_seen(tree, curved, node, step, value, cost, frugal_cost, multipliers, work)
        bend(tree, curved, node, caution)
        child = node


@kernel
def open_edge(model, params, tree, curved, node, action, child, rules, work, rng):
    """Give an action a row for its curve: that of its first outcome."""
    curved.edge_rows[node, action] = child
    if rules.has_expected_costs:
        state = tree.states[node]
        immediate_costs(model, params, state, action, rules, rng, work.sample_state, work.costs, work.floor, work.fault)
        curved.edge_costs[child] = work.floor[0]


@kernel
def simulate(model, params, critic, critic_params, tree, curved, budget, multipliers, caution, rules, work, rng):
    """One simulation: down by thresholds, rollouts, and up by curves."""
    leaf, depth, terminal = select(model, params, tree, curved, budget, rules, work, rng)
    value, cost, frugal_value, frugal_cost = 0.0, 0.0, 0.0, 0.0
    if leaf != NO_NODE:
        if tree.visits[leaf] == 0:
            open_node(curved, leaf)
        tree.visits[leaf] += 1
        if not terminal and depth < rules.horizon:
            expand(model, params, critic, critic_params, tree, leaf, budget, rules, work, rng)
            if rules.guarded_rollout:
                note_floors(model, params, critic, critic_params, tree, curved, leaf, rules, work, rng)
    if not terminal:
        for _ in range(rules.rollouts):
            returned = rollout(model, params, critic, critic_params, depth, budget, rules, work, rng)
            value += returned / rules.rollouts
            cost += work.spent[0] / rules.rollouts
            spent, returned = frugal_rollout(model, params, critic, critic_params, depth, rules, work, rng)
            frugal_value += returned / rules.rollouts
            frugal_cost += spent / rules.rollouts
    work.rollout_costs[0] = cost
    if leaf != NO_NODE:
        note_leaf(curved, leaf, cost, value, frugal_cost, frugal_value)
    if work.fault[0] == 0.0:
        backup(model, params, tree, curved, leaf, depth, value, frugal_cost, multipliers, caution, rules, work, rng)


@entry_point
def run(model, params, critic, critic_params, tree, curved, budget, multipliers, caution, rules, work, rng, iterations):
    """So many simulations; stops early at the first fault in `work.fault`."""
    for _ in range(iterations):
        simulate(model, params, critic, critic_params, tree, curved, budget, multipliers, caution, rules, work, rng)
        if work.fault[0] != 0.0:
            return


@entry_point
def run_until(
    model, params, critic, critic_params, tree, curved, budget, multipliers, caution, rules, work, rng, count, limit
):
    """The same, until the clock says that time is up; returns how many simulations were done."""
    done, stride, last = np.int64(0), first_stride(limit, count), np.int64(0)
    while done < count and work.fault[0] == 0.0 and last < limit.end:
        some = min(stride, count - done)
        run(model, params, critic, critic_params, tree, curved, budget, multipliers, caution, rules, work, rng, some)
        done, before = done + some, last
        last = look(limit)
        stride = next_stride(stride, last - before)
    return done
