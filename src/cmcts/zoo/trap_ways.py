"""The way to each piece of gold on a map with traps, at a price of the cost: what rollouts follow.

Going to one piece alone is a problem of a few dozen squares. It is solved when a model is made, for all rollouts of all
searches: 1 for the gold, less by a hundredth for each step (there are a hundred), less what the traps on the way cost
at the price; and one may stop anywhere, and wait. A rollout goes where most is gained over waiting, and waits where no
piece is worth its danger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PATIENCE = 0.99  # of what gold is worth, if it is had a step later
BACKUPS, ENOUGH = 2000, 1e-9


class Moves(NamedTuple):
    """What each of four moves does on each of S squares."""

    chances: Floats  # [4, S, S] of being on another square after it, alive
    costs: Floats  # [4, S] expected


def ways(moves: Moves, gold: Integers, price: float) -> tuple[Integers, Floats]:
    """[P + 1, S] the best move to each piece of gold, P of them on squares `gold`, and what it gains over waiting.

    The last row is the safest move of who waits, which gains nothing.
    """

    def going(square: int) -> Callable[[Floats], Floats]:
        def settled(worth: Floats) -> Floats:
            worth = np.maximum(worth, waiting)
            worth[square] = 1.0
            return worth

        return settled

    nothing = np.zeros(moves.costs.shape[1])
    wait, waiting = _solved(moves, price, nothing, lambda worth: worth)
    solved = [_solved(moves, price, waiting, going(square)) for square in gold.tolist()]
    best = np.array([*(move for move, _ in solved), wait])
    return best, np.array([*(worth - waiting for _, worth in solved), nothing])


def _solved(moves: Moves, price: float, worth: Floats, settled: Callable[[Floats], Floats]) -> tuple[Integers, Floats]:
    """[S] the best move, and its worth, by value iteration from `worth` on."""
    for _ in range(BACKUPS):
        after = PATIENCE * moves.chances @ worth - price * moves.costs
        before, worth = worth, settled(after.max(axis=0))
        if np.abs(worth - before).max() < ENOUGH:
            break
    return after.argmax(axis=0), worth
