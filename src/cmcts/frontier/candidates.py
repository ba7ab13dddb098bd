"""Columns on trial: which of them can matter to any budget, and which the program mixes.

A column improves the curve at a budget if it is worth more than the mixture there, both at the program's prices: its
reduced cost. Columns play the same worlds, so that this is a mean of differences, and luck in the worlds is no luck of
a column. It is played for as long as the improvement may still be worth having; only what has played all choosing
episodes takes part in the program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.columns import ColumnSettings, Sample
from cmcts.evaluation.statistics import standard_error
from cmcts.exact.column_generation import InfeasibleBudget
from cmcts.frontier.mixture import CONFIDENCE, Limits, Mixed, best_mixture

Floats = NDArray[np.float64]

LUCK = 1.0  # standard errors that a column may be better than it looked so far
WORTH = 0.005  # of what the whole curve rises: a smaller improvement is none
LOSS = 0.05  # of a standard error of reward: what a column must add to be confirmed
WORTH_KEEPING = 0.001  # of what the whole curve rises: the same where rewards are known without error
MIXED_IN = 0.01  # a smaller share of a mixture is none


@dataclass
class Candidate:
    """A column on trial."""

    settings: ColumnSettings
    sample: Sample
    alive: bool = False  # played all choosing episodes, and may be mixed in

    @property
    def costs(self) -> Floats:
        """[M] its mean costs."""
        return self.sample.means[1:]


@dataclass
class Candidates:
    """All columns that were tried, and the budgets that they are tried for."""

    tried: list[Candidate] = field(default_factory=list)
    ladder: list[Floats] = field(default_factory=list)

    @property
    def alive(self) -> list[Candidate]:
        """Those that may be mixed in."""
        return [candidate for candidate in self.tried if candidate.alive]

    def find(self, column: ColumnSettings) -> Candidate | None:
        """The trial of a column, if there was one."""
        return next((candidate for candidate in self.tried if candidate.settings == column), None)

    def mixture(self, budget: Floats) -> Mixed | None:
        """The best mixture of what is alive, by measured means; None if none keeps the budget."""
        rewards = np.array([candidate.sample.reward for candidate in self.alive])
        rows = Limits.of([candidate.sample for candidate in self.alive], budget)
        try:
            return best_mixture(rewards, rows, confidence=None)
        except InfeasibleBudget:
            return None

    def value(self, budget: Floats) -> float:
        """What the best mixture earns; minus infinity if none keeps the budget."""
        mixed = self.mixture(budget)
        if mixed is None:
            return -np.inf
        return float(mixed.weights @ np.array([candidate.sample.reward for candidate in self.alive]))

    @property
    def rise(self) -> float:
        """What lies between the least and the most that the curve earns, not columns that it has left far below."""
        most = max(candidate.sample.reward for candidate in self.alive)
        earned = [value for budget in self.ladder if np.isfinite(value := self.value(budget))]
        return most - min(earned, default=min(candidate.sample.reward for candidate in self.alive))

    def can_matter(self, candidate: Candidate) -> bool:
        """Whether a column may be worth more than the mixture for some budget of the ladder, or spend less than all."""
        alive = self.alive
        if any(
            _spends_less(candidate.sample, [other.sample for other in alive], m) for m in range(len(candidate.costs))
        ):
            return True
        worth = WORTH * self.rise
        for budget in self.ladder:
            mixed = self.mixture(budget)
            if mixed is None:
                continue
            used = [(other, weight) for other, weight in zip(alive, mixed.weights.tolist(), strict=True) if weight > 0]
            parts = [(1.0, candidate.sample), *((-weight, other.sample) for other, weight in used)]
            gain, error = difference(parts, mixed.prices)
            if gain + LUCK * error > worth:
                return True
        return False

    def is_twin(self, candidate: Candidate) -> bool:
        """Whether another column has played the very same episodes: its price or guard makes no difference here."""
        return any(_same_episodes(candidate.sample, other.sample) for other in self.alive)

    def used(self) -> list[int]:
        """The columns that the program uses for some budget of the ladder or between, with or without a margin."""
        used: set[int] = set()
        alive = [k for k, candidate in enumerate(self.tried) if candidate.alive]
        samples = [self.tried[k].sample for k in alive]
        rewards = np.array([sample.reward for sample in samples])
        between = [(a + b) / 2 for a, b in pairwise(self.ladder)]
        for budget in [*self.ladder, *between]:
            for confidence in (None, CONFIDENCE):
                try:
                    mixed = best_mixture(rewards, Limits.of(samples, budget), confidence)
                except InfeasibleBudget:
                    continue
                used |= {alive[i] for i in np.flatnonzero(mixed.weights > MIXED_IN)}
        return sorted(used | self.thriftiest(alive) | {alive[int(np.argmax(rewards))]})

    def thriftiest(self, among: list[int]) -> set[int]:
        """Of some columns those that pay least of each cost; of equally thrifty ones, what earns most."""
        samples = {k: self.tried[k].sample for k in among}
        constraints = len(self.tried[among[0]].costs)
        return {
            min(among, key=lambda k: (float(samples[k].means[1 + m]), -samples[k].reward)) for m in range(constraints)
        }

    def thinned(self, wanted: list[int]) -> list[int]:
        """Leave out, one by one, columns that the others replace at a loss that is less than noise.

        Not the thriftiest: they are what is left where a budget cannot be kept.
        """
        for k, candidate in enumerate(self.tried):
            candidate.alive = k in wanted
        noise = {k: max(self._noise(self.tried[k].sample), 1e-12) for k in wanted}
        before = np.array([self.value(budget) for budget in self.ladder])
        thriftiest = self.thriftiest(wanted)
        while replaceable := [k for k in wanted if k not in thriftiest]:
            losses = {}
            for k in replaceable:
                self.tried[k].alive = False
                after = np.array([self.value(budget) for budget in self.ladder])
                self.tried[k].alive = True
                with np.errstate(invalid="ignore"):  # where neither keeps the budget
                    lost = np.where(before == after, 0.0, before - after)
                losses[k] = float(lost.max()) / noise[k]
            least = min(replaceable, key=lambda k: (losses[k], k))
            if losses[least] > 1.0:
                break
            self.tried[least].alive = False
            wanted = [k for k in wanted if k != least]
        return wanted

    def _noise(self, sample: Sample) -> float:
        """A loss of reward that is none."""
        return LOSS * float(sample.errors[0]) if sample.known is None else WORTH_KEEPING * self.rise


def difference(parts: list[tuple[float, Sample]], prices: Floats) -> tuple[float, float]:
    """The weighted sum of what samples earn after paying these prices, and its standard error.

    Those that are known by more than episodes count as they are known; the others are compared episode by episode.
    """
    gain = variance = 0.0
    weights = np.concatenate([[1.0], -prices])
    played = [(share, sample) for share, sample in parts if sample.known is None]
    for share, sample in parts:
        if sample.known is not None:
            gain += share * float(sample.means @ weights)
            variance += float(((share * weights * sample.errors) ** 2).sum())
    if played:
        rows = min(len(sample) for _, sample in played)
        gains = sum(share * (sample.rewards[:rows] - sample.costs[:rows] @ prices) for share, sample in played)
        gain += float(np.mean(gains))
        variance += standard_error(np.asarray(gains)) ** 2
    return gain, float(np.sqrt(variance))


def _spends_less(sample: Sample, others: list[Sample], m: int) -> bool:
    """Whether a sample's cost `m` is below that of all others, on the same episodes where episodes are all there is."""
    for other in others:
        if sample.known is not None or other.known is not None:
            least, most = sample.means[1 + m], other.means[1 + m]
        else:
            least, most = sample.costs[:, m].mean(), other.costs[: len(sample), m].mean()
        if least >= most:
            return False
    return True


def _same_episodes(one: Sample, other: Sample) -> bool:
    rows = min(len(one), len(other))
    same = np.array_equal(one.rewards[:rows], other.rewards[:rows])
    return same and np.array_equal(one.costs[:rows], other.costs[:rows])
