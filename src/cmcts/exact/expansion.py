"""What can happen in one state: the outcomes of every legal action, known, read or found by stepping.

Best first:

1. *known*: the model states its `outcomes`.
2. *certain*: a step that throws no dice is taken once.
3. *read*: the environment has a table `P[s][a]` of (probability, s', reward, end), as Gymnasium's toy-text environments
   do. Steps are taken until all that it lists has been seen, with its costs; the probabilities are the table's.
4. *sampled*: steps are taken many times, and how often something happened is its probability. Where steps contradict
   `P`, they count.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import InvalidInput, ModelError, shown
from cmcts.model.interface import Model
from cmcts.random import Stream, stage_seed, stream

Row = NDArray[np.float64]
Way = Literal["known", "certain", "read", "sampled"]
WAYS: tuple[Way, ...] = ("known", "certain", "read", "sampled")
GUESSES = 16  # draws of a rollout policy that throws dice
_TRIED_TWICE = 10  # in so many states, what is certain is tried again
_PATIENCE = 20.0  # an outcome of probability p is waited for 20 / p steps: one in 500 million would be missed


class Outcome(NamedTuple):
    """One thing that can happen after an action; `draw` is the stream with which a step leads there."""

    action: int
    chance: float
    row: Row | None  # None: the end
    reward: float
    costs: tuple[float, ...]
    draw: int


class Expansion(NamedTuple):
    """A state's features, some draws of its rollout policy, all outcomes, and how those of each action were found."""

    features: NDArray[np.float32]
    guesses: list[int]
    outcomes: list[Outcome]
    ways: list[Way]


class Start(NamedTuple):
    """A state that episodes begin in."""

    chance: float
    row: Row
    draw: int


class Expander:
    """Finds outcomes of one model; each depends on the seed, the state and its number alone."""

    def __init__(self, model: Model, samples: int, seed: int) -> None:
        self.model, self.samples, self.seed = model, samples, seed
        # What stands behind the model, if that is an environment: its `P`, and its dice.
        self.simulator: Any = model.params if hasattr(model.params, "last_step") else None

    def starts(self) -> tuple[list[Start], Way]:
        """Where episodes begin."""
        if self.model.starts is not None:
            chances, rows = (np.asarray(part, np.float64) for part in self.model.starts(self.model.params))
            return [Start(float(chance), row + 0.0, 0) for chance, row in zip(chances, rows, strict=True)], "known"
        tally = _Tally(self._listed_starts())
        rng = stream(stage_seed(self.seed))
        while tally.goes_on(self.samples):
            draw, row = int(rng[0]), self.start_row(rng)
            tally.add((row.tobytes(),), row, draw, self._label() if tally.listed else None)
        return [Start(chance, row, draw) for chance, row, draw in tally.shares()], tally.way

    def expand(self, number: int, row: Row) -> Expansion:
        """All that can happen in a state."""
        model, outcomes, ways = self.model, [], []
        listed = self._listed_outcomes(row)
        for action in model.legal(row).tolist():
            found, way = self._known(row, action) or self._stepped(number, row, action, listed.get(action))
            outcomes += found
            ways.append(way)
        if not ways:
            raise ModelError(f"expected at least one legal action in every state, got none in state number {number}")
        return Expansion(model.feature_vector(row), self._guesses(number, row), outcomes, ways)

    def start_row(self, rng: Stream) -> Row:
        """A start, drawn with a stream."""
        return self.model.start_state(rng) + 0.0

    def step(self, row: Row, action: int, rng: Stream) -> tuple[Row, float, tuple[float, ...], bool]:
        """One step: next row, reward, costs, end."""
        next_row, costs = np.zeros(self.model.state_size), np.zeros(self.model.cost_count)
        with np.errstate(over="ignore"):
            reward, end = self.model.uncompiled.step(self.model.params, row, action, rng, next_row, costs)
        if not (math.isfinite(reward) and np.isfinite(costs).all() and (costs >= 0).all()):
            raise ModelError(
                f"expected a finite reward and finite costs >= 0, got {reward} and {costs.tolist()} for action "
                f"{self.model.action_name(action)}"
            )
        return next_row + 0.0, float(reward), tuple(costs.tolist()), bool(end)

    def _known(self, row: Row, action: int) -> tuple[list[Outcome], Way] | None:
        if self.model.outcomes is None:
            return None
        parts = zip(*self.model.outcomes(self.model.params, row, action), strict=True)
        outcomes = [
            Outcome(action, float(chance), None if end else next_row + 0.0, float(reward), tuple(map(float, costs)), 0)
            for chance, next_row, reward, costs, end in parts
            if chance > 0.0
        ]
        return outcomes, "known"

    def _stepped(
        self, number: int, row: Row, action: int, listed: dict[Any, float] | None
    ) -> tuple[list[Outcome], Way]:
        tally = _Tally(listed)
        rng = stream(stage_seed(self.seed, number, action))
        while tally.goes_on(self.samples):
            draw = int(rng[0])
            next_row, reward, costs, end = self.step(row, action, rng)
            if tally.steps == 0 and not self._threw(rng, draw):
                if number < _TRIED_TWICE:
                    self._try_again(row, action, rng, (next_row.tolist(), reward, costs, end))
                return [Outcome(action, 1.0, None if end else next_row, reward, costs, draw)], "certain"
            label = (self._label(), reward, end) if tally.listed else None
            kept = None if end else next_row
            tally.add((kept is not None and kept.tobytes(), reward, costs), (kept, reward, costs), draw, label)
        shares = tally.shares()
        return [
            Outcome(action, chance, row, reward, costs, draw) for chance, (row, reward, costs), draw in shares
        ], tally.way

    def _try_again(self, row: Row, action: int, rng: Stream, before: tuple[Any, ...]) -> None:
        """Refuse an environment with dice of its own, which nobody saw it throw."""
        next_row, *rest = self.step(row, action, rng)
        if (next_row.tolist(), *rest) != before:
            raise InvalidInput(
                f"expected a step of model {self.model.name!r} that throws none of its dice to do the same twice, got "
                f"two results for action {self.model.action_name(action)} in state {shown(row)}: all randomness must "
                "come from np_random, or be set by reseed"
            )

    def _threw(self, rng: Stream, draw: int) -> bool:
        """Whether the last step threw dice."""
        return bool(self.simulator.last_step()[1]) if self.simulator is not None else int(rng[0]) != draw

    def _label(self) -> Any:
        """The state's number in the environment's own table."""
        return int(self.simulator.last_step()[0].unwrapped.s)

    def _listed_outcomes(self, row: Row) -> dict[int, dict[Any, float]]:
        """Action to what `P` lists for it: (s', reward, end) to its probability. Empty if there is no such table."""
        if self.simulator is None or not hasattr(self.simulator.last_step()[0].unwrapped, "P"):
            return {}
        inner = self.simulator.at(row).unwrapped
        try:
            by_action = inner.P[int(inner.s)]
            return {
                action: _summed((((int(to), float(reward), bool(end)), float(p)) for p, to, reward, end in entries))
                for action in range(self.model.action_count)
                for entries in [by_action[self.simulator.first_action + action]]
            }
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            return {}

    def _listed_starts(self) -> dict[Any, float] | None:
        """What `P`'s environment says about its start: s to its probability."""
        inner = self.simulator.last_step()[0].unwrapped if self.simulator is not None else None
        chances = getattr(inner, "initial_state_distrib", None)
        if chances is None or not hasattr(inner, "P") or not hasattr(inner, "s"):
            return None
        return _summed((state, float(p)) for state, p in enumerate(np.ravel(chances)))

    def _guesses(self, number: int, row: Row) -> list[int]:
        if not self.model.has_rollout_action:
            return []
        rng, guesses = stream(stage_seed(self.seed, number, self.model.action_count)), []
        with np.errstate(over="ignore"):
            for _ in range(GUESSES):
                before = int(rng[0])
                guesses.append(int(self.model.uncompiled.rollout_action(self.model.params, row, rng)))
                if int(rng[0]) == before:
                    return guesses * GUESSES
        return guesses


