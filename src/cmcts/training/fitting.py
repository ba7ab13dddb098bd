"""A fit as a unit of work: where there is a cluster, critics are fitted there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from cmcts.executors import Executor, Work
from cmcts.training.learning import Arrays, Batch, fit
from cmcts.training.settings import CriticSettings


def fit_on(
    executor: Executor | None,
    data: Batch,
    settings: CriticSettings,
    action_count: int,
    discounts: Sequence[float],
    seed: int,
    on_chunk: Callable[[int, float], None],
) -> tuple[Arrays, float]:
    """`learning.fit` by an executor; without one, in this process as it is."""
    if executor is None:
        return fit(data, settings, action_count, discounts, seed, on_chunk)
    work = Work(partial(_fit, data, settings, action_count, discounts), "fit of a critic, seed")
    ((_, (arrays, loss)),) = executor.run(work, [seed])
    on_chunk(settings.steps, loss)
    return arrays, loss


def _fit(
    data: Batch, settings: CriticSettings, action_count: int, discounts: Sequence[float], seed: int
) -> tuple[Arrays, float]:
    return fit(data, settings, action_count, discounts, seed)
