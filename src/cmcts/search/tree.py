"""The search tree: preallocated arrays, one row a node.

Node 0 is the root. The children of (node, action) are the *outcomes* seen so far: a linked list that starts at
`first_child[node, action]` and goes on through `next_sibling`, each child told from the others by its state. Rows are
initialised when a node is added or expanded, never before, so a large tree costs only what it uses.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import inner_kernel as kernel

ROOT = 0
NO_NODE = -1
ILLEGAL = -1  # in action_visits: the action cannot be taken in this state
PRUNED = -2  # in action_visits: the critic found the action unsafe


class Tree(NamedTuple):
    """N nodes, S state numbers, A actions, M constraints. With `A*M` columns, constraint m of a is at `a*M + m`."""

    count: NDArray[np.int64]  # type: ignore[assignment]  # [1] nodes in use; hides tuple.count
    peak_depth: NDArray[np.int64]  # [1] depth of the deepest node
    salt: NDArray[np.uint64]  # [1] random, so that no two searches spread their outcomes alike
    states: NDArray[np.float64]  # [N, S]
    parent: NDArray[np.int32]  # [N]
    parent_action: NDArray[np.int32]  # [N]
    next_sibling: NDArray[np.int32]  # [N] next outcome of the same (parent, action), or NO_NODE
    visits: NDArray[np.int32]  # [N]
    return_mean: NDArray[np.float64]  # [N] of the penalised returns seen from here
    return_squares: NDArray[np.float64]  # [N] sum of their squared distances from the mean
    depth: NDArray[np.int32]  # [N]
    terminal: NDArray[np.bool_]  # [N]
    expanded: NDArray[np.bool_]  # [N]
    nothing_safe: NDArray[np.bool_]  # [N] every legal action was judged unsafe
    reward: NDArray[np.float64]  # [N] of the step that first led here
    costs: NDArray[np.float64]  # [N, M] of the step that first led here
    path_costs: NDArray[np.float64]  # [N, M] C_path: discounted costs from the root to here
    action_visits: NDArray[np.int32]  # [N, A] or ILLEGAL or PRUNED
    first_child: NDArray[np.int32]  # [N, A] or NO_NODE
    reward_values: NDArray[np.float64]  # [N, A] mean discounted reward
    cost_values: NDArray[np.float64]  # [N, A*M] mean discounted costs
    critic_mean: NDArray[np.float32]  # [N, A*M], one row if there is no critic
    critic_sigma: NDArray[np.float32]  # [N, A*M], one row if there is no critic
    charges: NDArray[np.float64]  # [N, A*M] what an action takes from the budget, by expected accounting alone
    pruned_by: NDArray[np.int32]  # [N, A] bit m is set if constraint m finds the action unsafe


def allocate(nodes: int, state_size: int, action_count: int, cost_count: int, *, critic: bool) -> Tree:
    """A tree with room for `nodes` nodes; memory is touched only as nodes are added."""
    n, a, m = nodes, action_count, cost_count
    critic_rows = n if critic else 1
    return Tree(
        count=np.zeros(1, np.int64),
        peak_depth=np.zeros(1, np.int64),
        salt=np.zeros(1, np.uint64),
        states=np.empty((n, state_size)),
        parent=np.empty(n, np.int32),
        parent_action=np.empty(n, np.int32),
        next_sibling=np.empty(n, np.int32),
        visits=np.empty(n, np.int32),
        return_mean=np.empty(n),
        return_squares=np.empty(n),
        depth=np.empty(n, np.int32),
        terminal=np.empty(n, np.bool_),
        expanded=np.empty(n, np.bool_),
        nothing_safe=np.empty(n, np.bool_),
        reward=np.empty(n),
        costs=np.empty((n, m)),
        path_costs=np.empty((n, m)),
        action_visits=np.empty((n, a), np.int32),
        first_child=np.empty((n, a), np.int32),
        reward_values=np.empty((n, a)),
        cost_values=np.empty((n, a * m)),
        critic_mean=np.zeros((critic_rows, a * m), np.float32),
        critic_sigma=np.zeros((critic_rows, a * m), np.float32),
        charges=np.empty((critic_rows, a * m)),
        pruned_by=np.zeros((critic_rows, a), np.int32),
    )


def bytes_per_node(tree: Tree) -> float:
    """Memory that one more node takes."""
    return sum(array.nbytes for array in tree[3:]) / len(tree.states)


def in_use(tree: Tree) -> Tree:
    """A copy of the rows in use, which no later search writes to."""
    rows, count = len(tree.parent), int(tree.count[0])
    return Tree._make(array[:count].copy() if len(array) == rows else array.copy() for array in tree)


@kernel
def add_node(tree, state, parent, action, depth, terminal, reward, costs, path_costs):
    """Append an unexpanded node, as the first outcome in its parent's list; the tree must have room."""
    node = tree.count[0]
    tree.count[0] = node + 1
    for k in range(state.shape[0]):
        tree.states[node, k] = state[k]
    for m in range(costs.shape[0]):
        tree.costs[node, m] = costs[m]
        tree.path_costs[node, m] = path_costs[m]
    tree.reward[node] = reward
    tree.parent[node] = parent
    tree.parent_action[node] = action
    tree.visits[node] = 0
    tree.return_mean[node] = 0.0
    tree.return_squares[node] = 0.0
    tree.depth[node] = depth
    tree.terminal[node] = terminal
    tree.expanded[node] = False
    tree.nothing_safe[node] = False
    tree.next_sibling[node] = NO_NODE
    if parent != NO_NODE:
        tree.next_sibling[node] = tree.first_child[parent, action]
        tree.first_child[parent, action] = node
    if depth > tree.peak_depth[0]:
        tree.peak_depth[0] = depth
    return node


