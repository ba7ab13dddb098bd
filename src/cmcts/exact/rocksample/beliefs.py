"""What may be believed about RockSample's rocks after so many readings: finitely many beliefs, in layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.envs.rocksample.model import RockSampleParams
from cmcts.exact.finite import Floats
from cmcts.exact.rocksample.values import GONE, GOOD, UNREAD

STATE_LIMIT = 5_000_000  # beliefs of a layer times squares: beyond, a reading more takes minutes


class Layer(NamedTuple):
    """All that may be believed after k readings: one row a belief about all m rocks."""

    beliefs: NDArray[np.int32]  # [B, m] belief number of every rock
    order: NDArray[np.int64]  # [B] rows with more rocks gone come first: sampling leads to an earlier one
    after_sample: NDArray[np.int32]  # [B, m] row once the rock is sampled, or -1 if that earns nothing
    after_reading: NDArray[np.int32]  # [B, m, D, 2] row of the next layer by accuracy and answer; empty in the last


@dataclass(frozen=True)
class Beliefs:
    """Belief numbers and the layers made of them."""

    probability: Floats  # [numbers] P(good); -1 for GONE
    accuracy_class: NDArray[np.int32]  # [n * n, m] which of the D accuracies a reading has
    layers: list[Layer]


def list_beliefs(params: RockSampleParams, readings: int) -> Beliefs | None:
    """Every belief that up to `readings` readings and any sampling can lead to; None if there are too many.

    A reading of accuracy e moves the log-odds by +-log(e / (1 - e)); beliefs are told apart by the sum of these steps.
    """
    rocks = len(params.rocks)
    accuracies, classes = np.unique(np.round(params.accuracy, 12), return_inverse=True)
    classes = classes.reshape(params.accuracy.shape)
    possible = [np.unique(classes[:, i]).tolist() for i in range(rocks)]
    certain = accuracies >= 1.0
    steps = np.log(accuracies) - np.log1p(-np.where(certain, 0.5, accuracies))
    log_odds = [0.0, np.inf, -np.inf]
    numbers = {0.0: UNREAD}
    moved: dict[tuple[int, int, int], int] = {}

    def read(number: int, which: int, says_good: int) -> int:
        key = (number, which, says_good)
        if key not in moved:
            if certain[which]:
                moved[key] = GOOD if says_good else GONE
            else:
                total = round(log_odds[number] + (steps[which] if says_good else -steps[which]), 9) + 0.0
                if total not in numbers:
                    numbers[total] = len(log_odds)
                    log_odds.append(total)
                moved[key] = numbers[total]
        return moved[key]

    rows: dict[tuple[int, ...], int] = {(UNREAD,) * rocks: 0}
    layers: list[Layer] = []
    for k in range(readings + 1):
        after_sample = _close_under_sampling(rows, log_odds)
        following: dict[tuple[int, ...], int] = {}
        shape = (len(rows) if k < readings else 0, rocks, len(accuracies), 2)
        after_reading = np.full(shape, -1, np.int32)
        for row, number in rows.items() if k < readings else ():
            for i in range(rocks):
                if row[i] in (GOOD, GONE):
                    continue
                for which in possible[i]:
                    for says_good in (0, 1):
                        to = (*row[:i], read(row[i], which, says_good), *row[i + 1 :])
                        after_reading[number, i, which, says_good] = following.setdefault(to, len(following))
            if len(following) * params.n**2 > STATE_LIMIT:
                return None
        table = np.array(list(rows), np.int32)
        order = np.argsort(-(table == GONE).sum(axis=1), kind="stable").astype(np.int64)
        layers.append(Layer(table, order, after_sample, after_reading))
        rows = following
    odds = np.exp(np.array(log_odds[3:]))
    probability = np.concatenate([[0.5, 1.0, -1.0], odds / (1.0 + odds)])
    return Beliefs(probability, classes.astype(np.int32), layers)


def _close_under_sampling(rows: dict[tuple[int, ...], int], log_odds: list[float]) -> NDArray[np.int32]:
    """Add to `rows` what sampling promising rocks leads to; the row it leads to for every row and rock, or -1."""
    waiting = list(rows)
    links: list[tuple[int, int, int]] = []
    for row in waiting:
        for i, number in enumerate(row):
            if number != GONE and log_odds[number] > 0.0:
                to = (*row[:i], GONE, *row[i + 1 :])
                if to not in rows:
                    rows[to] = len(rows)
                    waiting.append(to)
                links.append((rows[row], i, rows[to]))
    after = np.full((len(rows), len(waiting[0])), -1, np.int32)
    for row_number, i, to_number in links:
        after[row_number, i] = to_number
    return after
