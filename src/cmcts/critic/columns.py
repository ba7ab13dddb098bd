"""The columns of a frontier, as a bundle keeps them: planners' settings, and what each episode earned and paid.

A column is a planner with its settings, measured in the training world. Every episode is kept, so that any budget and
any share of episodes over it can be asked for later. Episodes come twice: `chosen` ones told which columns are worth
keeping, and which of them to mix for a budget; `confirmed` ones, on worlds that took no part in any choice, say how
much of each, and are what is reported: more of them where more must be known.

Where the training world's states can be listed, what a column earns and pays on average is known better than by its
episodes: from its decisions in every state, evaluated exactly (evaluation/tabulated.py). A sample then says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cmcts import json_settings
from cmcts.errors import expect
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings

VERSION = 3  # 1 knew nothing but episodes, 2 no policies but planners'; both read the same
KINDS = ("chosen", "confirmed")
SETTINGS = "settings"  # JSON text as an array of bytes, so that a column is one file with one digest


@dataclass(frozen=True)
class ColumnSettings:
    """A planner that an episode may be played with, from its first step to its last."""

    prices: tuple[float, ...]
    """lambda: what a unit of each cost takes from the reward."""
    search: SearchSettings
    """How its tree is grown, and with how many simulations a decision."""
    guard: Literal["none", "critic", "immediate"] = "none"
    """What prunes: nothing, the bundle's safety critic, or what the planning model says an action costs at once."""
    budget: tuple[float, ...] = ()
    """What a guarded planner may spend in every episode, one number a constraint."""
    pruning: PruningSettings | None = None
    """What counts as unsafe to the guard."""
    values: bool = False
    """Leaves are judged by the bundle's leaf values before rollouts."""
    policy: str = ""
    """Digest of the bundle's exact policy that is played instead of any search; `budget` is what it was solved for."""

    def __post_init__(self) -> None:
        expect(len(self.prices) >= 1, "a price for every constraint", self.prices)
        expect(all(0 <= price < np.inf for price in self.prices), "prices >= 0 and finite", self.prices)
        expect(self.guard in ("none", "critic", "immediate"), 'guard "none", "critic" or "immediate"', self.guard)
        guarded = self.guard != "none"
        expect((self.pruning is not None) == guarded, "pruning with a guard, and only then", self.pruning)
        plain = not (guarded or self.values or any(self.prices))
        expect(plain or not self.policy, "no price, guard or values with an exact policy", self)
        count = len(self.prices) if guarded or self.policy else 0
        kind = "that is a policy" if self.policy else f"guarded by {self.guard}"
        expect(len(self.budget) == count, f"{count} budgets of a column {kind}", self.budget)
        expect(all(0 <= limit < np.inf for limit in self.budget), "budgets >= 0 and finite", self.budget)

    @property
    def searches_at_price(self) -> bool:
        """Whether it is a search at a price alone, without a guard."""
        return self.guard == "none" and not self.policy

    @property
    def name(self) -> str:
        """What it is, in words: "lambda 2.5, 1024 simulations with values", "critic at 1 with values, lambda 2.5"."""
        if self.policy:
            return f"exact policy at {_numbers(self.budget)}"
        price = f"lambda {_numbers(self.prices)}"
        if self.guard == "none":
            width = None if self.search.exploration is not None else self.search.relative_exploration
            explored = "" if width in (None, SearchSettings.relative_exploration) else f", exploration {width:g}"
            priced = " with rollouts at that price" if self.search.rollout == "priced" else ""
            leaves = " with values" if self.values else priced
            ahead = " one step ahead" if self.search.horizon == 1 else ""
            return f"{price}, {self.search.iterations} simulations{ahead}{leaves}{explored}"
        guard = f"{'critic' if self.guard == 'critic' else 'no critic'} at {_numbers(self.budget)}"
        guard += " with values" if self.values else ""
        return f"{guard}, {price}" if any(self.prices) else guard


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


