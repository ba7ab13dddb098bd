"""Threshold UCT: a planner that knows, at every node, what each expected cost would earn."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.critic.ensemble import SafetyCritic, immediate_costs_only
from cmcts.errors import InvalidInput, expect
from cmcts.model.interface import Model
from cmcts.planning.decision import Decision, Handover
from cmcts.planning.planner import Planner
from cmcts.planning.roots import draw_action
from cmcts.planning.rules import rules_for
from cmcts.random import Stream
from cmcts.search.curve_session import CurveSession
from cmcts.search.kernels import Rules
from cmcts.search.lanes import Lanes
from cmcts.search.pruning import ROUNDING, PruningSettings
from cmcts.search.session import SearchSession
from cmcts.search.settings import SearchSettings


class ThresholdUCT(Planner):
    """Threshold UCT (Kurecka et al. 2025): curves of reward against expected cost, and a threshold handed down them.

    The decision is the root curve's vertex at the budget, or a coin tossed between the two beside it. What is left
    after a step depends on where it led: the budget is handed to the outcomes along their curves, so that it is kept on
    average and not by every episode. One constraint only, and on the CPU.

    In its decisions, `reward_values` and `cost_values` are where each action's curve is at the budget, or at the vertex
    that the coin may choose; `curve` is the root's. Where it begins beyond the budget nothing is safe, and the cheapest
    is taken.

    `caution` is by how many standard errors an action's curve is lowered, and made dearer, before the best of several
    is taken, which would else be a promise that luck has made. With a `critic`, no action costs less than that expects,
    by the same `pruning` settings of doubt and tolerance as C-MCTS; nothing is pruned, and what it is unsure of costs
    what the model says.
    """

    def __init__(
        self,
        model: Model,
        search: SearchSettings | None = None,
        *,
        critic: SafetyCritic | None = None,
        pruning: PruningSettings | None = None,
        caution: float = 1.0,
        cost_scale: Sequence[float] = (),
    ) -> None:
        if model.cost_count != 1:
            names = ", ".join(model.cost_name(m) for m in range(model.cost_count))
            raise InvalidInput(
                f"expected a model with one constraint for ThresholdUCT, whose curves have one cost, got "
                f"{model.cost_count}: {names}"
            )
        expect(caution >= 0.0 and math.isfinite(caution), "caution >= 0", caution)
        scale = model.validate_costs(cost_scale or np.ones(1), "cost_scale")
        expect(bool((scale > 0).all()), "cost_scale > 0", cost_scale)
        expect(critic is not None or pruning is None, "pruning settings with a critic alone", pruning)
        expect(critic is None or not cost_scale, "no cost_scale beside a critic, which has one", cost_scale)
        super().__init__(model, search, critic=critic or immediate_costs_only(model, tuple(scale.tolist())))
        self._floors = None if critic is None else pruning or PruningSettings()
        self._caution = float(caution)

    @property
    def caution(self) -> float:
        """How many standard errors curves are lowered by."""
        return self._caution

    @property
    def roots_add_up(self) -> bool:
        """Curves of different trees do not."""
        return False

    @property
    def runs_on_gpu(self) -> bool:
        """Curves are merged on the CPU."""
        return False

    @property
    def lanes(self) -> Lanes:
        """Refused: there are none."""
        raise InvalidInput('expected device "cpu" for ThresholdUCT, got a GPU: it plans on the CPU alone')

    @property
    def settles_on_arrival(self) -> bool:
        """Each outcome has a share of its own."""
        return True

    def session(self) -> CurveSession:
        """A search of the caller's own, for `plan_in`."""
        return CurveSession(
            self.model,
            self.critic,
            self._rules(),
            self.critic.cost_scale,
            self.cost_discounts.tolist(),
            self.search.max_nodes,
            self.caution,
        )

    def _rules(self) -> Rules:
        rules = rules_for(self.model, self.search, self._floors, None)
        return rules._replace(use_critic=False, guarded_rollout=self._floors is not None)

    def next_budget(self, decision: Decision, paid: NDArray[np.float64], rng: Stream) -> NDArray[np.float64]:
        """(limit - paid) / gamma, with the limit that the action was chosen for, or the budget if it was overridden.

        It may be below 0: what the outcome is given comes on arrival.
        """
        handover = _handover(decision)
        limit = decision.budget if handover is None else handover.limit
        return np.asarray((limit - paid) / self._cost_discounts)

    def arrival_share(self, decision: Decision, state: ArrayLike, rng: Stream) -> NDArray[np.float64]:
        """What the outcome was given; nothing if the search did not foresee it, which then pays for itself."""
        handover = _handover(decision)
        return np.zeros(1) if handover is None else np.array([handover.to(state)])

    def _decide_in(self, session: SearchSession, seconds: float, keep_tree: bool) -> Decision:
        assert isinstance(session, CurveSession)
        decision = super()._decide_in(session, seconds, keep_tree)
        curve = session.root_curve()
        if curve is None:  # a single simulation has tried nothing
            return decision
        budget = float(decision.budget[0])
        low, high, chance = curve.around(budget)
        cheaper, dearer = int(curve.actions[low]), int(curve.actions[high])
        probabilities, limits = np.zeros(len(decision.legal)), {cheaper: budget}
        probabilities[cheaper] = 1.0
        if cheaper != dearer and chance > 0.0:
            probabilities[[cheaper, dearer]] = 1.0 - chance, chance
            limits = {cheaper: float(curve.costs[low]), dearer: float(curve.costs[high])}
        rewards, costs = decision.reward_values.copy(), decision.cost_values.copy()
        for action in np.flatnonzero(decision.legal).tolist():
            found = session.action_curve(action)
            if found is not None:
                costs[action, 0] = np.clip(limits.get(action, budget), found[0][0], found[0][-1])
                rewards[action] = np.interp(costs[action, 0], *found)
        action = draw_action(probabilities, session.rng)
        limit = limits[action]
        return dataclasses.replace(
            decision,
            action=action,
            probabilities=probabilities,
            reward_values=rewards,
            cost_values=costs,
            curve=np.stack([curve.costs, curve.rewards], axis=1),
            handover=Handover(action, limit, *session.hand_over(action, limit)),
            nothing_safe=bool(curve.costs[0] > budget + ROUNDING * max(1.0, budget)),
        )


def _handover(decision: Decision) -> Handover | None:
    """The decision's handover, unless something else decided on another action."""
    handover = decision.handover
    return handover if handover is not None and handover.action == decision.action else None