@kernel
def find_child(tree, node, action, state, terminal):
    """The outcome of (node, action) that has this very state and ends the episode or does not, or NO_NODE."""
    child = tree.first_child[node, action]
    while child != NO_NODE:
        same = tree.terminal[child] == terminal
        for k in range(state.shape[0]):  # to the end: numbers that wait for no branch are compared at once
            same &= tree.states[child, k] == state[k]
        if same:
            return child
        child = tree.next_sibling[child]
    return NO_NODE


def reroot(old: Tree, new: Tree, root: int, cost_discounts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Copy the subtree of `root` from `old` into `new`, where it becomes the root; returns the nodes' old numbers.

    Node numbers change, in order of age; path costs [M] are rebased to the new root, in its own discounted units.
    """
    keep = np.zeros(int(old.count[0]), np.bool_)
    keep[root] = True
    # Level by level, each in one go: a decision that is waited for may keep a hundred thousand nodes.
    depths = old.depth[: len(keep)]
    by_depth = np.argsort(depths, kind="stable")
    edges = np.searchsorted(depths[by_depth], np.arange(old.depth[root] + 1, old.peak_depth[0] + 2))
    for begin, end in pairwise(edges):
        level = by_depth[begin:end]
        keep[level] = keep[old.parent[level]]
    kept = np.flatnonzero(keep)
    renumber = np.full(len(keep) + 1, NO_NODE, np.int32)  # the last entry answers for NO_NODE = -1
    renumber[kept] = np.arange(len(kept))
    size = len(kept)
    for name in Tree._fields[3:]:
        source, target = getattr(old, name), getattr(new, name)
        if len(source) == len(old.parent):
            target[:size] = source[kept]
    new.parent[:size] = renumber[old.parent[kept]]
    new.parent[ROOT], new.next_sibling[ROOT] = NO_NODE, NO_NODE
    new.next_sibling[1:size] = renumber[old.next_sibling[kept[1:]]]
    # Rows of unexpanded nodes and entries of illegal actions are not initialised.
    open_ = old.expanded[kept][:, None] & (old.action_visits[kept] != ILLEGAL)
    children = np.where(open_, old.first_child[kept], NO_NODE)
    new.first_child[:size] = renumber[children]
    new.depth[:size] -= old.depth[root]
    new.path_costs[:size] = (new.path_costs[:size] - old.path_costs[root]) / cost_discounts ** int(old.depth[root])
    new.count[0] = size
    new.peak_depth[0] = int(new.depth[:size].max())
    return kept
