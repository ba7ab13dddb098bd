"""One decision as the page shows it: what `Decision.to_dict` says, and by how much each action was refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.explorer.trees import tree_data
from cmcts.explorer.truth import Truth
from cmcts.planning.decision import Decision


def decision_data(decision: Decision, node_limit: int, truth: Truth | None = None) -> dict[str, Any]:
    """The decision and its tree for a page; `truth` adds what actions really cost."""
    data = decision.to_dict()
    del data["seconds"]  # the same episode is the same page
    excess = excesses(decision)
    exact = None if truth is None else truth.of(decision.state)
    for row in data["actions"]:
        action = row["action"]
        row["refused_by"] = np.flatnonzero(decision.pruned_by[action]).tolist()
        row["excess"] = [excess[action, m] for m in row["refused_by"]]
        row["exact"] = None if exact is None else exact[action].tolist()
    pruning = decision.pruning
    data["pruning"] = None if pruning is None else {"tolerance": pruning.tolerance, "sigma_max": pruning.sigma_max}
    data["cost_scale"] = None if decision.cost_scale is None else decision.cost_scale.tolist()
    discounts = decision.cost_discounts
    data["cost_discounts"] = None if discounts is None else discounts.tolist()
    data["tree"] = tree_data(decision, node_limit)
    return data


def excesses(decision: Decision) -> NDArray[np.float64]:
    """[A, M] by how much what an action was predicted to cost, less the tolerance, exceeds what is left.

    That is the critic's word where it is trusted, and the expected immediate cost where that is more and the model
    says it.
    """
    model, pruning = decision.model, decision.pruning
    if decision.charges is not None:
        return decision.charges - decision.budget
    if pruning is None or decision.critic_mean is None or decision.critic_sigma is None:
        return np.zeros((model.action_count, model.cost_count))
    scale = np.ones(model.cost_count) if decision.cost_scale is None else decision.cost_scale
    trusted = decision.critic_sigma <= pruning.sigma_max * scale
    predicted = np.where(trusted, decision.critic_mean - pruning.tolerance * scale, -np.inf)
    if pruning.cost_floor and model.has_expected_costs:
        floors = np.zeros_like(predicted)
        for action in np.flatnonzero(decision.legal):
            model.uncompiled.expected_costs(model.params, decision.state, int(action), floors[action])
        predicted = np.maximum(predicted, floors)
    return np.asarray(predicted - decision.budget)
