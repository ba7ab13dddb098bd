"""The decision: what to do now, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.model.interface import Model
from cmcts.search.pruning import FREE, PruningSettings
from cmcts.search.tree import Tree

Refusal = Literal["illegal", "immediate cost", "prediction", "unsure"]
Assurance = Literal["clear", "close", "none"]


class Handover(NamedTuple):
    """What an action may cost, and what its outcomes are given of that: how Threshold UCT carries the budget on."""

    action: int
    limit: float  # what the action may cost from now on, on average
    states: NDArray[np.float64]  # [n, S] the outcomes that the search knows
    given: NDArray[np.float64]  # [n] what each has left beyond (limit - paid) / gamma

    def to(self, state: ArrayLike) -> float:
        """What an outcome is given; nothing if the search does not know it."""
        found = np.flatnonzero((self.states == np.asarray(state)).all(axis=1))
        return float(self.given[found[0]]) if len(found) else 0.0


@dataclass(frozen=True, eq=False)
class Decision:
    """An action and the root statistics behind it; arrays are indexed by action, then by constraint."""

    model: Model
    state: NDArray[np.float64]  # [S]
    budget: NDArray[np.float64]  # [M] what was left when the decision was made
    action: int
    probabilities: NDArray[np.float64]  # [A] the policy that the action was drawn from
    legal: NDArray[np.bool_]  # [A]
    pruned: NDArray[np.bool_]  # [A] judged unsafe, whether or not it had to be kept
    pruned_by: NDArray[np.bool_]  # [A, M] the constraints that an action was judged unsafe by
    nothing_safe: bool  # every legal action was judged unsafe; the fallback chose
    visits: NDArray[np.int64]  # [A]
    reward_values: NDArray[np.float64]  # [A] Q_R
    cost_values: NDArray[np.float64]  # [A, M] Q_C, by Monte Carlo on the planning model
    critic_mean: NDArray[np.float64] | None  # [A, M]
    critic_sigma: NDArray[np.float64] | None  # [A, M]
    charges: NDArray[np.float64] | None  # [A, M] what each action takes from the budget, by expected accounting
    multipliers: NDArray[np.float64]  # [M] lambda at the end of the search
    iterations: int
    seconds: float
    tree_size: int
    tree_depth: int
    pruning: PruningSettings | None = None
    cost_scale: NDArray[np.float64] | None = None  # [M] what the tolerance and sigma_max are shares of
    cost_discounts: NDArray[np.float64] | None = None  # [M] gamma of each cost
    tree: Tree | None = None  # the whole tree, if it was asked for
    curve: NDArray[np.float64] | None = None  # [V, 2] expected costs and the rewards they buy (Threshold UCT)
    handover: Handover | None = None  # what is left in which outcome (Threshold UCT)

    @property
    def action_name(self) -> str:
        """The name of the chosen action."""
        return self.model.action_name(self.action)

    @property
    def assurance(self) -> Assurance | None:
        """How sure the critic is that the chosen action keeps the budget; None where nothing prunes.

        "clear": its prediction is within what is left by at least the tolerance, or is nothing at all. "close": it is
        within the tolerance, on one side or the other, which is as much as the critic can tell. "none": every action
        was refused, or the prediction is not trusted.
        """
        if self.pruning is None or self.critic_mean is None or self.critic_sigma is None or self.cost_scale is None:
            return None
        mean, sigma = self.critic_mean[self.action], self.critic_sigma[self.action]
        if self.pruned[self.action] or (sigma > self.pruning.sigma_max * self.cost_scale).any():
            return "none"
        free = mean <= FREE * self.cost_scale
        within = mean + self.pruning.tolerance * self.cost_scale <= self.budget
        return "clear" if (free | within).all() else "close"

    @property
    def least_cost_action(self) -> int:
        """The legal action whose mean + sigma exceeds what is left by least, as the critic has it.

        Of those that were refused, any that the critic is merely unsure of comes before those that cost too much.
        """
        assert self.critic_mean is not None and self.critic_sigma is not None and self.cost_scale is not None
        over = ((self.critic_mean + self.critic_sigma - self.budget) / self.cost_scale).max(axis=1)
        rank = {None: 0, "unsure": 1}
        return min(np.flatnonzero(self.legal).tolist(), key=lambda a: (rank.get(self.refusal(a), 2), over[a]))

    def next_budget(self, costs: NDArray[np.float64], discounts: ArrayLike) -> NDArray[np.float64]:
        """What is left after the chosen action cost `costs`, in discounted units of the next step.

        b' = max(0, (b - p c - sum_(a' != a) pi(a') Q_C(a')) / (gamma p)), with p the probability that the action had:
        what the other branches of a stochastic policy were expected to cost is already spent. For a deterministic
        policy this is max(0, (b - c) / gamma). `discounts` is gamma, one for all costs or one each.
        """
        p = self.probabilities[self.action]
        if p == 1.0:
            return np.asarray(np.maximum(0.0, (self.budget - costs) / np.asarray(discounts)))
        others = self.probabilities @ self.cost_values - p * self.cost_values[self.action]
        return np.asarray(np.maximum(0.0, (self.budget - p * costs - others) / (np.asarray(discounts) * p)))

    def slack(self, discounts: ArrayLike) -> NDArray[np.float64]:
        """What expected accounting leaves beyond the next state's needs: (b - Q_C(s, a)) / gamma, by the critic's Q_C.

        Below zero if nothing was safe: the debt stays.
        """
        assert self.charges is not None
        return np.asarray((self.budget - self.charges[self.action]) / np.asarray(discounts))

    def reason(self, action: int) -> str:
        """Why an action was refused, in words; empty if it was not."""
        if not self.legal[action]:
            return "illegal"
        if not self.pruned[action] or self.critic_mean is None or self.critic_sigma is None:
            return ""
        return "; ".join(self._reason(action, int(m)) for m in np.flatnonzero(self.pruned_by[action]))

    def refusal(self, action: int) -> Refusal | None:
        """What kind of reason an action was refused for, by the first constraint that did; None if it was not."""
        if not self.legal[action]:
            return "illegal"
        if not self.pruned[action] or self.critic_mean is None:
            return None
        return self._refusal(action, int(np.flatnonzero(self.pruned_by[action])[0]))

    def _refusal(self, action: int, m: int) -> Refusal:
        assert self.critic_mean is not None and self.critic_sigma is not None
        assert self.pruning is not None and self.cost_scale is not None
        mean, left, scale = self.critic_mean[action, m], self.budget[m], self.cost_scale[m]
        if self.critic_sigma[action, m] > self.pruning.sigma_max * scale:
            return "unsure" if self.pruning.unsure == "refuse" else "immediate cost"
        low = mean - self.pruning.tolerance * scale <= left or mean <= FREE * scale
        return "immediate cost" if low else "prediction"

    def _reason(self, action: int, m: int) -> str:
        assert self.critic_mean is not None and self.critic_sigma is not None
        mean, sigma, left = self.critic_mean[action, m], self.critic_sigma[action, m], self.budget[m]
        which = f"{self.model.cost_name(m)}: " if len(self.budget) > 1 else ""
        kind = self._refusal(action, m)
        if kind == "unsure":
            return f"{which}critic is unsure, {mean:.2g} ± {sigma:.2g}"
        if kind == "immediate cost":
            return f"{which}immediate cost exceeds the {left:.3g} left"
        digits = next((k for k in (4, 5, 6) if f"{mean:.{k}g}" != f"{left:.{k}g}"), 7)  # what decides must be seen
        return f"{which}critic predicts {mean:.{digits}g} ± {sigma:.2g}, {left:.{digits}g} left"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the tree, ready for JSON."""
        actions = []
        for action in np.flatnonzero(self.legal):
            row: dict[str, Any] = {
                "action": int(action),
                "name": self.model.action_name(int(action)),
                "probability": float(self.probabilities[action]),
                "visits": int(self.visits[action]),
                "reward_value": float(self.reward_values[action]),
                "cost_values": self.cost_values[action].tolist(),
                "pruned": bool(self.pruned[action]),
                "reason": self.reason(int(action)),
            }
            if self.critic_mean is not None and self.critic_sigma is not None:
                row["critic_mean"] = self.critic_mean[action].tolist()
                row["critic_sigma"] = self.critic_sigma[action].tolist()
            actions.append(row)
        return {
            "action": self.action,
            "name": self.action_name,
            "nothing_safe": self.nothing_safe,
            "assurance": self.assurance,
            "budget": self.budget.tolist(),
            "cost_names": [self.model.cost_name(m) for m in range(len(self.budget))],
            "state": self.state.tolist(),
            "multipliers": self.multipliers.tolist(),
            "iterations": self.iterations,
            "seconds": self.seconds,
            "tree_size": self.tree_size,
            "tree_depth": self.tree_depth,
            "actions": actions,
        } | ({} if self.curve is None else {"curve": self.curve.tolist()})
