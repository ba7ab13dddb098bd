"""A mixture in use: a column is drawn once, at the start of the episode, and its price kept to the end.

That is what makes the mean cost the mixture's own. Drawing anew at every step, or starting in the middle of an episode,
would be another policy, whose cost nobody has measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.compilation.content import uncompiled
from cmcts.critic.columns import Column
from cmcts.errors import InvalidInput, expect
from cmcts.evaluation.episodes import OVERSPENT
from cmcts.evaluation.statistics import CONFIDENCE, Interval
from cmcts.frontier.mixture import Floats, Limits, quantile
from cmcts.frontier.settings import Keep
from cmcts.model.interface import Model
from cmcts.planning.agent import Agent
from cmcts.planning.decision import Decision
from cmcts.planning.planner import Planner
from cmcts.random import Stream, stream, uniform

_uniform = uncompiled(uniform)  # one draw an episode is not worth a compilation


@dataclass(frozen=True, eq=False)
class MixedPolicy:
    """Columns with the probability that an episode is played with each, the most probable one first."""

    planners: tuple[Planner, ...]
    columns: tuple[Column, ...]
    weights: NDArray[np.float64]  # [K]
    budget: NDArray[np.float64]  # [M]
    keep: Keep
    share: float | None
    prices: NDArray[np.float64]  # [M] what one more unit of budget would earn

    @property
    def model(self) -> Model:
        """What is simulated."""
        return self.planners[0].model

    def draw(self, rng: int | Stream) -> int:
        """The number of a column, drawn by the weights."""
        with np.errstate(over="ignore"):  # unsigned arithmetic is meant to wrap
            point = _uniform(stream(rng))
        return min(int(np.searchsorted(np.cumsum(self.weights), point, side="right")), len(self.weights) - 1)

    def agent(
        self,
        *,
        rng: int | Stream = 0,
        column: int | None = None,
        iterations: int | None = None,
        seconds: float | None = None,
        reuse_tree: bool = False,
        keep_tree: bool = False,
        workers: int = 1,
    ) -> Agent:
        """An agent for one episode: draws its column now, unless told which, and keeps to it."""
        draws = stream(rng)
        index = self.draw(draws) if column is None else column
        expect(0 <= index < len(self.planners), f"a column from 0 to {len(self.planners) - 1}", index)
        own = self.columns[index].settings.budget
        return Agent(
            self.planners[index],
            own or self.budget,
            rng=draws,
            iterations=iterations,
            seconds=seconds,
            reuse_tree=reuse_tree,
            keep_tree=keep_tree,
            workers=workers,
        )

    def plan(
        self,
        state: ArrayLike,
        *,
        column: int | None = None,
        iterations: int | None = None,
        seconds: float | None = None,
        rng: int | Stream = 0,
    ) -> Decision:
        """One decision by a column. Only an agent may draw one: in the middle of an episode it is long decided."""
        if column is None and len(self.planners) > 1:
            raise InvalidInput(
                f"expected the column that this episode is played with, from 0 to {len(self.planners) - 1}, got none: "
                "use policy.agent(rng=seed) from the episode's start"
            )
        agent = self.agent(rng=rng, column=column or 0, iterations=iterations, seconds=seconds)
        return agent.act(state)

    @property
    def reward_mean(self) -> float:
        """What the mixture earns, by its columns' confirming episodes."""
        return float(self.weights @ np.array([column.confirmed.reward for column in self.columns]))

    @property
    def cost_means(self) -> Floats:
        """[M] what it costs there."""
        return np.asarray(self.weights @ self._rows.used)

    @property
    def over_budget(self) -> float:
        """The share of episodes that cost more than the budget."""
        over = [(c.confirmed.costs > self.budget + OVERSPENT).any(axis=1).mean() for c in self.columns]
        return float(self.weights @ np.array(over))

    @property
    def reward_interval(self) -> Interval:
        """Where the true mean reward lies, at 95 %, in the training world."""
        errors = np.array([column.confirmed.errors[0] for column in self.columns])
        reach = quantile(0.5 + CONFIDENCE / 2, self._rows.episodes) * float(np.sqrt(self.weights**2 @ errors**2))
        return Interval(self.reward_mean - reach, self.reward_mean + reach)

    @property
    def cost_bounds(self) -> Floats:
        """[M] one-sided upper confidence bounds of the mean costs in the training world."""
        return np.asarray(self.cost_means + self._rows.margins(self.weights))

    @property
    def _rows(self) -> Limits:
        return Limits.of([column.confirmed for column in self.columns], self.budget)

    @property
    def kept(self) -> bool:
        """Whether the upper bounds of the mean costs are within the budget."""
        return bool((self.cost_bounds <= self.budget + 1e-6 * (1.0 + self.budget)).all())

    def describe(self) -> str:
        """The mixture in words, most probable column first."""
        parts = (f"{100 * w:.3g} % {c.settings.name}" for w, c in zip(self.weights, self.columns, strict=True))
        return " | ".join(parts)