@dataclass(frozen=True, eq=False)
class Sample:
    """What episodes earned and paid: rewards [N] and costs [N, M], discounted."""

    rewards: NDArray[np.float64]
    costs: NDArray[np.float64]
    known: NDArray[np.float64] | None = None
    """[2, 1 + M] the mean reward and costs with their standard errors, where more is known than episodes say."""

    def __post_init__(self) -> None:
        fits = self.rewards.ndim == 1 and self.costs.ndim == 2 and len(self.rewards) == len(self.costs) >= 2
        expect(fits, "rewards [N] and costs [N, M] of two episodes or more", (self.rewards.shape, self.costs.shape))
        expect(bool(np.isfinite(self.rewards).all()), "finite rewards of episodes", self.rewards)
        sound = bool(np.isfinite(self.costs).all() and (self.costs >= 0).all())
        expect(sound, "costs of episodes that are finite and >= 0", self.costs)
        if self.known is not None:
            shape = (2, 1 + self.costs.shape[1])
            expect(self.known.shape == shape, f"known means and errors of shape {shape}", self.known.shape)
            sound = bool(
                np.isfinite(self.known).all() and (self.known[0, 1:] >= 0).all() and (self.known[1] >= 0).all()
            )
            expect(sound, "known means that are finite, of costs >= 0, and errors >= 0", self.known)

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """[1 + M] the mean reward and costs."""
        return np.asarray(self._episodes.mean(axis=0) if self.known is None else self.known[0])

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """[1 + M] their standard errors."""
        if self.known is not None:
            return np.asarray(self.known[1])
        return np.asarray(self._episodes.std(axis=0, ddof=1) / np.sqrt(len(self)))

    @property
    def _episodes(self) -> NDArray[np.float64]:
        return np.column_stack([self.rewards, self.costs])

    @property
    def reward(self) -> float:
        """The mean reward."""
        return float(self.means[0])

    def joined(self, other: Sample) -> Sample:
        """The episodes of both. What either knows counts by its episodes; what only this one knows stays."""
        known = self.known
        if known is not None and other.known is not None:
            share = len(self) / (len(self) + len(other))
            means = share * known[0] + (1 - share) * other.known[0]
            known = np.stack([means, np.hypot(share * known[1], (1 - share) * other.known[1])])
        rewards, costs = (
            np.concatenate([getattr(part, name) for part in (self, other)]) for name in ("rewards", "costs")
        )
        return Sample(rewards, costs, known)


@dataclass(frozen=True, eq=False)
class Column:
    """A planner's settings with all that was measured of it."""

    settings: ColumnSettings
    chosen: Sample
    confirmed: Sample


def to_arrays(columns: Sequence[Column]) -> dict[str, NDArray[Any]]:
    """Columns as named arrays, as they are written to a file."""
    text = json_settings.dump([dataclasses.asdict(column.settings) for column in columns])
    arrays: dict[str, NDArray[Any]] = {SETTINGS: np.frombuffer(text, np.uint8)}
    for k, column in enumerate(columns):
        for kind in KINDS:
            sample: Sample = getattr(column, kind)
            arrays[f"{kind}.rewards.{k}"] = np.ascontiguousarray(sample.rewards, np.float64)
            arrays[f"{kind}.costs.{k}"] = np.ascontiguousarray(sample.costs, np.float64)
            if sample.known is not None:
                arrays[f"{kind}.known.{k}"] = np.ascontiguousarray(sample.known, np.float64)
    return arrays


def from_arrays(arrays: Mapping[str, NDArray[Any]], cost_count: int) -> tuple[Column, ...]:
    """The columns of named arrays, all of `cost_count` constraints."""
    expect(SETTINGS in arrays and arrays[SETTINGS].dtype == np.uint8, f"an array {SETTINGS} of bytes", sorted(arrays))
    raw = json_settings.parse(arrays[SETTINGS].tobytes())
    expect(isinstance(raw, list) and len(raw) >= 1, "settings of one column or more", raw)
    kinds = [f"{kind}.{what}" for kind in KINDS for what in ("rewards", "costs")]
    names = [f"{kind}.{k}" for k in range(len(raw)) for kind in kinds]
    known = [name for kind in KINDS for k in range(len(raw)) if (name := f"{kind}.known.{k}") in arrays]
    expect(
        sorted(arrays) == sorted([SETTINGS, *names, *known]), f"arrays {SETTINGS}, {', '.join(names)}", sorted(arrays)
    )
    for name in names + known:
        expect(arrays[name].dtype == np.float64, f"{name} in float64", str(arrays[name].dtype))
    columns = []
    for k, settings in enumerate(raw):
        chosen, confirmed = (
            Sample(arrays[f"{kind}.rewards.{k}"], arrays[f"{kind}.costs.{k}"], arrays.get(f"{kind}.known.{k}"))
            for kind in KINDS
        )
        column = Column(json_settings.convert(settings, ColumnSettings), chosen, confirmed)
        counts = {len(column.settings.prices), column.chosen.costs.shape[1], column.confirmed.costs.shape[1]}
        expect(counts == {cost_count}, f"column {k} of {cost_count} constraints", sorted(counts))
        columns.append(column)
    return tuple(columns)
