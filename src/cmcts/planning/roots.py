"""From the roots of finished searches to decisions: one search or thousands are read off alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import uncompiled
from cmcts.planning.decision import Decision
from cmcts.random import Stream, uniform
from cmcts.search.tree import ILLEGAL, PRUNED, Tree

if TYPE_CHECKING:
    from cmcts.planning.planner import Planner
    from cmcts.search.session import SearchSession

Probabilities = NDArray[np.float64]  # [A] of one decision, [N, A] of many

_uniform = uncompiled(uniform)  # one draw a decision is not worth a compilation


class Roots(NamedTuple):
    """What N searches found: all that decisions are made of."""

    tree: Tree  # [N, ...] the root's row of every tree
    budgets: NDArray[np.float64]  # [N, M]
    multipliers: NDArray[np.float64]  # [N, M]
    rngs: Sequence[Stream]  # [N]
    iterations: int
    seconds: float  # a decision


def session_root(session: SearchSession, seconds: float) -> Roots:
    """What one search has found after so many seconds, in its own memory."""
    tree = Tree._make(array[:1] for array in session.tree)
    budgets, multipliers = session.budget[None], session.multipliers[None]
    return Roots(tree, budgets, multipliers, [session.rng], session.iterations, seconds)


# Penalised values [N, A] and which actions are open [N, A], to root probabilities [N, A].
PoliciesOf = Callable[[Roots, NDArray[np.float64], NDArray[np.bool_]], Probabilities]


def decisions(
    planner: Planner, roots: Roots, policies_of: PoliciesOf, trees: Sequence[Tree] | None = None
) -> list[Decision]:
    """A planner's decision at every root, drawn from its policy there; with the whole tree where there are `trees`."""
    model, tree, pruning, scale = planner.model, roots.tree, planner.pruning, np.asarray(planner.critic.cost_scale)
    count, actions, constraints = len(tree.states), model.action_count, model.cost_count
    shape = (count, actions, constraints)
    raw_visits = tree.action_visits.astype(np.int64)
    legal = raw_visits != ILLEGAL
    visits = np.maximum(raw_visits, 0)
    rewards = np.where(visits > 0, tree.reward_values, 0.0)
    costs = np.where(visits[:, :, None] > 0, tree.cost_values.reshape(shape), 0.0)
    kept = legal & (raw_visits != PRUNED)
    # With fewer simulations than actions, only tried actions have values to compare.
    tried = kept & (visits > 0)
    values = rewards - (costs @ roots.multipliers[:, :, None])[:, :, 0]
    policies = policies_of(roots, values, np.where(tried.any(axis=1, keepdims=True), tried, kept))
    chosen = np.argmax(policies, axis=1).tolist()
    for k in np.flatnonzero(policies.max(axis=1) < 1.0).tolist():
        chosen[k] = draw_action(policies[k], roots.rngs[k])
    judged = np.where(legal & (pruning is not None), tree.pruned_by, 0)
    pruned, pruned_by = judged > 0, (judged[:, :, None] >> np.arange(constraints)) & 1 == 1
    mean, sigma = (array.astype(np.float64).reshape(shape) for array in (tree.critic_mean, tree.critic_sigma))
    charges, charged = np.where(legal[:, :, None], tree.charges.reshape(shape), 0.0), planner.charges_expected_costs
    nothing_safe, sizes, depths = tree.nothing_safe.tolist(), tree.count.tolist(), tree.peak_depth.tolist()
    states, budgets, multipliers = tree.states.copy(), roots.budgets.copy(), roots.multipliers.copy()
    return [
        Decision(
            model=model,
            state=states[k],
            budget=budgets[k],
            action=chosen[k],
            probabilities=policies[k],
            legal=legal[k],
            pruned=pruned[k],
            pruned_by=pruned_by[k],
            nothing_safe=nothing_safe[k],
            visits=visits[k],
            reward_values=rewards[k],
            cost_values=costs[k],
            critic_mean=None if pruning is None else mean[k],
            critic_sigma=None if pruning is None else sigma[k],
            charges=charges[k] if charged else None,
            multipliers=multipliers[k],
            iterations=roots.iterations,
            seconds=roots.seconds,
            tree_size=sizes[k],
            tree_depth=depths[k],
            pruning=pruning,
            cost_scale=scale,
            cost_discounts=planner.cost_discounts,
            tree=None if trees is None else trees[k],
        )
        for k in range(count)
    ]


def draw_action(policy: Probabilities, rng: Stream) -> int:
    """An action drawn from the policy; one that is certain takes no draw."""
    action = int(np.argmax(policy))
    if policy[action] < 1.0:
        with np.errstate(over="ignore"):  # unsigned arithmetic is meant to wrap
            draw = _uniform(rng)
        action = int(np.searchsorted(np.cumsum(policy), draw * policy.sum(), side="right"))
    return action
