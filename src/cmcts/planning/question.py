"""What a search is asked, checked, and how long it may think about it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.planning.deadlines import run_until
from cmcts.random import Stream
from cmcts.search.session import SearchSession


class Question(NamedTuple):
    """From `state` with `budget` left: so many simulations, or until a moment, whichever comes first."""

    state: NDArray[np.float64]  # [S]
    budget: NDArray[np.float64]  # [M]
    multipliers: NDArray[np.float64]  # [M]
    iterations: int | None  # None: time alone ends it
    capacity: int  # nodes that its tree has room for

    def begin(self, session: SearchSession, rng: Stream, after: int | None = None) -> None:
        """Start anew, or go on in the subtree that the action `after` led to if the tree of before has it."""
        rest = (self.state, self.budget, self.multipliers, rng, self.capacity)
        if after is None or not session.resume_at(after, *rest):
            session.begin(*rest)

    def run(self, session: SearchSession, end: float | None) -> None:
        """Search on, up to the limits; `end` is on the clock of `time.perf_counter`."""
        if end is None:
            session.run((self.iterations or 0) - session.iterations)
        else:
            run_until(session, end, self.iterations)
