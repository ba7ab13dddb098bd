"""A planner's settings as the plain numbers that the kernels read."""

from __future__ import annotations

import math

from cmcts.critic.values import LeafValues
from cmcts.model.interface import Model
from cmcts.search.kernels import Rules
from cmcts.search.pruning import LOWEST_MEAN, LOWEST_PESSIMISTIC, PruningSettings
from cmcts.search.settings import SearchSettings


def rules_for(
    model: Model, search: SearchSettings, pruning: PruningSettings | None, values: LeafValues | None
) -> Rules:
    """A search of this model by these settings; nothing is pruned without `pruning`, and lambda stays what it is."""
    judged = pruning or PruningSettings()
    guarded = search.guarded_rollouts and pruning is not None
    width = search.exploration
    return Rules(
        # A whole number would be another type to Numba, and another compilation.
        discount=float(search.discount),
        exploration=float(search.relative_exploration if width is None else width * search.reward_scale),
        relative_exploration=width is None,
        horizon=search.steps_ahead(model.cost_count),
        own_rollout=search.rollout != "uniform" and model.has_rollout_action,
        thrifty_rollout=search.thrifty_rollouts or guarded,
        guarded_rollout=guarded,
        rollouts=search.rollouts,
        stratified=search.stratified,
        widening_factor=float(search.widening_factor),
        widening_power=float(search.widening_power),
        has_expected_costs=model.has_expected_costs,
        cost_samples=search.cost_samples,
        use_critic=pruning is not None,
        remember_critic=True,
        sigma_max=float(judged.sigma_max),
        tolerance=float(judged.tolerance),
        cost_floor=judged.cost_floor,
        refuse_unsure=judged.unsure == "refuse",
        fallback=LOWEST_MEAN if judged.fallback == "lowest_mean" else LOWEST_PESSIMISTIC,
        expected_accounting=judged.accounting == "expected",
        tune_multipliers=False,
        reward_scale=float(search.reward_scale),
        multiplier_max=math.inf,
        leaf_values=values is not None,
        value_doubt=math.inf if values is None else float(values.doubt),
    )
