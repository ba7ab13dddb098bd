"""A search tree as a few columns of numbers: small enough for a page, and drawn there on demand.

Nodes keep their order. The legal actions of every expanded node follow one another as *edges*, node by node; illegal
ones, and memory that was never written, are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.explorer.columns import pack
from cmcts.planning.decision import Decision
from cmcts.search.tree import ILLEGAL, NO_NODE, Tree

TERMINAL, NOTHING_SAFE = 1, 2  # flags of a node, as the page's script knows them


def tree_data(decision: Decision, limit: int) -> dict[str, Any] | None:
    """The decision's tree for a page, of `limit` nodes at most, the most visited ones; None if it was not kept."""
    tree = decision.tree
    if tree is None:
        return None
    kept = most_visited(tree, limit)
    m = len(decision.budget)
    expanded = np.flatnonzero(tree.expanded[kept])
    rows = kept[expanded]
    at, action = np.nonzero(tree.action_visits[rows] != ILLEGAL)
    counts = np.bincount(expanded[at], minlength=len(kept))
    node = rows[at]
    renumber = np.full(len(tree.parent) + 1, NO_NODE, np.int32)  # the last entry answers for NO_NODE = -1
    renumber[kept] = np.arange(len(kept))
    flags = TERMINAL * tree.terminal[kept] + NOTHING_SAFE * tree.nothing_safe[kept]

    def of_edges(values: NDArray[Any]) -> NDArray[np.float32]:
        """[E, M] from [N, A*M]."""
        return values.reshape(len(values), -1, m)[node, action].astype(np.float32)

    arrays: dict[str, NDArray[Any]] = {
        "parent": renumber[tree.parent[kept]],
        "visits": tree.visits[kept],
        "firstEdge": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        "state": tree.states[kept].astype(np.float32),
        "path": tree.path_costs[kept].astype(np.float32),
        "flags": flags.astype(np.uint8),
        "action": tree.parent_action[kept].astype(np.uint16),
        "edgeAction": action.astype(np.uint16),
        "edgeVisits": tree.action_visits[node, action],
        "edgeReward": tree.reward_values[node, action].astype(np.float32),
        "edgeCost": of_edges(tree.cost_values),
    }
    if decision.pruning is not None:
        arrays |= {
            "edgeMean": of_edges(tree.critic_mean),
            "edgeSigma": of_edges(tree.critic_sigma),
            "edgeRefusedBy": tree.pruned_by[node, action],
        }
    return {"nodes": len(tree.parent), "shown": len(kept), **pack(arrays)}


def most_visited(tree: Tree, limit: int) -> NDArray[np.int64]:
    """The numbers of the `limit` most visited nodes, ascending. No node comes without its parent.

    A parent has at least the visits of its child, and is older.
    """
    if len(tree.visits) <= limit:
        return np.arange(len(tree.visits))
    return np.sort(np.argsort(-tree.visits, kind="stable")[:limit])
