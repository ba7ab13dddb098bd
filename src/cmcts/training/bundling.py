"""What a training leaves: a frontier guarded by the critic that was kept, if one was, and the bundle of both."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.bundle import DOES_NOT_PAY, Bundle
from cmcts.critic.ensemble import SafetyCritic, ensemble
from cmcts.critic.identity import code_digests, model_digest
from cmcts.critic.support import Support
from cmcts.critic.weights import Layers
from cmcts.frontier.generation import Generated, Guard, generate
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.training.critics import Critics
from cmcts.training.earlier import Earlier, brought_along
from cmcts.training.gathering import Gathering
from cmcts.training.judging import pruning_of
from cmcts.training.stages import Stages
from cmcts.training.values import fit_values
from cmcts.version import __version__


@dataclass(frozen=True, eq=False)
class Kept:
    """The critic that is kept, with the pruning and search that it was found best with."""

    layers: Layers
    support: Support | None
    pruning: PruningSettings
    search: SearchSettings
    cost_scale: NDArray[np.float64]  # [M]
    origin: Earlier | None = None
    """The earlier training that it is of; None for this one."""

    @classmethod
    def trained(cls, stages: Stages, critics: Critics, best: dict[str, Any]) -> Kept:
        """The critic of this training that was confirmed."""
        round_, settings = best["round"], stages.settings
        layers, support = critics.layers(round_), critics.support(round_)
        return cls(layers, support, pruning_of(best, settings), settings.search, stages.cost_scale)

    @classmethod
    def of_earlier(cls, earlier: Earlier) -> Kept | None:
        """The critic of an earlier training, if it has one, on the scale of costs that it was trained with."""
        bundle = earlier.bundle
        if bundle is None or bundle.layers is None:
            return None
        scale = np.array(bundle.cost_scale)
        return cls(bundle.layers, bundle.support, bundle.pruning, bundle.search, scale, earlier)

    @property
    def critic(self) -> SafetyCritic:
        """It, ready for a planner."""
        weights, biases = zip(*self.layers, strict=True)
        return ensemble(weights, biases, len(self.cost_scale), self.cost_scale.tolist(), self.support)


def build_frontier(stages: Stages, kept: Kept | None, earlier: Sequence[Earlier] = ()) -> Generated:
    """Policies for a frontier, with and without the critic that is kept; none if none are asked for."""
    settings = stages.settings
    if settings.frontier.columns == 0:
        return Generated((), None, {})
    guard = None if kept is None else Guard(kept.critic, kept.pruning, kept.search)
    scale = stages.cost_scale if kept is None else kept.cost_scale
    # The training's own search and pruning, which need not be the task's.
    task = dataclasses.replace(stages.task, search=settings.search, pruning=settings.pruning)
    return generate(
        task,
        settings.frontier,
        settings.seed,
        guard,
        scale,
        stages,
        fit_values,
        stages.device,
        stages.executor,
        brought_along(earlier, None if kept is None else kept.origin, scale, settings.frontier.columns // 2),
    )


def assemble(
    stages: Stages,
    gathering: Gathering,
    kept: Kept | None,
    record: dict[str, Any] | None,
    frontier: Generated,
    rounds: int,
    *,
    pays: bool,
) -> Bundle:
    """The critic that is kept, if one is, with the record of what it did, and the frontier, with all they need."""
    model, settings, history = stages.model, stages.settings, stages.run.history
    figures: dict[str, Any] = {
        "seed": settings.seed,
        "target": settings.critic.target,
        "rounds": rounds,
        "episodes": sum(row.get("episodes", 0) for row in history),
        "simulations": settings.iterations * sum(row.get("steps", 0) for row in history)
        + sum(row.get("simulations", 0) for row in history),
        "transitions": sum(map(len, gathering.transitions)),
    }
    if not pays:
        figures["critic"] = DOES_NOT_PAY
    if kept is not None and record is not None:
        figures |= {name: record[name] for name in ("reward_mean", "reward_se", "cost_means", "violations")}
        figures |= {"chosen_round": record["round"]} if kept.origin is None else {"from": kept.origin.name}
        figures["evaluation_episodes"] = settings.evaluation_episodes
    return Bundle(
        task=stages.task.name,
        model_digest=model_digest(model),
        feature_description=model.feature_description,
        layers=None if kept is None else kept.layers,
        support=None if kept is None else kept.support,
        cost_count=model.cost_count,
        search=settings.search if kept is None else kept.search,
        pruning=pruning_of(None, settings) if kept is None else kept.pruning,
        budget=stages.task.budget,
        training=figures,
        library=__version__,
        cost_scale=tuple((stages.cost_scale if kept is None else kept.cost_scale).tolist()),
        columns=frontier.columns,
        values=frontier.values,
        policies=frontier.policies,
        code=code_digests(model),
    )
