"""One search of Threshold UCT from Python: a session whose nodes have curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import uncompiled
from cmcts.model.interface import Model
from cmcts.search import curves, threshold
from cmcts.search.clock import UNTIMED, Limit
from cmcts.search.kernels import Rules
from cmcts.search.session import Critic, SearchSession
from cmcts.search.threshold import CurveTree, curve_tree
from cmcts.search.tree import NO_NODE, ROOT, Tree, reroot

_around, _hand_over, _share_of = (
    uncompiled(kernel) for kernel in (curves.around, threshold.hand_over, threshold.share_of)
)


class RootCurve(NamedTuple):
    """The curve of a root, V vertices from the cheapest to the dearest."""

    costs: NDArray[np.float64]  # [V]
    rewards: NDArray[np.float64]  # [V]
    actions: NDArray[np.int32]  # [V] the action that a vertex begins with

    def around(self, threshold: float) -> tuple[int, int, float]:
        """The vertices on either side of a threshold, the same one beyond the ends, and the chance of the dearer."""
        low, high, chance = _around(self.costs, len(self.costs), threshold)
        return int(low), int(high), float(chance)


class CurveSession(SearchSession):
    """A resumable search of Threshold UCT."""

    def __init__(
        self,
        model: Model,
        critic: Critic,
        rules: Rules,
        cost_scale: Sequence[float],
        cost_discounts: Sequence[float],
        max_nodes: int,
        caution: float,
    ) -> None:
        super().__init__(model, critic, rules, cost_scale, cost_discounts, max_nodes)
        self.caution = caution
        self.curved = self._curves(2)

    def reserve(self, nodes: int) -> None:
        """Allocate and touch the memory of searches with so many nodes, so that none of them waits for it."""
        super().reserve(nodes)
        self._make_room()
        for array in _arrays(self.curved):
            array.fill(0)

    def run(self, iterations: int, limit: Limit = UNTIMED) -> None:
        """Add so many simulations to the tree, or as many as fit; raises what the model did wrong."""
        self._make_room()
        arguments = (
            self.model,
            self.model.params,
            self.critic,
            self.critic.params,
            self.tree,
            self.curved,
            self.budget,
            self.multipliers,
            self.caution,
            self.rules,
            self.work,
            self.rng,
            iterations,
            limit,
        )
        done = self._call(threshold.run_until, arguments)
        self._raise_fault()
        self.iterations += int(done)  # NumPy's own integer where nothing is compiled

    def root_curve(self) -> RootCurve | None:
        """What can be earned from the root on for how much; None while none of its actions was tried."""
        if not (self.curved.edge_rows[ROOT] != NO_NODE).any():
            return None
        size = int(self.curved.nodes.sizes[ROOT])
        nodes = self.curved.nodes
        return RootCurve(
            nodes.costs[ROOT, :size].copy(), nodes.rewards[ROOT, :size].copy(), self.curved.actions[ROOT, :size].copy()
        )

    def action_curve(self, action: int) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Costs and rewards [V] of the vertices of a root action's curve; None if it has none."""
        row = int(self.curved.edge_rows[ROOT, action])
        if row == NO_NODE:
            return None
        edges, size = self.curved.edges, int(self.curved.edges.sizes[row])
        return edges.costs[row, :size].copy(), edges.rewards[row, :size].copy()

    def hand_over(self, action: int, limit: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """If a root action may cost `limit`: its outcomes that go on, [n, S], and what each is given [n].

        That is beyond (limit - paid) / gamma, which is what would be left if everybody paid for himself.
        """
        tree, curved, discount = self.tree, self.curved, self.cost_discounts[0]
        over, count = _hand_over(tree, curved, ROOT, action, limit, self.rules, self.work)
        states, given = [], []
        child = int(tree.first_child[ROOT, action])
        while child != NO_NODE:
            if not tree.terminal[child]:
                states.append(tree.states[child].copy())
                left = _share_of(curved, child, count) + over
                given.append(left - (limit - curved.step_costs[child]) / discount)
            child = int(tree.next_sibling[child])
        return np.array(states).reshape(len(states), self.model.state_size), np.array(given)

    def _curves(self, nodes: int) -> CurveTree:
        return curve_tree(nodes, self.model.action_count, critic=self.rules.guarded_rollout)

    def _make_room(self) -> None:
        if len(self.curved.step_costs) < len(self.tree.parent):
            self.curved = self._curves(len(self.tree.parent))

    def _reroot(self, old: Tree, new: Tree, root: int) -> None:
        kept = reroot(old, new, root, self.cost_discounts)
        size, before, rows = len(kept), self.curved, len(self.curved.step_costs)
        if rows < len(new.parent):
            self.curved = self._curves(len(new.parent))
        for source, target in zip(_arrays(before), _arrays(self.curved), strict=True):
            if len(source) == rows:
                target[:size] = source[kept]
        renumber = np.full(len(kept) and int(kept[-1]) + 1, NO_NODE, np.int32)
        renumber[kept] = np.arange(size)
        edge_rows = self.curved.edge_rows[:size]
        has_curve = new.expanded[:size, None] & (new.action_visits[:size] > 0) & (edge_rows != NO_NODE)
        edge_rows[has_curve] = renumber[edge_rows[has_curve]]
        edge_rows[~has_curve] = NO_NODE


def _arrays(curved: CurveTree) -> list[NDArray[Any]]:
    return [array for part in curved for array in (part if isinstance(part, tuple) else (part,))]
