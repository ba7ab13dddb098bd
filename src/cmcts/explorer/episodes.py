"""An episode as it was played, with all that is behind its decisions, and as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cmcts.evaluation.playing import Picture, Step, first_picture, play_episode
from cmcts.explorer.decisions import decision_data
from cmcts.explorer.pictures import MODES, Album
from cmcts.explorer.truth import Truth
from cmcts.planning.agent import Agent
from cmcts.planning.monitor import Intervention, SafetyMonitor
from cmcts.tasks.task import Task


@dataclass(frozen=True, eq=False)
class Episode:
    """One episode in a task's real world, from its first picture to its last step."""

    task: Task
    seed: int
    budget: tuple[float, ...]
    """What could be spent."""
    first_picture: Picture
    steps: tuple[Step, ...]
    interventions: tuple[Intervention, ...] = ()
    """Steps at which a safety monitor did not let its policy have its way."""
    forced: Mapping[int, int] = field(default_factory=dict)
    """Steps, from 0, that took another action than was decided."""
    name: str = ""
    """What is special about it, for the page: which column of a frontier played, which action was forced."""

    @property
    def tree_sizes(self) -> list[int]:
        """The nodes of every tree that its decisions hold."""
        return [step.decision.tree_size for step in self.steps if step.decision.tree is not None]


def record(
    task: Task,
    player: Agent | SafetyMonitor,
    *,
    seed: int = 0,
    forced: Mapping[int, int] | None = None,
    name: str = "",
) -> Episode:
    """Play an episode in the task's real world and keep all of it.

    Trees are kept if the player was made with `keep_tree=True`. `forced` says which steps, from 0, take which action
    instead of the one that is decided.
    """
    budget = tuple(player.budget.tolist())
    steps = tuple(play_episode(task, player, seed=seed, modes=MODES, forced=forced))
    interventions = tuple(player.interventions) if isinstance(player, SafetyMonitor) else ()
    return Episode(task, seed, budget, first_picture(task, seed, MODES), steps, interventions, dict(forced or {}), name)


def episode_data(episode: Episode, album: Album, node_limit: int, truth: Truth | None = None) -> dict[str, Any]:
    """The episode for a page; step k shows the world in which decision k was made."""
    pictures = [episode.first_picture, *(step.picture for step in episode.steps)]
    interventions = {intervention.step: intervention.to_dict() for intervention in episode.interventions}
    steps = [
        {
            "decision": decision_data(step.decision, node_limit, truth),
            "picture": album.add(drawn),
            "reward": step.reward,
            "costs": step.costs.tolist(),
            "total_reward": step.discounted_reward,
            "total_costs": step.discounted_costs.tolist(),
            "intervention": interventions.get(number),
            "forced": number in episode.forced,
        }
        for number, (step, drawn) in enumerate(zip(episode.steps, pictures[:-1], strict=True))
    ]
    return {
        "name": episode.name,
        "seed": episode.seed,
        "budget": list(episode.budget),
        "steps": steps,
        "end": {"picture": album.add(pictures[-1]), "terminated": episode.steps[-1].terminated},
    }
