"""Episodes played again: a step planned with other settings, or another action forced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cmcts.errors import InvalidInput, expect
from cmcts.explorer.assembly import MAX_NODES, node_limit
from cmcts.explorer.decisions import decision_data
from cmcts.explorer.episodes import Episode, episode_data, record
from cmcts.explorer.pictures import Album
from cmcts.explorer.truth import Truth
from cmcts.planning.agent import Agent
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CCMCP, PenalizedMCTS

MAX_ITERATIONS = 1 << 20  # a page waits for them


@dataclass(frozen=True)
class PlanAgain:
    """A step of an episode, and what to plan it with instead; what is not named stays as it was."""

    episode: int
    step: int
    budget: tuple[float, ...] | None = None
    iterations: int | None = None
    tolerance: float | None = None
    price: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        possible = self.iterations is None or 1 <= self.iterations <= MAX_ITERATIONS
        expect(possible, f"iterations from 1 to {MAX_ITERATIONS}", self.iterations)


@dataclass(frozen=True)
class Force:
    """A step of an episode, and the action to take there; the planner decides what follows."""

    episode: int
    step: int
    action: int


class Laboratory:
    """Episodes that were played, and how to make the players that can play them again."""

    def __init__(
        self, episodes: Sequence[Episode], players: Sequence[Callable[[], Agent]], known: Truth | None
    ) -> None:
        self._episodes, self._players, self._truth = list(episodes), list(players), known

    def plan_again(self, asked: PlanAgain) -> dict[str, Any]:
        """The decision of a step under other settings, for the page."""
        episode = self._episode(asked.episode, asked.step)
        before, player = episode.steps[asked.step].decision, self._players[asked.episode]()
        again = changed(player.planner, asked).plan(
            before.state,
            before.budget if asked.budget is None else asked.budget,
            iterations=asked.iterations or before.iterations,
            rng=episode.seed,
            keep_tree=True,
        )
        return {"decision": decision_data(again, MAX_NODES, self._truth)}

    def force(self, asked: Force) -> dict[str, Any]:
        """The episode with another action at a step, played to its end, for the page.

        What was forced before that step stays forced.
        """
        episode, player = self._episode(asked.episode, asked.step), self._players[asked.episode]
        earlier = {step: action for step, action in episode.forced.items() if step < asked.step}
        forced = earlier | {asked.step: asked.action}
        again = record(episode.task, player(), seed=episode.seed, forced=forced)
        name = episode.task.model.action_name
        words = ", ".join(f"{name(action)} forced at step {step + 1}" for step, action in forced.items())
        again = dataclasses.replace(again, name=words)
        self._episodes.append(again)
        self._players.append(player)
        album = Album()
        shown = episode_data(again, album, node_limit(again.tree_sizes), self._truth)
        return {"episode": shown, "pictures": album.pages}

    def _episode(self, number: int, step: int) -> Episode:
        expect(0 <= number < len(self._episodes), f"an episode from 0 to {len(self._episodes) - 1}", number)
        steps = len(self._episodes[number].steps)
        expect(0 <= step < steps, f"a step from 0 to {steps - 1}", step)
        return self._episodes[number]


def changed(planner: Planner, asked: PlanAgain) -> Planner:
    """The planner with another tolerance or price, where it has them."""
    if isinstance(planner, CCMCP) and asked.tolerance is None and asked.price is None:
        return planner
    if not isinstance(planner, PenalizedMCTS):
        raise InvalidInput(f"expected a planner with a tolerance and a price, got {type(planner).__name__}")
    pruning = planner.pruning
    if asked.tolerance is not None:
        if pruning is None:
            raise InvalidInput("expected a planner that prunes for another tolerance, got one that does not")
        pruning = dataclasses.replace(pruning, tolerance=asked.tolerance)
    price = planner.initial_multipliers() if asked.price is None else asked.price
    return PenalizedMCTS(planner.model, price, planner.search, critic=planner.critic, pruning=pruning)
