"""Several jobs that are made of units, side by side: trainings, say, each of which has to wait for its own units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from cmcts.executors.units import Executor, Halted

T = TypeVar("T")
R = TypeVar("R")

MOST_JOBS = 256  # threads that mostly wait


def together(executor: Executor, job: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
    """`job` of each item with its result, as they end; in threads where the executor does several units at once.

    The first error ends the other jobs as well, and is raised once they have ended.
    """
    if executor.slots == 1 or len(items) < 2:
        for item in items:
            yield item, job(item)
        return
    with ThreadPoolExecutor(min(len(items), executor.slots, MOST_JOBS)) as pool:
        futures = {pool.submit(job, item): item for item in items}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException as error:
            executor.halt()
            pool.shutdown(cancel_futures=True)
            if isinstance(error, Halted):  # whoever caused it has failed as well by now
                raise next(
                    cause
                    for other in futures
                    if not other.cancelled() and (cause := other.exception()) and not isinstance(cause, Halted)
                ) from None
            raise
