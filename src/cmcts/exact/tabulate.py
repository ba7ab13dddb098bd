"""List a model's reachable states by restoring and stepping, and make tables of them: `Model.tabulate`.

Breadth first from the start. Blocks of states are expanded side by side in processes, and numbered in the order of the
states that lead to them, so that the tables depend on the seed alone. Where an environment must be copied to come back
to a state, a process has copies that its parent lacks: the parent then takes the one step that led there once more,
with the same dice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.devices import cores
from cmcts.errors import InvalidInput, expect
from cmcts.exact import listing_file
from cmcts.exact.expansion import WAYS, Expander, Expansion, Row
from cmcts.model.interface import Model
from cmcts.model.tables import packed, table_model
from cmcts.planning.parallel import forked_map

_BLOCK_SECONDS = 1.0  # how long a block of states should take
_WORTH_FORKING = 0.3  # seconds of work
_SAVE_EVERY = 30.0  # seconds
_END = -1
_START = -1  # stands for the parent of a start state


def tabulate(
    model: Model, *, limit: int, samples: int, seed: int = 0, cache: Path | None = None, processes: int | None = None
) -> Model:
    """The same problem as tables; `Model.tabulate` says how."""
    for name, value in (("limit", limit), ("samples", samples)):
        expect(isinstance(value, int) and not isinstance(value, bool) and value >= 1, f"{name} >= 1", value)
    expect(processes is None or processes >= 1, "processes >= 1", processes)
    if model.untimed is not None:
        raise InvalidInput("expected a model without time in its state, got one with: first tabulate, then with_time")
    listing = Listing(model, limit, samples, seed)
    digest = listing_file.digest_of(model, samples, seed) if cache is not None else ""
    if cache is not None:
        listing_file.load(cache, digest, listing)
    saved = listing.expanded, time.perf_counter()
    try:
        for _ in listing.blocks(processes or cores()):
            if cache is not None and time.perf_counter() - saved[1] > _SAVE_EVERY:
                listing_file.save(cache, digest, listing)
                saved = listing.expanded, time.perf_counter()
    finally:  # Ctrl-C and a limit that is too low leave what was found
        if cache is not None and listing.expanded != saved[0]:
            listing_file.save(cache, digest, listing)
    return listing.as_model()


class Listing:
    """The states found so far, in order, and the outcomes of those that have been expanded."""

    def __init__(self, model: Model, limit: int, samples: int, seed: int) -> None:
        self.model, self.limit, self.samples = model, limit, samples
        self.expander = Expander(model, samples, seed)
        self.rows: list[Row] = []
        self.numbers: dict[bytes, int] = {}
        self.found_by: list[tuple[int, int, int]] = []  # parent, action, draw
        self.start: dict[int, float] = {}
        self.expanded = 0
        self.seconds = 0.0
        self.ways = dict.fromkeys(WAYS, 0)  # pairs by how their outcomes were found
        self.start_way = ""
        self.features: list[NDArray[np.float32]] = []  # of expanded states, as the next
        self.guesses: list[list[int]] = []
        self.outcomes: list[tuple[int, int, float, int, float, tuple[float, ...]]] = []
        """State, action, probability, successor or -1, reward and costs."""
        if model.hold is not None:
            model.hold(self)

    def held_states(self) -> NDArray[np.float64]:
        """The states that are still to be expanded, which must not be forgotten."""
        return np.array(self.rows[self.expanded :]).reshape(-1, self.model.state_size)

    def blocks(self, processes: int) -> Iterator[int]:
        """Expand everything, block by block; yields how many states that has been after each."""
        began, before = time.perf_counter(), self.seconds
        pace = 0.0  # seconds a state
        with _progress(self.model.name) as show:
            if not self.rows:
                self._begin()
            while self.expanded < len(self.rows):
                left = len(self.rows) - self.expanded
                size = min(left, max(1, int(_BLOCK_SECONDS * processes / pace)) if pace else 8)
                worth = processes if pace * size > _WORTH_FORKING else 1
                first, then = self.expanded, time.perf_counter()
                for number in range(first, first + size):
                    self._recall(number)
                for expansion in forked_map(partial(self._expand, first), size, worth):
                    self._add(expansion)
                pace = (time.perf_counter() - then) * worth / size
                self.seconds = before + time.perf_counter() - began
                show(self.expanded, len(self.rows))
                yield self.expanded

    def _begin(self) -> None:
        starts, self.start_way = self.expander.starts()
        for chance, row, draw in starts:
            number = self._number(row, (_START, 0, draw))
            self.start[number] = self.start.get(number, 0.0) + chance

    def _expand(self, first: int, k: int) -> Expansion:
        return self.expander.expand(first + k, self.rows[first + k])

    def _add(self, expansion: Expansion) -> None:
        state, found = self.expanded, []  # all or nothing: more states than the limit are an error in between
        for action, chance, row, reward, costs, draw in expansion.outcomes:
            to = _END if row is None else self._number(row, (state, action, draw))
            found.append((state, action, chance, to, reward, costs))
        self.outcomes += found
        for way in expansion.ways:
            self.ways[way] += 1
        self.features.append(expansion.features)
        self.guesses.append(expansion.guesses)
        self.expanded += 1

    def _number(self, row: Row, found_by: tuple[int, int, int]) -> int:
        key = row.tobytes()
        known = self.numbers.get(key)
        if known is not None:
            return known
        if len(self.rows) >= self.limit:
            raise InvalidInput(
                f"expected at most {self.limit} reachable states of model {self.model.name!r}, got more; raise limit, "
                "or leave out of its state what does not matter, such as a count of steps (ignored, get_state)"
            )
        self.numbers[key] = len(self.rows)
        self.rows.append(row)
        self.found_by.append(found_by)
        return len(self.rows) - 1

    def _recall(self, number: int) -> None:
        """Make sure that the environment can go back to a state: step there again, from the latest that it knows."""
        knows = getattr(getattr(self.model.params, "store", None), "knows", None)
        path = []
        while knows is not None and number != _START and not knows(self.rows[number]):
            path.append(number)
            number = self.found_by[number][0]
        for lost in reversed(path):
            parent, action, draw = self.found_by[lost]
            rng = np.array([draw], np.uint64)
            if parent == _START:
                self.expander.start_row(rng)
            else:
                self.expander.step(self.rows[parent], action, rng)

    def as_model(self) -> Model:
        """The tables, once all states have been expanded."""
        model, states = self.model, len(self.rows)
        state, action, chance, to, reward, costs = (list(part) for part in zip(*self.outcomes, strict=True))
        pair = np.array(state, np.int64) * model.action_count + np.array(action, np.int64)
        order = np.argsort(pair, kind="stable")
        successors = np.array(to, np.int64)
        start = np.zeros(states)
        start[list(self.start)] = list(self.start.values())
        guesses = np.array(self.guesses, np.int64).reshape(states, -1)
        if guesses.shape[1] and (guesses == guesses[:, :1]).all():
            guesses = np.ascontiguousarray(guesses[:, :1])
        tables = packed(
            pair[order],
            np.array(chance)[order],
            np.where(successors == _END, states, successors)[order],
            np.array(reward)[order],
            np.array(costs)[order],
            (states, model.action_count),
            np.stack(self.features),
            start,
            guesses,
        )
        return table_model(
            tables,
            f"{model.name}-tables",
            action_names=model.action_names,
            cost_names=model.cost_names,
            feature_description=model.feature_description,
            episodes_end=model.episodes_end,
            origin=self.origin(),
            world=partial(_world, model, self.numbers),
        )

    def origin(self) -> str:
        """How the tables were made, in words."""
        pairs = sum(self.ways.values())
        said = {
            "known": "from the model's outcomes",
            "certain": "certain, by one step each",
            "read": "from the environment's P",
            "sampled": f"by {self.samples} steps each: probabilities to ±{0.98 / math.sqrt(self.samples):.3f} (95 %), "
            f"and what happens less than once in {max(1, self.samples // 3)} steps may be missing",
        }
        parts = [f"{self.ways[way]:,} {said[way]}" for way in WAYS if self.ways[way]]
        starts = {"known": "as the model states them", "read": "as the environment states them"}
        legal = getattr(self.model.params, "legal_source", "by the model's legal_actions")
        return (
            f"tabulated from {self.model.name}: {len(self.rows):,} states, {pairs:,} actions in them, legal {legal} ("
            f"{'; '.join(parts)}), {len(self.start):,} starts "
            f"{starts.get(self.start_way, f'seen in {self.samples} resets')}; {self.seconds:.1f} s"
        )


def _world(original: Model, numbers: dict[bytes, int], model: Model, **settings: Any) -> Any:
    from cmcts.model.worlds import NumberedWorld, world_of  # imports Gymnasium

    return NumberedWorld(world_of(original, **settings), numbers)


@contextmanager
def _progress(name: str) -> Iterator[Any]:
    """A line in the terminal: states that are done, of those that are known so far."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        row = bar.add_task(f"{name}: states", total=None)

        def show(done: int, known: int) -> None:
            bar.update(row, completed=done, total=known, description=f"{name}: {done:,} of {known:,} states so far")

        yield show
