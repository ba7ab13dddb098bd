"""In this process: one unit after the other, each on one core or on all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sized

from cmcts.errors import expect
from cmcts.executors.tally import Tally
from cmcts.executors.units import R, U, Work, failure


class Here:
    """Does units in this process; `threads` is what each plans with, None for all cores.

    >>> from cmcts.executors import Here, Work
    >>> list(Here(threads=1).run(Work(abs, "absolute values"), [-1, 2]))
    [(-1, 1), (2, 2)]
    """

    slots = 1

    def __init__(self, threads: int | None = None) -> None:
        expect(threads is None or threads >= 1, "threads >= 1", threads)
        self._threads = threads
        self.tally = Tally()

    @property
    def threads(self) -> int | None:
        """How many threads a unit may plan with."""
        return self._threads

    def run(self, work: Work[U, R], units: Iterable[U]) -> Iterator[tuple[U, R]]:
        """Units with their results, in order."""
        self.tally.expect(len(units) if isinstance(units, Sized) else 0)
        if work.prepare is not None:
            work.prepare()
        for unit in units:
            self.tally.submitted()
            began = time.perf_counter()
            try:
                result = work.function(unit)
            except Exception as error:
                self.tally.dropped(1)
                raise failure(work, unit, error) from error
            self.tally.arrived(work.describe(unit), time.perf_counter() - began, "here")
            yield unit, result

    def halt(self) -> None:
        """Nothing is under way in other threads."""