class _Tally:
    """How often each of several things was seen, and what a table says about them."""

    def __init__(self, listed: dict[Any, float] | None) -> None:
        self.listed = listed
        self.steps = 0
        self.found: dict[Any, tuple[Any, int]] = {}  # key to what it was, and the first draw that led there
        self.counts: dict[Any, int] = {}
        self.unseen = set(listed or ())
        self.patience = _PATIENCE / min(listed.values()) if listed else 0.0

    @property
    def way(self) -> Way:
        """How the probabilities are known."""
        return "read" if self.listed else "sampled"

    def goes_on(self, samples: int) -> bool:
        """Whether more has to be seen; a table that lists what does not happen is not believed any longer."""
        if self.listed and self.unseen and self.steps >= self.patience:
            self.listed = None
        return bool(self.unseen) if self.listed else self.steps < samples

    def add(self, key: Any, what: Any, draw: int, label: Any) -> None:
        """Something was seen, under its label in the table; what is not listed there contradicts the table."""
        self.steps += 1
        self.found.setdefault(key, (what, draw))
        # Episodes that end in two places are one outcome, but two entries of a table.
        self.counts[key, label] = self.counts.get((key, label), 0) + 1
        self.unseen.discard(label)
        if self.listed and label not in self.listed:
            self.listed = None

    def shares(self) -> list[tuple[float, Any, int]]:
        """Everything that was seen: its probability, what it was, and the draw that led there."""
        seen = _summed((label, count) for (_, label), count in self.counts.items())
        chances = _summed(
            (key, self.listed[label] * count / seen[label] if self.listed else count / self.steps)
            for (key, label), count in self.counts.items()
        )
        return [(chances[key], *found) for key, found in self.found.items()]


def _summed(pairs: Any) -> dict[Any, float]:
    """The sums of the numbers of each key, without those that are 0."""
    sums: dict[Any, float] = {}
    for key, number in pairs:
        if number > 0.0:
            sums[key] = sums.get(key, 0.0) + number
    return sums
