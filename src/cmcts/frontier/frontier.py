"""A frontier: measured policies, and the best mixture of them for any budget, whatever the budget means.

    >>> frontier = Frontier.load("rocksample-5-7")  # doctest: +SKIP
    >>> policy = frontier.at(1.0)  # doctest: +SKIP
    >>> agent = policy.agent(rng=0)  # doctest: +SKIP

The episodes are split so that no figure owes its place to luck. The `chosen` ones say which columns to mix for a
budget; the `confirmed` ones, on other worlds, say how much of each, so that the upper confidence bound of the mean
cost keeps the budget, and what the mixture earns.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle
from cmcts.critic.columns import Column, ColumnSettings
from cmcts.critic.ensemble import SafetyCritic, immediate_costs_only
from cmcts.critic.policies import Policies
from cmcts.critic.values import LeafValues
from cmcts.errors import BudgetWarning, InvalidInput, expect
from cmcts.exact.column_generation import InfeasibleBudget
from cmcts.exact.policy import TabularPolicy
from cmcts.frontier.mixture import Floats, Limits, Mixed, best_mixture
from cmcts.frontier.policy import MixedPolicy
from cmcts.frontier.settings import KEEPS, Keep
from cmcts.model.interface import Model
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.tasks.registry import model_of

_NEGLIGIBLE = 1e-6  # a column that is drawn more rarely is not mixed in at all


def planner_of(
    column: ColumnSettings,
    model: Model,
    critic: SafetyCritic | None,
    cost_scale: Sequence[float] = (),
    values: LeafValues | None = None,
    policies: Policies | None = None,
) -> Planner:
    """The planner that a column stands for."""
    if column.policy:
        if policies is None or column.policy not in policies:
            raise InvalidInput(f"expected the table of the column {column.name!r}, got none")
        return TabularPolicy.from_arrays(policies[column.policy], model, solved_elsewhere=True)
    if column.values and values is None:
        raise InvalidInput(f"expected leaf values for the column {column.name!r}, got none")
    read = values if column.values else None
    if column.guard == "none":
        return PenalizedMCTS(model, column.prices, column.search, values=read)
    if column.guard == "critic" and critic is None:
        raise InvalidInput(f"expected a safety critic for the column {column.name!r}, got none")
    guard = critic if column.guard == "critic" else immediate_costs_only(model, tuple(cost_scale))
    assert guard is not None
    return CMCTS(model, guard, column.search, column.pruning, column.prices, values=read)


@dataclass(frozen=True, eq=False)
class Frontier:
    """Columns of one problem, ready to be mixed for any budget."""

    model: Model
    columns: tuple[Column, ...]
    budget: tuple[float, ...]
    """The budget it was built around, and the one that is used if none is named."""
    critic: SafetyCritic | None = None
    cost_scale: tuple[float, ...] = ()
    values: LeafValues | None = None
    policies: Policies = field(default_factory=dict)
    """The tables of exact policies that columns play, by their digests."""

    def __post_init__(self) -> None:
        expect(len(self.columns) >= 1, "one column or more", self.columns)

    @classmethod
    def load(cls, folder: str | Path, model: Model | None = None) -> Frontier:
        """The frontier of a trained bundle: a folder that `cmcts train` wrote, or the name of one that ships."""
        loaded = bundles.load(folder)
        return cls.of(loaded, model or model_of(loaded.task))

    @classmethod
    def of(cls, bundle: Bundle, model: Model) -> Frontier:
        """The frontier that a bundle holds; refuses a model that it was not made for."""
        if not bundle.columns:
            raise InvalidInput(f"expected a bundle with a frontier for task {bundle.task!r}, got one without")
        bundle.critic_for(model)  # checks that the model is the bundle's
        critic, scale, values = bundle.critic, bundle.cost_scale, bundle.values
        return cls(model, bundle.columns, bundle.budget, critic, scale, values, bundle.policies)

    @cached_property
    def planners(self) -> tuple[Planner, ...]:
        """One planner a column, made once: they keep their memory from episode to episode."""
        return tuple(
            planner_of(column.settings, self.model, self.critic, self.cost_scale, self.values, self.policies)
            for column in self.columns
        )

    def at(self, budget: ArrayLike | None = None, *, keep: Keep = "mean", share: float | None = None) -> MixedPolicy:
        """The best mixture within `budget`: its upper bound of cost keeps it, or `InfeasibleBudget` says what it can.

        `keep="mean"` limits the mean cost; `keep="chance"` also the `share` of episodes that cost more than the budget.
        """
        limits = self.model.validate_costs(self.budget if budget is None else budget, "budget")
        expect(keep in KEEPS, f"keep to be one of {KEEPS}", keep)
        expect((share is not None) == (keep == "chance"), 'a share with keep="chance", and only then', share)
        expect(share is None or 0 <= share <= 1, "a share of episodes from 0 to 1", share)
        return self._policy(self._best(limits, share), limits, keep, share)

    def shares(self, budget: Floats) -> Floats:
        """[K] how often each column is drawn to keep a budget on average."""
        return self._best(budget, None).weights

    def _best(self, limits: Floats, share: float | None) -> Mixed:
        every = range(len(self.columns))
        try:
            chosen = self._mixed("chosen", limits, share, every)
            return self._mixed("confirmed", limits, share, np.flatnonzero(chosen.weights > _NEGLIGIBLE).tolist())
        except InfeasibleBudget:  # by the choosing episodes, or fresh ones of what they chose: any column may help
            return self._mixed("confirmed", limits, share, every)

    def nearest(
        self, budget: ArrayLike | None = None, *, keep: Keep = "mean", share: float | None = None
    ) -> MixedPolicy:
        """The same; where the budget cannot be kept, a `BudgetWarning` says so and the thriftiest column is taken."""
        try:
            policy = self.at(budget, keep=keep, share=share)
        except InfeasibleBudget as error:
            limits = self.model.validate_costs(self.budget if budget is None else budget, "budget")
            warnings.warn(f"{error}; the thriftiest column is used", BudgetWarning, stacklevel=2)
            rows = self._rows("confirmed", limits, share, range(len(self.columns)))
            over = (rows.used - rows.limits) / np.append(self._scale, 1.0)[: len(rows.limits)]
            weights = np.zeros(len(self.columns))
            weights[int(np.argmin(over.max(axis=1)))] = 1.0
            return self._policy(Mixed(weights, np.zeros(len(rows.limits))), limits, keep, share)
        if (policy.budget > self.largest_costs + 1e-9).all():
            largest = ", ".join(f"{cost:.4g}" for cost in self.largest_costs)
            warnings.warn(
                f"expected a budget of at most {largest}, the most that any column spends, got "
                f"{policy.budget.tolist()}: the rest stays unspent",
                BudgetWarning,
                stacklevel=2,
            )
        return policy

    @property
    def least_costs(self) -> Floats:
        """[M] the least budgets that some column is sure to keep, each by itself."""
        return self._rows("confirmed", np.zeros(len(self.budget)), None, range(len(self.columns))).least()

    @property
    def largest_costs(self) -> Floats:
        """[M] the most that any column spends on average."""
        return np.asarray(np.max([column.confirmed.means[1:] for column in self.columns], axis=0))

    @property
    def _scale(self) -> Floats:
        return np.asarray(self.cost_scale or (1.0,) * self.model.cost_count)

    def _rows(self, kind: str, limits: Floats, share: float | None, support: Sequence[int]) -> Limits:
        return Limits.of([getattr(self.columns[k], kind) for k in support], limits, share)

    def _mixed(self, kind: str, limits: Floats, share: float | None, support: Sequence[int]) -> Mixed:
        """The best mixture of the columns in `support` by one kind of episodes, with a weight for every column."""
        rewards = np.array([getattr(self.columns[k], kind).reward for k in support])
        mixed = best_mixture(rewards, self._rows(kind, limits, share, support))
        weights = np.zeros(len(self.columns))
        weights[np.asarray(support, int)] = mixed.weights
        return Mixed(weights, mixed.prices)

    def _policy(self, mixed: Mixed, limits: Floats, keep: Keep, share: float | None) -> MixedPolicy:
        drawn = np.where(mixed.weights > _NEGLIGIBLE, mixed.weights, 0.0)
        drawn /= drawn.sum()
        order = sorted(np.flatnonzero(drawn).tolist(), key=lambda k: -drawn[k])
        return MixedPolicy(
            planners=tuple(self.planners[k] for k in order),
            columns=tuple(self.columns[k] for k in order),
            weights=drawn[order],
            budget=limits,
            keep=keep,
            share=share,
            prices=mixed.prices[: len(limits)],
        )
