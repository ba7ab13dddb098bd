"""Three planners over one search. They differ in what they prune, how they weigh costs, and how they choose.

| planner | in the tree | at the root |
| --- | --- | --- |
| `CMCTS` | the safety critic prunes; lambda is 0 | the best value among the safe actions |
| `CCMCP` | lambda tuned after every simulation | a mixture of two actions on the budget |
| `PenalizedMCTS` | lambda fixed | the best penalised value |

A fourth, in threshold_uct.py, has a search of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.critic.ensemble import SafetyCritic, immediate_costs_only
from cmcts.critic.values import LeafValues
from cmcts.errors import BudgetWarning, expect, users_stack_level
from cmcts.model.interface import Model
from cmcts.planning.decision import Decision
from cmcts.planning.mixtures import mixture_program, two_action_mixture, worth_their_cost
from cmcts.planning.planner import Planner
from cmcts.planning.roots import Probabilities, Roots
from cmcts.random import Stream
from cmcts.search.kernels import Rules
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings


class PenalizedMCTS(Planner):
    """MCTS on the penalised reward r - lambda c, with lambda fixed (Definition 2 of the paper).

    With `values`, leaves are judged by what was learned of reward and costs to go, instead of by rollouts. With
    `rollout="priced"`, rollouts follow the policy that the model has for these multipliers.
    """

    keeps_prices = True

    def __init__(
        self,
        model: Model,
        multiplier: ArrayLike,
        search: SearchSettings | None = None,
        *,
        critic: SafetyCritic | None = None,
        pruning: PruningSettings | None = None,
        values: LeafValues | None = None,
    ) -> None:
        prices = model.validate_costs(multiplier, "multiplier")
        if search is not None and search.rollout == "priced":
            model = model.rolling_out_at(prices, search.discount)
        super().__init__(model, search, critic=critic, pruning=pruning, values=values)
        self._multipliers = prices

    @property
    def minds_budget(self) -> bool:
        """Only where a critic prunes by it, or rollouts refuse what it does not pay for."""
        return self.pruning is not None or self.search.thrifty_rollouts

    def decides_by_state(self, budget: ArrayLike) -> bool:
        """Also where nothing may be spent, for what was paid leaves nothing of nothing."""
        return not self.minds_budget or not (np.any(budget) or self.charges_expected_costs)

    def initial_multipliers(self) -> NDArray[np.float64]:
        """[M] lambda, which stays what it is."""
        return self._multipliers.copy()


class CMCTS(PenalizedMCTS):
    """C-MCTS: the safety critic prunes unsafe actions wherever the tree is expanded (Algorithm 1).

    Deployment has no multiplier; `multiplier` is for gathering training data, where the penalised problem is solved
    under the latest critic, and for columns of a frontier. With `values`, leaves are judged by what was learned of
    reward and costs to go at that multiplier, instead of by rollouts.
    """

    def __init__(
        self,
        model: Model,
        critic: SafetyCritic,
        search: SearchSettings | None = None,
        pruning: PruningSettings | None = None,
        multiplier: ArrayLike | None = None,
        *,
        trained_budget: ArrayLike | None = None,
        values: LeafValues | None = None,
    ) -> None:
        weights = np.zeros(model.cost_count) if multiplier is None else multiplier
        super().__init__(model, weights, search, critic=critic, pruning=pruning or PruningSettings(), values=values)
        self._trained_budget = (
            None if trained_budget is None else model.validate_costs(trained_budget, "trained_budget")
        )

    def tolerating(self, most: float) -> CMCTS:
        """This planner with at most so many cost scales of tolerance at every step; itself, if it has no more.

        By expected accounting, tolerance is granted once an episode, and stays what it is.
        """
        assert self.pruning is not None
        if self.pruning.tolerance <= most or self.charges_expected_costs:
            return self
        careful = copy(self)
        careful._pruning = replace(self.pruning, tolerance=most)
        return careful

    def begin_with(self, budget: NDArray[np.float64]) -> None:
        """A `BudgetWarning` for a budget that the critic was not trained and tried for."""
        if self._trained_budget is not None and not np.allclose(budget, self._trained_budget, atol=1e-9):
            warnings.warn(
                f"expected a budget of {self._trained_budget.tolist()}, which the critic was trained and tried for, "
                f"got {budget.tolist()}: nobody has measured how well it keeps that",
                BudgetWarning,
                stacklevel=users_stack_level(),
            )

    @classmethod
    def load(cls, folder: str | Path, model: Model | None = None) -> CMCTS:
        """The planner of a trained bundle, with the settings it was found best with.

        The folder is what `cmcts train` wrote; the name of a task whose critic ships with the library will do where
        there is no folder of that name. `model` is needed only for a task that is not built in. A `BudgetWarning` says
        so where the training found no critic that keeps the budget: it then prunes by immediate costs alone, which was
        not found to keep it either.
        """
        from cmcts.critic import bundle  # a bundle holds planners' settings, so it cannot be imported before them
        from cmcts.tasks.registry import model_of

        loaded = bundle.load(folder)
        model = model or model_of(loaded.task)
        trained = None if loaded.critic is None else loaded.budget
        if loaded.nothing_feasible:
            warnings.warn(
                f"the training in {folder} found no critic that keeps the budget: this planner prunes by immediate "
                "costs alone, which was not found to keep it either",
                BudgetWarning,
                stacklevel=users_stack_level(),
            )
        return cls(model, loaded.critic_for(model), loaded.search, loaded.pruning, trained_budget=trained)


@dataclass(frozen=True)
class CCMCPSettings:
    """The online search for the multiplier, and what is made of it."""

    initial_multiplier: float = 2.0
    """lambda at the start of an episode, in units of reward scale a cost scale; later steps go on from the last one."""
    maximum_multiplier: float = 30.0
    """The largest lambda that is tried, in the same units."""
    tie_band: float = 0.1
    """Root actions within this times the sum of their sqrt(log(n + 1) / (n + 1)) of the best count as equally good, in
    units of the reward scale."""
    ties: Literal["earn", "spend"] = "earn"
    """Of equally good actions, mix in a dearer one only if it earns more, or (as published) up to the budget."""
    charge: Literal["expected", "larger", "paid"] = "larger"
    """What a step takes from the budget: the cost that the model expected at once, which keeps the budget on average
    where the world follows the model; the larger of that and what was paid, where it may not; or (as published) what
    was paid, which lets everybody who was lucky keep the whole budget."""

    def __post_init__(self) -> None:
        expect(self.maximum_multiplier > 0, "maximum_multiplier > 0", self.maximum_multiplier)
        within = 0 <= self.initial_multiplier <= self.maximum_multiplier
        expect(within, f"initial_multiplier in [0, {self.maximum_multiplier}]", self.initial_multiplier)
        expect(self.tie_band >= 0, "tie_band >= 0", self.tie_band)
        expect(self.ties in ("earn", "spend"), 'ties to be "earn" or "spend"', self.ties)
        expect(
            self.charge in ("expected", "larger", "paid"), 'charge to be "expected", "larger" or "paid"', self.charge
        )

    @classmethod
    def published(cls) -> CCMCPSettings:
        """The rules of the published CC-POMCP program."""
        return cls(ties="spend", charge="paid")


class CCMCP(Planner):
    """CC-MCP (Lee et al. 2018): lambda follows the root's cost estimate during the search.

    The decision is stochastic: among the root actions that are as good as the best one, a cheap and a dear one are
    mixed so that the expected cost meets the budget. With several constraints, a linear program does the same.
    """

    def __init__(
        self,
        model: Model,
        search: SearchSettings | None = None,
        settings: CCMCPSettings | None = None,
        *,
        cost_scale: Sequence[float] = (),
    ) -> None:
        scale = model.validate_costs(cost_scale or np.ones(model.cost_count), "cost_scale")
        expect(bool((scale > 0).all()), "cost_scale > 0", cost_scale)
        super().__init__(model, search, critic=immediate_costs_only(model, tuple(scale.tolist())))
        self._settings = settings or CCMCPSettings()

    @property
    def settings(self) -> CCMCPSettings:
        """The online search for the multiplier."""
        return self._settings

    def initial_multipliers(self) -> NDArray[np.float64]:
        """[M] lambda at the start of an episode, which the search then moves."""
        return self.settings.initial_multiplier / np.asarray(self.critic.cost_scale) * self.search.reward_scale

    def next_budget(self, decision: Decision, paid: NDArray[np.float64], rng: Stream) -> NDArray[np.float64]:
        """What is left after the decision's action, by the rule that the settings name."""
        if self.settings.charge != "paid":
            expected = self.immediate_costs(decision.state, decision.action, rng)
            paid = expected if self.settings.charge == "expected" else np.maximum(paid, expected)
        return super().next_budget(decision, paid, rng)

    def _rules(self) -> Rules:
        return super()._rules()._replace(tune_multipliers=True, multiplier_max=float(self.settings.maximum_multiplier))

    def _policies(self, roots: Roots, values: NDArray[np.float64], open_: NDArray[np.bool_]) -> Probabilities:
        return np.stack([self._policy(roots, k, values[k], open_[k]) for k in range(len(values))])

    def _policy(self, roots: Roots, k: int, values: NDArray[np.float64], open_: NDArray[np.bool_]) -> Probabilities:
        """[A] of search k: a mixture among the actions that are as good as the best."""
        visits = np.maximum(roots.tree.action_visits[k].astype(np.float64), 0.0)
        noise = self.settings.tie_band * np.sqrt(np.log(visits + 1.0) / (visits + 1.0)) * self.search.reward_scale
        best = int(np.argmax(np.where(open_, values, -np.inf)))
        ties = np.flatnonzero(open_ & (np.abs(values - values[best]) <= noise + noise[best]))
        costs, budget = roots.tree.cost_values[k].reshape(-1, self.model.cost_count), roots.budgets[k]
        if self.settings.ties == "earn":
            ties = worth_their_cost(ties, roots.tree.reward_values[k], costs, noise)
        policy = np.zeros(len(values))
        if self.model.cost_count == 1:
            low, high = ties[np.argmin(costs[ties, 0])], ties[np.argmax(costs[ties, 0])]
            policy[[low, high]] = two_action_mixture(costs[low, 0], costs[high, 0], budget[0])
            if low == high:
                policy[low] = 1.0
        else:
            scale = np.asarray(self.critic.cost_scale)
            prices = roots.multipliers[k] * scale / self.search.reward_scale
            policy[ties] = mixture_program(costs[ties] / scale, budget / scale, prices)
        return policy
