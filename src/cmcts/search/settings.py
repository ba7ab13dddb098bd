"""How a tree is grown: the settings that every planner shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cmcts.errors import InvalidInput, expect

if TYPE_CHECKING:
    from cmcts.model.interface import Model

NEGLIGIBLE = 1e-3  # of what happens now
LONGEST_HORIZON = 1000
_COST_DISCOUNTS = "cost_discounts above 0 and at most 1"


@dataclass(frozen=True)
class SearchSettings:
    """How the tree is grown; the same for every planner."""

    discount: float = 0.95
    """gamma of the reward, and of every cost that has no other; 1 where episodes end."""
    cost_discounts: float | tuple[float, ...] | None = None
    """gamma of the costs, one number for all or one each; None is that of the reward. A budget of 5 at discount 1 is 5
    an episode."""
    iterations: int = 1024
    """Simulations a decision, where a plan is told neither how many nor how long."""
    exploration: float | None = None
    """k in the UCT score Q + k sqrt(log(N + 1) / n), in units of the reward scale; None: relative_exploration says."""
    relative_exploration: float = 1.5
    """k in the score Q + k sigma sqrt(sqrt(N + 1) / n), where sigma is the spread of the returns seen from a node: the
    same number suits rewards of every scale."""
    reward_scale: float = 1.0
    """What counts as a large reward: exploration and all multipliers that are searched for are in units of it, so that
    the same problem with rewards in cents is the same problem."""
    horizon: int | None = None
    """Tree and rollout together go at most this deep; None: until what lies ahead counts less than a thousandth, which
    is 135 steps at a discount of 0.95, and at most 1000."""
    rollout: Literal["directed", "uniform", "priced"] = "directed"
    """Follow the model's own rollout policy if it has one, or play legal actions at random, or follow the policy that
    the model has for the planner's prices (Model.at_prices; planners with fixed multipliers alone)."""
    thrifty_rollouts: bool = False
    """Rollouts refuse a step whose expected cost exceeds what is left of the budget."""
    guarded_rollouts: bool = False
    """Thrifty, and rollouts refuse steps that the critic finds unsafe (C-MCTS): dead ends then look like dead ends."""
    rollouts: int = 1
    """Rollouts a leaf."""
    stratified: bool = True
    """Spread an action's random outcomes (a step's first draw) evenly over its visits: means vary less."""
    widening_factor: float = 0.0
    """Progressive widening: at most factor * n^power outcomes of an action visited n times. 0 is no limit."""
    widening_power: float = 0.5
    """The exponent of progressive widening."""
    cost_samples: int = 8
    """Steps that estimate an action's immediate cost, for models that do not say it."""
    max_nodes: int = 1 << 17
    """Room in the tree of a search that is limited by time."""

    def __post_init__(self) -> None:
        expect(0.0 < self.discount <= 1.0, "a discount above 0 and at most 1", self.discount)
        costs = self.cost_discounts
        if isinstance(costs, Sequence):
            costs = tuple(float(discount) for discount in costs)
            object.__setattr__(self, "cost_discounts", costs)
            expect(len(costs) >= 1 and all(0.0 < discount <= 1.0 for discount in costs), _COST_DISCOUNTS, costs)
        elif costs is not None:
            expect(0.0 < costs <= 1.0, _COST_DISCOUNTS, costs)
        for name in ("exploration", "relative_exploration"):
            width = getattr(self, name)
            expect(width is None or (width >= 0 and math.isfinite(width)), f"{name} >= 0", width)
        expect(self.reward_scale > 0 and math.isfinite(self.reward_scale), "reward_scale > 0", self.reward_scale)
        for name in ("iterations", "horizon", "rollouts", "cost_samples", "max_nodes"):
            value = getattr(self, name)
            sound = (isinstance(value, int) and value >= 1) or (name == "horizon" and value is None)
            expect(sound, f"{name} to be an integer >= 1", value)
        known = ("directed", "uniform", "priced")
        expect(self.rollout in known, 'rollout to be "directed", "uniform" or "priced"', self.rollout)
        expect(self.widening_factor >= 0, "widening_factor >= 0", self.widening_factor)
        expect(0 < self.widening_power <= 1, "widening_power in (0, 1]", self.widening_power)

    def discounts_of_costs(self, cost_count: int) -> tuple[float, ...]:
        """The discount of each of so many costs."""
        costs = self.discount if self.cost_discounts is None else self.cost_discounts
        if not isinstance(costs, tuple):
            return (float(costs),) * cost_count
        expect(len(costs) == cost_count, f"{cost_count} cost_discounts, one a constraint", costs)
        return costs

    def steps_ahead(self, cost_count: int) -> int:
        """How deep tree and rollout together go."""
        if self.horizon is not None:
            return self.horizon
        slowest = max(self.discount, *self.discounts_of_costs(cost_count))
        if slowest**LONGEST_HORIZON >= NEGLIGIBLE:
            return LONGEST_HORIZON
        return math.ceil(math.log(NEGLIGIBLE) / math.log(slowest))

    def discounts_for(self, model: Model) -> tuple[float, ...]:
        """The discount of each cost of a model; refuses 1 where its episodes may go on for ever."""
        costs = self.discounts_of_costs(model.cost_count)
        if not model.episodes_end and 1.0 in (self.discount, *costs):
            raise InvalidInput(
                f"expected discounts below 1 for model {model.name!r}, whose episodes may go on for ever, got "
                f"{self.discount} for the reward and {costs} for the costs; Task(episode_steps=...) or with_time ends "
                "episodes after a number of steps, and Model(episodes_end=True) says that they end by themselves"
            )
        return costs
