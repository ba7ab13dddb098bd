"""Columns on fresh worlds: as many episodes, or plans, as it takes to know that budgets like the task's are kept."""

from __future__ import annotations

import numpy as np

from cmcts.critic.columns import Column, Sample
from cmcts.exact.column_generation import InfeasibleBudget
from cmcts.frontier.candidates import Candidates, Floats
from cmcts.frontier.frontier import Frontier
from cmcts.frontier.measuring import Measurements
from cmcts.frontier.mixture import Limits

CONFIRMING_BLOCKS = 4  # of a column, on average and at most


def confirmed(candidates: Candidates, wanted: list[int], measurements: Measurements) -> tuple[Column, ...]:
    """The wanted columns, confirmed in blocks; the next one always of the column whose cost leaves the most doubt."""
    trials = {k: candidates.tried[k] for k in wanted}
    samples = {k: measurements.confirm(k, trial.settings, 0) for k, trial in trials.items()}
    blocks = dict.fromkeys(wanted, 1)

    def columns() -> dict[int, Column]:
        return {k: Column(trial.settings, trial.sample, samples[k]) for k, trial in trials.items()}

    for _ in range((CONFIRMING_BLOCKS - 1) * len(wanted)):
        k = _most_doubtful(columns(), blocks, candidates, measurements)
        if k is None:
            break
        samples[k] = samples[k].joined(measurements.confirm(k, trials[k].settings, blocks[k]))
        blocks[k] += 1
    return tuple(columns().values())


def _most_doubtful(
    columns: dict[int, Column], blocks: dict[int, int], candidates: Candidates, measurements: Measurements
) -> int | None:
    """The column of which one more block helps most, at the budget that has to leave the largest share unspent.

    None if no such share exceeds the settings' margin. Of a budget of 0 nothing can be left unspent: there it is the
    middle of the ladder that counts.
    """
    task, ladder = measurements.task, candidates.ladder
    budget = np.asarray(task.budget)
    own: Floats = budget if budget.any() else ladder[len(ladder) // 2]
    frontier = Frontier(task.model, tuple(columns.values()), tuple(own.tolist()))
    found, largest = None, measurements.settings.margin
    for limits in (own, own / 2, 2 * own):
        try:
            weights = frontier.shares(limits)
        except InfeasibleBudget:
            continue
        samples: list[Sample] = [column.confirmed for column in columns.values()]
        rows = Limits.of(samples, limits)
        shares = rows.margins(weights) / np.maximum(limits, 1e-3 * measurements.cost_scale)
        if shares.max() > largest:
            largest, m = float(shares.max()), int(shares.argmax())
            saved = (weights * rows.errors[:, m]) ** 2 / (1 + np.array([blocks[k] for k in columns]))
            found = list(columns)[int(saved.argmax())]
    return found
