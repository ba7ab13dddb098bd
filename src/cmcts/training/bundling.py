"""What a training leaves: a frontier guarded by the critic that was kept, if one was, and the bundle of both."""

from __future__ import annotations

import dataclasses
from typing import Any

from cmcts.critic.bundle import Bundle
from cmcts.critic.identity import code_digests, model_digest
from cmcts.frontier.generation import Generated, Guard, generate
from cmcts.training.critics import Critics
from cmcts.training.gathering import Gathering
from cmcts.training.judging import pruning_of
from cmcts.training.stages import Stages
from cmcts.training.values import fit_values
from cmcts.version import __version__


def build_frontier(stages: Stages, critics: Critics, best: dict[str, Any] | None) -> Generated:
    """Policies for a frontier, with and without the critic that was confirmed; none if none are asked for."""
    settings = stages.settings
    if settings.frontier.columns == 0:
        return Generated((), None)
    guard = None
    if best is not None:
        guard = Guard(critics.critic(best["round"]), pruning_of(best, settings), settings.search)
    # The training's own search and pruning, which need not be the task's.
    task = dataclasses.replace(stages.task, search=settings.search, pruning=settings.pruning)
    return generate(
        task,
        settings.frontier,
        settings.seed,
        guard,
        stages.cost_scale,
        stages,
        fit_values,
        stages.device,
        stages.executor,
    )


def assemble(
    stages: Stages,
    gathering: Gathering,
    critics: Critics,
    best: dict[str, Any] | None,
    frontier: Generated,
    rounds: int,
) -> Bundle:
    """The best critic, if one was confirmed, and the frontier, with all they need."""
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
    if best is not None:
        kept = ("reward_mean", "reward_se", "cost_means", "violations")
        figures |= {"chosen_round": best["round"], **{name: best[name] for name in kept}}
        figures["evaluation_episodes"] = settings.evaluation_episodes
    return Bundle(
        task=stages.task.name,
        model_digest=model_digest(model),
        feature_description=model.feature_description,
        layers=None if best is None else critics.layers(best["round"]),
        support=None if best is None else critics.support(best["round"]),
        cost_count=model.cost_count,
        search=settings.search,
        pruning=pruning_of(best, settings),
        budget=stages.task.budget,
        training=figures,
        library=__version__,
        cost_scale=tuple(stages.cost_scale.tolist()),
        columns=frontier.columns,
        values=frontier.values,
        code=code_digests(model),
    )
